// Contention that a machine file tells is a number with a doubt: steps of one and two ranks correct it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/strings.h"
#include "predict/machine_file.h"
#include "predict/plan_step.h"

namespace lockstep::predict {
namespace {

constexpr double kPeak = 0.1e12, kMemory = 0.02e12, kNetwork = 2e9;

/// Two cores; "": the file tells no contention.
Machine cores(const std::string& contention) {
  return parse_machine(
      "devices-per-node = 1\ndevices-at-a-time = 2\nnode-gbytes-per-s = 2\nmemory-gbytes = 12\npeak-fp32-tflops = 0.1\n"
      "memory-tbytes-per-s = 0.02\n" +
          contention,
      "cores.toml");
}

Machine cores_of(double products, double memory) {
  return cores(fmt::format("product-contention = {}\nmemory-contention = {}\n", products, memory));
}

std::vector<PlannedStep> planned(int64_t ranks, const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"train",
                                    "gpt",
                                    "--num-layers=4",
                                    "--hidden-size=256",
                                    "--num-attention-heads=8",
                                    "--seq-length=256",
                                    "--max-position-embeddings=256",
                                    "--vocab-size=8192",
                                    "--device=cpu",
                                    "--mock-data",
                                    "--train-iters=10",
                                    "--lr=1e-4"};
  words.insert(words.end(), flags.begin(), flags.end());
  return {plan_one(words, ranks, 1)};
}

std::vector<std::string> batch(int64_t micro, int64_t global) {
  return {fmt::format("--micro-batch-size={}", micro), fmt::format("--global-batch-size={}", global)};
}

/// A step of two cores whose products and memory slow one another so many times, by arithmetic of its own: half of the
/// peak, a fifth of the gradients exposed, four ranks in turns.
double true_step_s(const PlannedStep& step, double product_contention, double memory_contention) {
  const auto ranks = static_cast<double>(step.num_ranks);
  const bool is_shared = step.num_ranks > 1;
  const double products = step.flops_per_rank / (0.5 * kPeak) * (is_shared ? product_contention : 1);
  const double passes = step.moved_bytes / (0.85 * kMemory) * (is_shared ? memory_contention : 1);
  const double bytes = std::accumulate(step.gradient_bucket_bytes.begin(), step.gradient_bucket_bytes.end(), 0.0);
  const double gradients = bytes * (ranks - 1) / ranks / (0.7 * kNetwork);
  return (products + passes) * std::max(1.0, ranks / 2) + 0.2 * gradients + 0.02;
}

struct ChangedCase {
  const char* name;
  int64_t ranks;
  std::vector<std::string> flags;
};
const std::vector<ChangedCase>& cases() {
  static const std::vector<ChangedCase> kCases = {{"4 ranks", 4, batch(4, 16)},
                                                  {"twice the batch", 2, batch(8, 16)},
                                                  {"half the batch", 2, batch(2, 4)},
                                                  {"2 micro-batches", 2, batch(4, 16)}};
  return kCases;
}

std::vector<PlannedStep> base_of(const std::vector<int64_t>& ranks) {
  std::vector<PlannedStep> base;
  for (const int64_t count : ranks) base.push_back(planned(count, batch(4, 4 * count)).front());
  return base;
}

/// By measured steps of so many ranks, of a machine whose contentions are 1.26 and 1.3.
CurvePrediction predicted(const ChangedCase& wanted, const Machine& machine,
                          const std::vector<int64_t>& measured_ranks) {
  const auto base = base_of(measured_ranks);
  std::vector<MeasuredStep> measured;
  for (const PlannedStep& step : base) measured.push_back({step.nodes, true_step_s(step, 1.26, 1.3)});
  return predict_changed(base, measured, planned(wanted.ranks, wanted.flags), machine);
}

std::string notes_of(const CurvePrediction& prediction) { return core::join(prediction.curve.notes, " "); }

TEST(Contention, MeasuredStepsOfOneAndTwoRanksCorrectTheFile) {
  for (const double told : {1.26, 1.99, 1.6, 1.05, 1.0}) {
    const Machine machine = cores_of(told, 1.3);
    for (const ChangedCase& one : cases()) {
      const double truth = true_step_s(planned(one.ranks, one.flags).front(), 1.26, 1.3);
      const CurvePrediction prediction = predicted(one, machine, {1, 2});
      const Interval& step = prediction.forecast.steps.front().step_s;
      EXPECT_NEAR(step.p50, truth, (told == 1.26 ? 0.05 : 0.1) * truth) << one.name << ", told " << told;
      EXPECT_TRUE(step.covers90(truth)) << one.name << ", told " << told << ": " << step.p5 << " to " << step.p95;
    }
  }
}

TEST(Contention, WordsSayWhereStepsContradictTheFile) {
  const std::string wrong = notes_of(predicted(cases().front(), cores_of(1.99, 1.3), {1, 2}));
  EXPECT_NE(wrong.find("product-contention 1.99 of cores.toml: the measured steps say 1.2"), std::string::npos)
      << wrong;
  EXPECT_NE(wrong.find("measure it again on an idle machine"), std::string::npos) << wrong;
  for (const std::string& right : {notes_of(predicted(cases().front(), cores_of(1.26, 1.3), {1, 2})),
                                   notes_of(predicted(cases().front(), cores_of(1.99, 1.3), {1})),
                                   notes_of(predicted(cases().front(), cores_of(1.99, 1.3), {2}))})
    EXPECT_EQ(right.find("-contention"), std::string::npos) << right;
}

// Steps of one rank say nothing of two: the interval holds what the file says and what it may be instead.
TEST(Contention, OneCalibratedSizeLeavesTheDoubt) {
  const ChangedCase two = {"2 ranks", 2, batch(4, 8)}, one = {"1 rank", 1, batch(4, 4)};
  for (const auto& [wanted, measured_ranks] : {std::pair(two, 1), {one, 2}}) {
    const PlannedStep plan = planned(wanted.ranks, wanted.flags).front();
    const Interval doubted = predicted(wanted, cores_of(1.99, 1.3), {measured_ranks}).forecast.steps.front().step_s;
    EXPECT_TRUE(doubted.covers90(true_step_s(plan, 1.26, 1.3))) << wanted.name << doubted.p5 << " " << doubted.p95;
    const Interval informed = predicted(wanted, cores_of(1.99, 1.3), {1, 2}).forecast.steps.front().step_s;
    EXPECT_LT(informed.relative_half_width(), 0.5 * doubted.relative_half_width()) << wanted.name;
  }
  // The same share of cores: nothing hangs on contention.
  const Interval more = predicted(cases()[1], cores_of(1.99, 1.3), {2}).forecast.steps.front().step_s;
  EXPECT_NEAR(more.p50, true_step_s(planned(2, batch(8, 16)).front(), 1.26, 1.3), 0.1 * more.p50);
}

TEST(Contention, WhatNobodyMeasuredIsNoUnknown) {
  const auto unknowns = [](const Machine& machine) {
    std::vector<Latent> latents;
    for (const Learned& one : predicted(cases().front(), machine, {1, 2}).forecast.learned)
      if (one.latent == kProductContention || one.latent == kMemoryContention) latents.push_back(one.latent);
    return latents;
  };
  EXPECT_EQ(unknowns(cores("")).size(), 0u);
  EXPECT_EQ(unknowns(cores("memory-contention = 1.3\n")), std::vector{kMemoryContention});
  EXPECT_EQ(unknowns(cores_of(1, 1)).size(), 2u) << "a measured 1 may have been disturbed, too";
}

// Devices that take turns are no slower than that, and none is faster beside others than alone.
TEST(Contention, StaysBetweenAloneAndTakingTurns) {
  for (const double measured : {1.0, 1.05, 1.5, 2.1, 90.0}) {
    const Contention contention{.measured = measured, .log_sd = 1, .most = 2};
    double before = 1;
    for (const double latent : {-40.0, -2.0, -1.0, 0.0, 1.0, 2.0, 40.0}) {
      EXPECT_GE(contention.with_all(latent), before) << measured;
      before = contention.with_all(latent);
      EXPECT_LE(before, 2 + 1e-9) << measured;
    }
    EXPECT_DOUBLE_EQ(contention.slowdown(0, 1), 1);
    EXPECT_DOUBLE_EQ(contention.slowdown(1), measured);
  }
  EXPECT_NEAR((Contention{.measured = 1.05, .log_sd = 1, .most = 2}.with_all(0)), 1.05, 0.001);
  EXPECT_DOUBLE_EQ((Contention{.measured = 1.5}.with_all(3)), 1.5) << "known exactly";
}

// While the second stage waits for its first micro-batch the first one has the machine alone.
TEST(Contention, PipelineRanksThatWaitDisturbNobody) {
  const Machine machine = cores_of(1.5, 1.5);
  const auto size_of = [&](const std::vector<std::string>& flags) {
    return model_of({planned(1, batch(4, 4)).front(), planned(2, flags).front()}, machine).sizes[1];
  };
  std::vector<std::string> flags = batch(4, 16);
  EXPECT_DOUBLE_EQ(size_of(flags).crowding, 1);
  flags.emplace_back("--pipeline-model-parallel-size=2");
  const Size staged = size_of(flags);
  EXPECT_GT(staged.bubble, 0.2);
  EXPECT_NEAR(staged.crowding, 2 / (1 + staged.bubble) - 1, 1e-12);
}

// Steps of a host that others use scatter more than those of devices.
TEST(Contention, StepsOnCoresScatterMore) {
  const auto half_width = [](const std::string& at_a_time) {
    const Machine machine = parse_machine(
        "devices-per-node = 1\nnode-gbytes-per-s = 2\nmemory-gbytes = 12\npeak-fp32-tflops = 0.1\n" + at_a_time,
        "cores.toml");
    const auto plan = planned(1, batch(4, 4));
    return predict_steps(model_of(plan, machine), plan, {{1, 0.5}}).forecast.steps.front().step_s.relative_half_width();
  };
  EXPECT_GT(half_width("devices-at-a-time = 2\n"), 2 * half_width(""));
}

}  // namespace
}  // namespace lockstep::predict
