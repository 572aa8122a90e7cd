#include "core/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::core {
namespace {

TEST(Units, BytesHaveBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(25.0 * 1024 * 1024), "25.0 MiB");
  EXPECT_EQ(format_bytes(1024.0 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(605.1e6), "577 MiB");
  EXPECT_EQ(format_bytes(5e18), "4441 PiB");
}

TEST(Units, CountsHaveDecimalSuffixes) {
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234), "1.23 k");
  EXPECT_EQ(format_count(151277313), "151 M");
  EXPECT_EQ(format_count(999999), "1.00 M");
  EXPECT_EQ(format_count(2.17e9), "2.17 G");
}

TEST(Units, DurationsRoundIntoTheNextUnit) {
  EXPECT_EQ(format_duration(0.25), "0.250 s");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(59.97), "1 min 00 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(3599.7), "1 h 00 min");
  EXPECT_EQ(format_duration(12000), "3 h 20 min");
  EXPECT_EQ(format_duration(52 * 3600.0), "2 d 04 h");
  EXPECT_EQ(format_duration(-1), "-1.000 s");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "unknown");
}

TEST(Units, DoublesReadLikePythons) {
  EXPECT_EQ(format_double(0.0005), "0.0005");
  EXPECT_EQ(format_double(5e-5), "5e-05");
  EXPECT_EQ(format_double(1.0), "1.0");
  EXPECT_EQ(format_double(-3.0), "-3.0");
  EXPECT_EQ(format_double(1e16), "1e+16");
  EXPECT_EQ(format_double(0.1 + 0.2), "0.30000000000000004");
}

}  // namespace
}  // namespace lockstep::core
