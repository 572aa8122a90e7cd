// `lockstep train clip --cache-locked-features`: the same losses, and towers that do not run twice.
#include "commands/train_fixture.h"

namespace lockstep::tests {
namespace {

class TrainLocked : public TrainFixture {
 protected:
  /// The losses of two epochs with and without a cache are the same; what is known afterwards of each step.
  std::vector<double> cached_shares(int ranks, const std::vector<std::string>& flags) const {
    const auto run = [&](const std::string& name, std::vector<std::string> more) {
      more.insert(more.end(), flags.begin(), flags.end());
      const auto done = ranks == 1 ? train(name, more) : train_on(ranks, name, more);
      EXPECT_EQ(done.exit_code, 0) << done.err;
    };
    run("plain", {});
    run("cached", {"--cache-locked-features", "64M"});
    const auto plain = losses("plain"), cached = losses("cached");
    EXPECT_EQ(plain.size(), cached.size());
    EXPECT_NE(plain.front(), plain.back());
    for (size_t step = 0; step < plain.size() && step < cached.size(); ++step)
      EXPECT_NEAR(cached[step], plain[step], 2e-6 * plain[step]) << "step " << step;
    std::vector<double> shares;
    for (const auto& step : record::read_steps(logs_.path() / "cached").steps)
      shares.push_back(step.cached_share.value_or(-1));
    EXPECT_FALSE(record::read_steps(logs_.path() / "plain").steps.front().cached_share.has_value());
    return shares;
  }
};

/// 12 steps an epoch.
TEST_F(TrainLocked, PicturesAreEncodedOnce) {
  const auto shares = cached_shares(1, {"--lock-image", "--train-transform", "eval"});
  ASSERT_EQ(shares.size(), 24u);
  EXPECT_EQ(shares.front(), 0);
  for (size_t step = 12; step < 24; ++step) EXPECT_EQ(shares[step], 1) << "step " << step;
}

/// Micro-batches after the first run twice in a step.
TEST_F(TrainLocked, WhatRunsAgainInAStepIsNotCounted) {
  const auto shares = cached_shares(1, {"--lock-image", "--train-transform", "eval", "--accum-freq", "2"});
  ASSERT_EQ(shares.size(), 12u);
  for (size_t step = 0; step < shares.size(); ++step) EXPECT_EQ(shares[step], step < 6 ? 0 : 1) << "step " << step;
}

/// Pictures are cropped at random meanwhile; micro-batches after the first run twice in a step.
TEST_F(TrainLocked, TextsAreEncodedOnceOnTwoRanks) {
  const auto shares = cached_shares(2, {"--lock-text", "--accum-freq", "2"});
  ASSERT_EQ(shares.size(), 6u);
  EXPECT_GT(shares.back(), shares.front());
}

TEST_F(TrainLocked, RandomCropsAreRefused) {
  const auto refused = train("crops", {"--lock-image", "--cache-locked-features", "64M"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("serves no tower: pictures are cropped at random"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "crops"));
}

}  // namespace
}  // namespace lockstep::tests
