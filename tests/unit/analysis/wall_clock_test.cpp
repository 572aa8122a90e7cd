// Pauses of a window: which of them tell how many a longer run would have.
#include "analysis/wall_clock.h"

#include <gtest/gtest.h>

namespace lockstep::analysis {
namespace {

Pauses pauses_at(std::initializer_list<std::pair<double, double>> places_and_seconds) {
  Pauses pauses;
  for (const auto& [at, seconds] : places_and_seconds) pauses.add(seconds, at);
  return pauses;
}

TEST(Pauses, RegularOnesAreCountedByTheirPeriod) {
  const Pauses pauses = pauses_at({{150, 10}, {450, 10}, {750, 10}});
  EXPECT_DOUBLE_EQ(pauses.seconds_in(1000), 10 * 1000 / 300.0) << "one in 300 steps, wherever the window ends";
  EXPECT_DOUBLE_EQ(pauses.seconds_in(900), 30);
}

TEST(Pauses, ThoseThatEndEarlyAreNotContinued) {
  Pauses pauses;
  for (int i = 1; i <= 12; ++i) pauses.add(60, 300.0 * i);
  EXPECT_DOUBLE_EQ(pauses.seconds_in(6000), 12 * 60) << "after step 3600 there were none";
}

TEST(Pauses, OfTwoKindsAreThoseThatWereThere) {
  Pauses pauses;
  for (int i = 1; i <= 60; ++i) pauses.add(i % 10 == 0 ? 103 : 3, 100.0 * i - 50);
  EXPECT_DOUBLE_EQ(pauses.seconds_in(6000), 54 * 3 + 6 * 103);
}

TEST(Pauses, AHangIsNotMultiplied) {
  const Pauses pauses = pauses_at({{1000, 605}, {2000, 5}, {3000, 5}, {4000, 5}, {5000, 5}});
  EXPECT_DOUBLE_EQ(pauses.seconds_in(6000), 625);
}

TEST(Pauses, FarFromEachOtherNowAndThenAreThoseThatWereThere) {
  const Pauses pauses = pauses_at({{100, 10}, {200, 10}, {5000, 10}});
  EXPECT_DOUBLE_EQ(pauses.seconds_in(6000), 30);
}

}  // namespace
}  // namespace lockstep::analysis
