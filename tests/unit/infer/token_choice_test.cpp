#include "infer/token_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "core/error.h"

namespace lockstep::infer {
namespace {

/// Logits whose softmax are these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + 3.0));
  return logits;
}

/// Draws, and compares the frequencies with what is expected: chi-squared over the tokens that may come.
void expect_frequencies(const std::vector<float>& logits, const TokenChoice& choice,
                        const std::vector<double>& expected) {
  constexpr int kDraws = 40000;
  core::CounterRng rng(core::stream_key({11, 7}));
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<size_t>(choose_token(logits, choice, rng)));
  double chi_squared = 0;
  int free = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    ++free;
    chi_squared += std::pow(counts[i] - kDraws * expected[i], 2) / (kDraws * expected[i]);
  }
  EXPECT_LT(chi_squared, free + 4 * std::sqrt(2.0 * std::max(1, free)));  // four deviations; the seed is fixed
  EXPECT_EQ(rng.position(), static_cast<uint64_t>(kDraws));
}

const std::vector<double> kShares = {0.05, 0.4, 0.1, 0.25, 0.15, 0.05};

TEST(TokenChoice, GreedyTakesTheFirstOfTheBestAndDrawsNothing) {
  core::CounterRng rng(1);
  EXPECT_EQ(choose_token(std::vector<float>{-1, 2, 0.5f, 2}, {}, rng), 1);
  EXPECT_EQ(choose_token(std::vector<float>{-INFINITY, -3}, {}, rng), 1);
  EXPECT_EQ(rng.position(), 0u);
}

TEST(TokenChoice, FrequenciesAreTheSoftmaxAtEveryTemperature) {
  expect_frequencies(logits_of(kShares), {.is_greedy = false}, kShares);
  std::vector<double> sharp = kShares;
  double sum = 0;
  for (double& p : sharp) sum += p = p * p;
  for (double& p : sharp) p /= sum;
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .temperature = 0.5}, sharp);
  const std::vector<double> far = {0.5, 0, 0.5};
  expect_frequencies({1000, -INFINITY, 1000}, {.is_greedy = false}, far);
}

TEST(TokenChoice, TopKLeavesTheLikeliestAndOfEqualsTheFirst) {
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_k = 3}, {0, 0.5, 0, 0.3125, 0.1875, 0});
  expect_frequencies({0, 1, 1, 1}, {.is_greedy = false, .top_k = 2}, {0, 0.5, 0.5, 0});
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_k = 100}, kShares);
}

TEST(TokenChoice, TopPLeavesTheFewestThatReachIt) {
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_p = 0.6}, {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0, 0});
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_p = 0.66}, {0, 0.5, 0, 0.3125, 0.1875, 0});
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_p = 1e-9}, {0, 1, 0, 0, 0, 0});
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_p = 0.9999999}, kShares);
  // Behind top_k, shares are those among its tokens: 0.5 and 0.3125 reach 0.8, while 0.4 and 0.25 of all would not.
  expect_frequencies(logits_of(kShares), {.is_greedy = false, .top_k = 3, .top_p = 0.8},
                     {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0, 0});
}

TEST(TokenChoice, TheSameKeyGivesTheSameTokens) {
  const std::vector<float> logits = logits_of(kShares);
  const TokenChoice choice{.is_greedy = false};
  std::vector<int32_t> runs[3];
  for (int run = 0; run < 3; ++run) {
    core::CounterRng rng(core::stream_key({run == 2 ? 6u : 5u}));
    for (int i = 0; i < 200; ++i) runs[run].push_back(choose_token(logits, choice, rng));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(TokenChoice, LogitsThatAreNoNumbersAreRefused) {
  core::CounterRng rng(1);
  for (const float bad : {NAN, INFINITY}) {
    try {
      choose_token(std::vector<float>{0, 1, bad}, {}, rng);
      FAIL() << bad << " was taken";
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("token 2"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep::infer
