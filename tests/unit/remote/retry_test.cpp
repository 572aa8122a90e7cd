#include "remote/retry.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::remote {
namespace {

struct ToldClock {
  std::vector<double> waits;
  double jitter = 1;
  size_t most_waits = 1000;
  RetryClock clock() {
    return {.sleep =
                [this](double seconds) {
                  waits.push_back(seconds);
                  return waits.size() < most_waits;
                },
            .jitter = [this] { return jitter; }};
  }
};

RemoteError failure(bool is_transient) { return RemoteError("remote: failed", "", is_transient, 500, "InternalError"); }

TEST(Retry, WaitsDoubleUpToTheCap) {
  ToldClock told;
  int attempts = 0;
  with_retries({.first_s = 0.5, .cap_s = 3, .max_attempts = 6}, told.clock(), [&] {
    if (++attempts < 6) throw failure(true);
  });
  EXPECT_EQ(attempts, 6);
  EXPECT_EQ(told.waits, (std::vector<double>{0.5, 1, 2, 3, 3}));
}

TEST(Retry, JitterShortensWaitsButNeverToNothing) {
  const RetryPolicy policy{.first_s = 1, .cap_s = 100};
  EXPECT_DOUBLE_EQ(policy.wait_s(3, 0.5), 2);
  EXPECT_DOUBLE_EQ(policy.wait_s(3, 0), 0.4);
  EXPECT_DOUBLE_EQ(policy.wait_s(5000, 1), 100);
}

TEST(Retry, GivesUpAfterTheLastAttempt) {
  ToldClock told;
  int attempts = 0, heard = 0;
  EXPECT_THROW(with_retries(
                   {.max_attempts = 3}, told.clock(), [&] { ++attempts, throw failure(true); },
                   [&](const RemoteError&, int) { ++heard; }),
               RemoteError);
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(heard, 2);
}

TEST(Retry, WhatCannotSucceedLaterIsNotTriedAgain) {
  ToldClock told;
  int attempts = 0;
  EXPECT_THROW(with_retries({}, told.clock(), [&] { ++attempts, throw failure(false); }), RemoteError);
  EXPECT_EQ(attempts, 1);
  EXPECT_TRUE(told.waits.empty());
}

TEST(Retry, AStoppedWaitEndsIt) {
  ToldClock told;
  told.most_waits = 2;
  EXPECT_THROW(with_retries({}, told.clock(), [&] { throw failure(true); }), Interrupted);
  EXPECT_EQ(told.waits.size(), 2u);
  EXPECT_FALSE(real_clock([] { return true; }).sleep(1e6));
}

}  // namespace
}  // namespace lockstep::remote
