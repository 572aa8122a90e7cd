// Data that arrive too slowly: known rates of loader and storage, and waits that runs have recorded.
#include "predict/input_rates.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "predict/advise.h"
#include "predict/machine_file.h"
#include "predict/page.h"
#include "predict/run_curves.h"
#include "predict/validation.h"
#include "record/run_record.h"

namespace lockstep::predict {
namespace {

PlannedCommand clip_of_80() {
  const std::filesystem::path recipes = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "recipes";
  return {.words = {"train", "clip", "--config", (recipes / "clip_vitg14_dgx.toml").string(), "--batch-size=80"}};
}

/// 640 samples a node and step.
CurvePrediction predict_clip(const InputRates& rates, const std::vector<MeasuredStep>& measured = {}) {
  Machine machine = find_machine("dgx-h100");
  machine.input = rates;
  std::vector<std::string> refused;
  const auto steps = plan_steps(clip_of_80(), machine, {1, 2, 16, 64}, refused);
  return predict_steps(model_of(steps, machine), steps, measured);
}

double sum_of_parts(const PredictedStep& step) {
  return std::accumulate(step.parts_s.begin(), step.parts_s.end(), 0.0);
}

std::string fact_of(const CurvePrediction& prediction, const std::string& name) {
  for (const KnownFact& fact : prediction.facts)
    if (fact.name == name) return fact.value + "; " + fact.source;
  return "";
}

// A loader of a fifth of the speed of the devices is all that a step is, however many nodes have one.
TEST(InputRates, ALoaderSlowerThanComputeIsTheStep) {
  const CurvePrediction free = predict_clip({}, {{1, 0.4}, {2, 0.41}});
  const CurvePrediction slow = predict_clip({.node_samples_per_s = 320}, {{1, 0.4}, {2, 0.41}});
  for (size_t i = 0; i < slow.targets.size(); ++i) {
    const PredictedStep& step = slow.forecast.steps[i];
    EXPECT_NEAR(step.step_s.p50, 640.0 / 320, 0.005);
    EXPECT_GE(step.step_s.p5, 640.0 / 320 - 1e-9) << "no draw is faster than the input";
    EXPECT_DOUBLE_EQ(step.parts_s[kCompute], free.forecast.steps[i].parts_s[kCompute]);
    EXPECT_NEAR(step.parts_s[kInput], 2 - sum_of_parts(free.forecast.steps[i]), 0.05) << "medians do not quite add up";
    EXPECT_EQ(free.forecast.steps[i].parts_s[kInput], 0);
  }
  const std::string notes = core::join(slow.curve.notes, " ");
  EXPECT_NE(notes.find("The input is the limit at 1, 2, 16, 64 nodes by the loader of a node (320 samples/s)"),
            std::string::npos)
      << notes;
  EXPECT_NE(notes.find("at 1, 2 nodes took no longer than their input takes"), std::string::npos) << notes;
  const core::Json json = prediction_json(slow);
  EXPECT_EQ(json.at("input").at("node_samples_per_s"), 320);
  EXPECT_EQ(json.at("predicted").at(0).at("input_s"), 2);
  EXPECT_EQ(json.at("predicted").at(0).at("input_limit"), "loader");
  EXPECT_GT(json.at("predicted").at(0).at("parts_s").at("input"), 1.5);
  const draw::Table parts = parts_table(slow), no_input = parts_table(free);
  EXPECT_EQ(parts.columns[parts.columns.size() - 2].title, "input");
  EXPECT_EQ(no_input.columns.size() + 1, parts.columns.size());
}

// A step as long as its input says no more of compute than that it is shorter.
TEST(InputRates, AStepAtItsInputIsNoComputeTime) {
  const InputRates slow{.node_samples_per_s = 640 / 0.8};
  const CurvePrediction waited = predict_clip(slow, {{1, 0.803}, {2, 0.798}}), prior = predict_clip(slow);
  // The prior holds where it is below the bound.
  EXPECT_NEAR(waited.forecast.steps[0].parts_s[kCompute], prior.forecast.steps[0].parts_s[kCompute],
              0.2 * prior.forecast.steps[0].parts_s[kCompute]);
  EXPECT_LT(waited.forecast.steps[0].parts_s[kCompute], 0.7);
  EXPECT_NEAR(waited.forecast.steps[0].step_s.p50, 0.8, 0.02);
  EXPECT_NE(core::join(waited.curve.notes, " ").find("what they compute has an upper bound, and no more is known"),
            std::string::npos);
  const CurvePrediction tight = predict_clip({.node_samples_per_s = 640 / 0.2}, {{1, 0.2}});
  EXPECT_LT(tight.forecast.steps[0].parts_s[kCompute], 0.2) << "far below the prior";

  // One node computes, 16 wait for the storage: they are left out, and the fit is that of one node alone.
  const InputRates shared{.storage_samples_per_s = 10240 / 0.75};
  const CurvePrediction both = predict_clip(shared, {{1, 0.4}, {16, 0.75}}), one = predict_clip(shared, {{1, 0.4}});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(both.forecast.steps[i].step_s.p50, one.forecast.steps[i].step_s.p50);
  EXPECT_NE(core::join(both.curve.notes, " ").find("The steps at 16 nodes took as long as their input takes"),
            std::string::npos);
}

// 16 nodes need 10240 samples a step, 64 nodes 40960, of one storage.
TEST(InputRates, StorageThatAllNodesShareLimitsTheLargeSizes) {
  const CurvePrediction free = predict_clip({}, {{1, 0.4}});
  const CurvePrediction shared = predict_clip({.storage_samples_per_s = 40960 / 3.0}, {{1, 0.4}});
  EXPECT_EQ(shared.forecast.steps[0].step_s.p50, free.forecast.steps[0].step_s.p50);
  EXPECT_EQ(shared.forecast.steps[1].step_s.p95, free.forecast.steps[1].step_s.p95);
  EXPECT_NEAR(shared.forecast.steps[2].step_s.p50, 0.75, 0.01);
  EXPECT_NEAR(shared.forecast.steps[3].step_s.p50, 3, 0.05);
  const core::Json rows = prediction_json(shared).at("predicted");
  EXPECT_TRUE(rows.at(0).at("input_limit").is_null());
  EXPECT_EQ(rows.at(3).at("input_limit"), "storage");
  EXPECT_NE(core::join(shared.curve.notes, " ").find("at 16, 64 nodes by the storage that all nodes share"),
            std::string::npos);
}

TEST(InputRates, MoreBandwidthNeverSlows) {
  std::vector<double> node = {200, 900, 1400, 1600, 2500, 1e6}, storage = {1000, 2600, 60000, 90000, 1e9};
  const auto steps_of = [](double of_node, double of_all) {
    return predict_clip({.node_samples_per_s = of_node, .storage_samples_per_s = of_all}).forecast.steps;
  };
  const auto free = predict_clip({}).forecast.steps;
  const auto expect_no_slower = [](const std::vector<PredictedStep>& fast, const std::vector<PredictedStep>& slow) {
    for (size_t i = 0; i < fast.size(); ++i)
      for (double Interval::*quantile : {&Interval::p5, &Interval::p50, &Interval::p95})
        EXPECT_LE(fast[i].step_s.*quantile, slow[i].step_s.*quantile);
  };
  for (size_t a = 0; a < node.size(); ++a)
    for (size_t b = 0; b < storage.size(); ++b) {
      const auto steps = steps_of(node[a], storage[b]);
      expect_no_slower(free, steps);
      if (a > 0) expect_no_slower(steps, steps_of(node[a - 1], storage[b]));
      if (b > 0) expect_no_slower(steps, steps_of(node[a], storage[b - 1]));
    }
}

TEST(InputRates, WhatIsNotKnownIsSaidToBeFree) {
  EXPECT_EQ(fact_of(predict_clip({}), "input"), "not known; assumed free; --input-samples-per-s N tells it");
  EXPECT_EQ(fact_of(predict_clip({.node_samples_per_s = 900, .storage_samples_per_s = 5000}), "input"),
            "900 samples/s of a node, 5000 samples/s of all nodes; --input-samples-per-s, --storage-samples-per-s");
  EXPECT_FALSE(prediction_json(predict_clip({})).contains("input"));
}

// Where the loader is the limit no batch and no layout helps.
TEST(InputRates, NoBatchIsFasterThanTheLoader) {
  Machine machine = find_machine("dgx-h100");
  machine.input = {.node_samples_per_s = 320};
  const std::vector<std::string> words = clip_of_80().words;
  const AdviceList list = advise(
      {.words = words, .nodes = 2, .steps = {plan_one(words, 2, machine.devices_per_node)}, .with_other_batches = true},
      machine);
  ASSERT_EQ(list.other_batches.size(), 4u);
  for (const BatchAdvice& other : list.other_batches) EXPECT_NEAR(other.samples_per_s_per_node, 320, 2);
  EXPECT_NEAR(list.ranked.front().samples_per_s, 640, 4);
  EXPECT_NE(core::join(advice_table(list, machine).notes, " ").find("Input: 320 samples/s of a node"),
            std::string::npos);
}

/// Runs of this program at 1, 2 and 4 nodes of 4 devices, 256 samples a node.
MeasuredCurve recorded_curve(double step_ms, double wait_ms, bool is_strong = false) {
  core::TempDir folder;
  for (const int nodes : {1, 2, 4}) {
    core::Json attempt = {{"attempt", 1}, {"task", "imagenet"}};
    const int global_batch = is_strong ? 1024 : 256 * nodes;
    attempt["setup"] = {{"task", "imagenet"},   {"model", "resnet50"},          {"nodes", nodes},
                        {"devices", 4 * nodes}, {"global_batch", global_batch}, {"sample_unit", "images"},
                        {"system", "Leonardo"}};
    record::RunRecord record(folder.path() / fmt::format("n{}", nodes), attempt);
    const double part = is_strong ? 1.0 / nodes : 1;
    for (int step = 0; step < 40; ++step)
      record.append_step({.step = step,
                          .samples = global_batch,
                          .step_ms = part * step_ms + nodes + 0.01 * (step % 3),
                          .data_wait_ms = part * wait_ms});
    record.finish({});
  }
  return read_run_curves({folder.path().string()}).at(0);
}

std::vector<Target> sizes_of(const MeasuredCurve& curve, const std::vector<double>& sizes) {
  std::vector<Target> targets;
  for (const double size : sizes) targets.push_back({size, size_of(curve, size)});
  return targets;
}

// What runs waited is a part of its own, the same seconds for each sample; the step stays what it was.
TEST(InputRates, RecordedWaitsAreShownAndCarried) {
  const MeasuredCurve waiting = recorded_curve(400, 60), busy = recorded_curve(400, 0);
  const CurvePrediction shown = predict_curve(waiting, {}, sizes_of(waiting, {8, 32}));
  const CurvePrediction plain = predict_curve(busy, {}, sizes_of(busy, {8, 32}));
  for (size_t i = 0; i < 2; ++i) {
    const PredictedStep &step = shown.forecast.steps[i], &without = plain.forecast.steps[i];
    EXPECT_DOUBLE_EQ(step.step_s.p50, without.step_s.p50);
    EXPECT_NEAR(step.parts_s[kInput], 0.060, 0.001);
    EXPECT_NEAR(step.parts_s[kInput] + step.parts_s[kCompute], without.parts_s[kCompute], 1e-9);
    EXPECT_EQ(without.parts_s[kInput], 0);
  }
  EXPECT_EQ(fact_of(shown, "waits for data").rfind("14.9 % of the measured steps", 0), 0u)
      << fact_of(shown, "waits for data");
  EXPECT_EQ(fact_of(plain, "waits for data").rfind("0.0 % of the measured steps", 0), 0u);
  const MeasuredCurve strong = recorded_curve(400, 60, true);
  ASSERT_TRUE(strong.is_strong);
  const CurvePrediction halved = predict_curve(strong, {}, sizes_of(strong, {8}));
  EXPECT_NEAR(halved.forecast.steps[0].parts_s[kInput], 0.060 / 8, 0.0005) << "an eighth of the samples a device";
}

TEST(InputRates, ARowAtItsInputIsNoComputeTime) {
  MeasuredCurve curve = recorded_curve(400, 0);  // 401, 402 and 404 ms
  const CurvePrediction free = predict_curve(curve, {}, sizes_of(curve, {8}));
  take_input({.storage_samples_per_s = 4 * 256 / 0.404}, curve);
  const CurvePrediction last_waits = predict_curve(curve, {}, sizes_of(curve, {4}));
  MeasuredCurve first_two = curve;
  first_two.points.pop_back();
  EXPECT_EQ(last_waits.forecast.steps[0].step_s.p50,
            predict_curve(first_two, {}, sizes_of(curve, {4})).forecast.steps[0].step_s.p50);
  MeasuredCurve all_wait = recorded_curve(400, 0);
  take_input({.node_samples_per_s = 256 / 0.402}, all_wait);
  const CurvePrediction bound = predict_curve(all_wait, {}, sizes_of(all_wait, {8}));
  EXPECT_LT(bound.forecast.steps[0].parts_s[kCompute], 0.7 * free.forecast.steps[0].parts_s[kCompute]);
  EXPECT_NEAR(bound.forecast.steps[0].step_s.p50, 0.402, 0.01);
}

TEST(InputRates, RatesLimitCurvesOfRunsToo) {
  MeasuredCurve weak = recorded_curve(400, 0), strong = recorded_curve(400, 0, true);
  take_input({.node_samples_per_s = 1e5, .storage_samples_per_s = 4096}, weak);
  const CurvePrediction prediction = predict_curve(weak, {}, sizes_of(weak, {8, 32}));
  EXPECT_NEAR(prediction.targets[0].at.input_s, 8 * 256 / 4096.0, 1e-9);
  EXPECT_NEAR(prediction.forecast.steps[1].step_s.p50, 2, 0.03);
  take_input({.node_samples_per_s = 1024}, strong);
  EXPECT_NEAR(size_of(strong, 8).input_s, 1.0 / 8, 1e-9) << "eight loaders share the batch";
  MeasuredCurve unknown = recorded_curve(400, 0);
  unknown.work.local_batch.reset();
  EXPECT_NO_THROW(take_input({}, unknown));
  EXPECT_THROW(take_input({.node_samples_per_s = 1}, unknown), UsageError);
}

}  // namespace
}  // namespace lockstep::predict
