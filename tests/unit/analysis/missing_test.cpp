// What is asked for when sources lack a fact, and whether following the advice is right.
#include "analysis/missing.h"
#include "analysis/analyse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/path_pattern.h"
#include "analysis/tables.h"
#include "core/strings.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::make_run;
using Paths = std::vector<std::filesystem::path>;
using Counts = std::vector<int64_t>;

/// Runs of 1, 2, 4 nodes without the facts that `forget` takes away.
template <typename Forget>
std::vector<std::string> missing_without(const Forget& forget, const std::vector<int64_t>& sizes = {1, 2, 4}) {
  std::vector<RunSummary> runs;
  for (const int64_t nodes : sizes) {
    record::RunData run = make_run({.name = fmt::format("n{}", nodes), .nodes = nodes});
    run.source = fmt::format("/logs/resnet50_{}nodes.out", nodes);
    forget(run);
    runs.push_back(summarise_run(run, {}));
  }
  return analyse(std::move(runs), {}).missing;
}

std::string line_of(const std::vector<std::string>& missing, const std::string& fact) {
  for (const std::string& line : missing)
    if (core::starts_with(line, fact + " (")) return line;
  return "";
}

bool holds(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

void forget_batch(record::RunData& run) {
  run.setup.samples_per_device.reset(), run.setup.global_batch.reset(), run.setup.devices.reset();
  for (double& samples : run.steps.samples) samples = std::nan("");
}

TEST(Missing, WhatFollowsTheSizeIsNotAskedForAsOneValueOfAllRuns) {
  const auto no_batch = missing_without(forget_batch);
  const std::string batch = line_of(no_batch, "global_batch");
  EXPECT_LT(batch.find("--samples-per-device"), batch.find("--global-batch")) << batch;
  EXPECT_TRUE(holds(batch, "throughput and telling weak from strong scaling")) << batch;
  EXPECT_FALSE(holds(batch, "--fact global_batch=")) << batch;
  EXPECT_EQ(line_of(no_batch, "samples_per_device"), "");
  EXPECT_TRUE(holds(line_of(no_batch, "devices"), "--devices-per-node")) << line_of(no_batch, "devices");
  const std::string nodes = line_of(
      missing_without([](record::RunData& run) { run.setup.nodes.reset(), run.setup.devices.reset(); }), "nodes");
  EXPECT_TRUE(holds(nodes, "--meta '_(?<nodes>[0-9]+)nodes' takes them from the paths (1, 2, 4)")) << nodes;
  EXPECT_FALSE(holds(nodes, "--devices-per-node")) << nodes;
  const std::string by_devices =
      line_of(missing_without([](record::RunData& run) { run.setup.nodes.reset(); }), "nodes");
  EXPECT_TRUE(holds(by_devices, "--devices-per-node")) << by_devices;
  EXPECT_FALSE(holds(by_devices, "--fact nodes=")) << by_devices;
}

TEST(Missing, DevicesOfANodeFollowFromPathsAndLogsOrAreLeftOpen) {
  const auto nodes_line = [](const std::vector<int64_t>& devices_of_node) {
    return line_of(missing_without([&](record::RunData& run) {
                     const size_t place = *run.setup.nodes == 1 ? 0 : *run.setup.nodes == 2 ? 1 : 2;
                     run.setup.devices = *run.setup.nodes * devices_of_node[place];
                     run.setup.nodes.reset();
                   }),
                   "nodes");
  };
  EXPECT_TRUE(holds(nodes_line({8, 8, 8}), "--devices-per-node 8, the same")) << nodes_line({8, 8, 8});
  EXPECT_TRUE(holds(nodes_line({8, 8, 4}), "--devices-per-node N, the same")) << nodes_line({8, 8, 4});
  const std::string devices =
      line_of(missing_without([](record::RunData& run) { run.setup.devices.reset(); }), "devices");
  EXPECT_TRUE(holds(devices, "--devices-per-node N, the same")) << devices;
}

TEST(Missing, ALogOfRatesWithoutItsBatchAsksForTheBatch) {
  const auto missing_of = [](const std::string& format) {
    record::RunData run;
    run.format = format;
    std::string names;
    for (const record::MissingFact& fact : record::missing_facts(run)) names += fact.name + " ";
    return names;
  };
  EXPECT_TRUE(holds(missing_of("deepspeed"), "global_batch")) << missing_of("deepspeed");
  EXPECT_FALSE(holds(missing_of("megatron"), "global_batch")) << "its lines tell the batch where there are any";
}

TEST(Missing, OfASingleRunTheValueItselfIsAskedFor) {
  const auto missing = missing_without([](record::RunData& run) { forget_batch(run), run.setup.nodes.reset(); }, {4});
  EXPECT_TRUE(holds(line_of(missing, "nodes"), "--fact nodes=4")) << line_of(missing, "nodes");
  EXPECT_TRUE(holds(line_of(missing, "global_batch"), "--fact global_batch=4096")) << line_of(missing, "global_batch");
}

TEST(Missing, APatternIsMadeOfTheNumberThatTellsTheNodes) {
  for (const auto& [before, behind, expression] : {std::tuple{"/a/clip_n0", "/out.log", "clip_n(?<nodes>[0-9]+)/"},
                                                   {"/a/gpt_", "nodes/slurm-4711.out", "gpt_(?<nodes>[0-9]+)nodes"},
                                                   {"/a/", "n.log", "/(?<nodes>[0-9]+)n"},
                                                   {"/a/x7_nodes=", ".log", "_nodes=(?<nodes>[0-9]+)"}}) {
    Paths paths;
    for (const int nodes : {2, 4, 8}) paths.emplace_back(fmt::format("{}{}{}", before, nodes, behind));
    const auto pattern = pattern_of_paths("nodes", paths);
    ASSERT_TRUE(pattern) << before << behind;
    EXPECT_EQ(pattern->expression, expression);
    EXPECT_EQ(pattern->values, (Counts{2, 4, 8}));
    for (const auto& path : paths) EXPECT_TRUE(record::matches_path(pattern->expression, path)) << path;
  }
  const auto devices = pattern_of_paths("devices", {"/a/n1_gpus4.log", "/a/n2_gpus8.log"});
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->values, (Counts{4, 8}));
}

