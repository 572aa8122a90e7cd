#include "stats/statistics.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"

namespace lockstep::stats {
namespace {

const std::vector<double> kValues{9, 1, 4, 16};

TEST(Statistics, DefinitionsOnKnownNumbers) {
  EXPECT_DOUBLE_EQ(mean(kValues), 7.5);
  EXPECT_DOUBLE_EQ(median(kValues), 6.5);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(percentile(kValues, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(kValues, 100), 16);
  EXPECT_DOUBLE_EQ(percentile(kValues, 25), 3.25);  // numpy.percentile([9, 1, 4, 16], 25)
  EXPECT_DOUBLE_EQ(percentile(kValues, 90), 13.9);
  EXPECT_DOUBLE_EQ(percentile(kValues, 75), 10.75);
  EXPECT_NEAR(sample_stddev(kValues), 6.557438524302, 1e-12);
}

TEST(Statistics, OneValue) {
  const std::vector<double> one{5};
  EXPECT_EQ(median(one), 5);
  EXPECT_EQ(percentile(one, 99), 5);
  EXPECT_EQ(sample_stddev(one), 0);
}

TEST(Statistics, NothingAndNaNAreBugsOfTheCaller) {
  EXPECT_THROW(mean({}), Error);
  EXPECT_THROW(median(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()}), Error);
  EXPECT_THROW(percentile(kValues, 101), Error);
}

}  // namespace
}  // namespace lockstep::stats
