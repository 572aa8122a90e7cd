#include "record/bus_factor.h"

#include <gtest/gtest.h>

namespace lockstep::record {
namespace {

TEST(BusFactor, IsThatOfNcclTestsForEverySpelling) {
  for (const char* kind : {"all_reduce", "all-reduce", "AllReduce", "allreduce_coalesced"})
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4).value(), 1.5) << kind;
  for (const char* kind : {"all_gather", "all_gather_into", "reduce-scatter", "reduce_scatter", "alltoall",
                           "all_to_all", "scatter", "gather", "hypercube"})
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4).value(), 0.75) << kind;
  for (const char* kind : {"broadcast", "reduce", "sendrecv", "send_recv", "send-receive", "recv"})
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4).value(), 1) << kind;
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 1).value(), 0);
  EXPECT_FALSE(bus_factor("barrier", 4));
  EXPECT_FALSE(bus_factor("all_reduce", 0));
}

}  // namespace
}  // namespace lockstep::record