TEST(Missing, PathsOfTwoFormsGetAnAlternativeEach) {
  const Paths paths{"/a/clip_n1/out.log", "/a/clip_n16/out.log", "/a/gpt_2nodes/slurm-4713.out",
                    "/a/gpt_4nodes/slurm-4715.out"};
  const auto pattern = pattern_of_paths("nodes", paths);
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->expression, "clip_n(?<nodes>[0-9]+)/|gpt_(?<nodes>[0-9]+)nodes");
  EXPECT_EQ(pattern->values, (Counts{1, 2, 4, 16}));
  for (const auto& [path, nodes] : {std::pair{paths[1], 16}, {paths[3], 4}}) {
    record::RunData run;
    run.source = path;
    record::apply_meta(run, {.path_pattern = pattern->expression});
    EXPECT_EQ(run.setup.nodes, nodes) << path;
  }
}

TEST(Missing, NoPatternIsMadeWhereOneWouldBeAGuess) {
  EXPECT_FALSE(pattern_of_paths("nodes", {"/a/run_1.log", "/a/run_2.log"}));            // of what?
  EXPECT_FALSE(pattern_of_paths("nodes", {"/a/slurm-4711.out", "/a/slurm-4712.out"}));  // jobs
  EXPECT_FALSE(pattern_of_paths("nodes", {"/a/clip_n1.log", "/a/gpt_2.log"}));          // one of them tells none
  EXPECT_FALSE(pattern_of_paths(
      "nodes", {"/a/w_n1.log", "/a/x_n2.log", "/a/y_n4.log", "/a/z_n8.log"}));        // an expression that nobody reads
  EXPECT_FALSE(pattern_of_paths("nodes", {"/a/n1_4nodes.log", "/a/n2_8nodes.log"}));  // two numbers
  EXPECT_FALSE(pattern_of_paths("nodes", {"/a_n1/b/x_n1.log", "/a_n1/b/x_n0.log"}));  // no count
  EXPECT_FALSE(pattern_of_paths(
      "nodes", {"/n3/x/n3a/n1.log", "/n3/x/n3a/n2.log"}));  // the expression would find the folder's number first
  EXPECT_FALSE(pattern_of_paths("global_batch", {"/a/n1", "/a/n2"}));
  EXPECT_FALSE(pattern_of_paths("nodes", {}));
}

TEST(LoggedRates, TheProgramsOwnTflopsStandBesideOurs) {
  const auto analysis_with = [](double logged, bool has_flops) {
    std::vector<RunSummary> runs;
    for (const int64_t nodes : {1, 2}) {
      record::RunData run = make_run({.name = fmt::format("n{}", nodes), .nodes = nodes});
      for (size_t row = 0; row < run.steps.size(); ++row)
        run.steps.logged_tflops_per_device[row] = row < 300 && row > 20 ? logged : logged + static_cast<double>(nodes);
      if (!has_flops) run.setup.forward_gflops_per_sample.reset();
      runs.push_back(summarise_run(run, {}));
    }
    return analyse(std::move(runs), {.peak_tflops = 312});
  };
  const Analysis analysis = analysis_with(180, false);
  const draw::Table table = rate_table(analysis.curves.at(0));
  ASSERT_EQ(table.columns.back().key, "logged_mfu_pct");
  EXPECT_EQ(table.columns[table.columns.size() - 2].key, "logged_tflops_per_device");
  EXPECT_TRUE(std::isnan(analysis.curves[0].points[0].mfu));
  EXPECT_DOUBLE_EQ(analysis.curves[0].points[0].logged_tflops_per_device, 181);
  EXPECT_DOUBLE_EQ(analysis.curves[0].points[1].logged_tflops_per_device, 182);
  EXPECT_DOUBLE_EQ(analysis.curves[0].points[1].logged_mfu, 182. / 312);
  const std::string asked = line_of(analysis.missing, "forward_gflops");
  EXPECT_TRUE(holds(asked, "that the program itself printed, and their share")) << asked;
  EXPECT_FALSE(holds(asked, "--fact forward_gflops")) << asked;
  const Point both = analysis_with(180, true).curves.at(0).points.at(0);
  EXPECT_TRUE(std::isfinite(both.mfu) && std::abs(both.mfu - both.logged_mfu) > 0.01);
  EXPECT_NE(rate_table(analysis_with(NAN, true).curves.at(0)).columns.back().key, "logged_mfu_pct");
  EXPECT_TRUE(holds(line_of(analysis_with(NAN, false).missing, "forward_gflops"), "--fact forward_gflops"));
}

}  // namespace
}  // namespace lockstep::analysis
