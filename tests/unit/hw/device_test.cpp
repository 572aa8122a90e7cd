#include "hw/device.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::hw {
namespace {

TEST(Device, CpuNeedsNoGpu) { EXPECT_EQ(choose_device(DeviceKind::kCpu, 0, 3, 4).kind, DeviceKind::kCpu); }

TEST(Device, TheOnlyVisibleOneWhateverTheLocalRank) {
  for (int local_rank = 0; local_rank < 4; ++local_rank)
    EXPECT_EQ(choose_device(DeviceKind::kCuda, 1, local_rank, 4).index, 0);
}

TEST(Device, LocalRankWhereSeveralAreVisible) {
  for (int local_rank = 0; local_rank < 4; ++local_rank)
    EXPECT_EQ(choose_device(DeviceKind::kCuda, 4, local_rank, 4).index, local_rank);
  EXPECT_EQ(choose_device(DeviceKind::kCuda, 8, 1, 2).index, 1);
}

TEST(Device, AnUnfittingCountNamesBothNumbers) {
  for (const int local_rank : {0, 1, 4}) {
    try {
      choose_device(DeviceKind::kCuda, 2, local_rank, 5);
      FAIL() << "accepted";
    } catch (const EnvironmentError& error) {
      EXPECT_STREQ(error.what(), "hw: 5 local ranks, but only 2 GPUs are visible");
    }
  }
  EXPECT_THROW(choose_device(DeviceKind::kCuda, 2, 2, 1), EnvironmentError);  // local size unknown, rank does not fit
}

TEST(Device, NoVisibleGpuIsAnError) { EXPECT_THROW(choose_device(DeviceKind::kCuda, 0, 0, 1), EnvironmentError); }

TEST(Cores, SharedOutButNeverBelowOne) {
  EXPECT_GE(usable_cpu_cores(), 1);
  EXPECT_EQ(cpu_threads_per_rank(16, 4), 4);
  EXPECT_EQ(cpu_threads_per_rank(15, 4), 3);
  EXPECT_EQ(cpu_threads_per_rank(2, 8), 1);
}

}  // namespace
}  // namespace lockstep::hw
