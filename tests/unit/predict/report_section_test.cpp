#include "predict/report_section.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/analyse.h"
#include "core/files.h"
#include "draw/render.h"
#include "predict/validation.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::predict {
namespace {

/// Weak scaling on 1 to `largest` nodes; each doubling costs so many milliseconds.
analysis::Analysis runs_to(int64_t largest, double ms_per_doubling) {
  std::vector<analysis::RunSummary> runs;
  for (int64_t nodes = 1; nodes <= largest; nodes *= 2)
    runs.push_back(analysis::summarise_run(
        tests::make_run({.name = "n" + std::to_string(nodes),
                         .nodes = nodes,
                         .step_ms = 100 + ms_per_doubling * std::log2(static_cast<double>(nodes))}),
        {}));
  return analysis::analyse(std::move(runs), {.budget_samples = 1e9});
}

TEST(KeptRate, OfASizeThatWasNotMeasuredHoldsTheTruth) {
  constexpr double kMsPerDoubling = 2;
  const analysis::Analysis analysis = runs_to(8, kMsPerDoubling);
  ASSERT_EQ(analysis.curves.size(), 1u);
  const auto kept = kept_rate_predictor(analysis)(analysis.curves[0], 32);
  ASSERT_TRUE(kept);
  const double truth = (100 + 3 * kMsPerDoubling) / (100 + 5 * kMsPerDoubling);
  EXPECT_LT(kept->low, truth);
  EXPECT_GT(kept->high, truth);
  EXPECT_NEAR(kept->median, truth, 0.03);
  EXPECT_LT(kept->low, kept->median);
}

TEST(KeptRate, IsWhatAProposalAsksFor) {
  const analysis::Analysis analysis = runs_to(8, 5);
  const analysis::ProposalOptions options{.job_size = 32, .predict_kept_rate = kept_rate_predictor(analysis)};
  const auto estimate = analysis::estimate_resources(analysis.curves[0], analysis, options);
  ASSERT_TRUE(estimate && estimate->predicted);
  EXPECT_TRUE(estimate->is_prediction) << "M15";
  EXPECT_NEAR(estimate->rate_per_s, estimate->optimistic_rate_per_s * estimate->predicted->median, 1e-6);
  EXPECT_LT(estimate->low_total_node_hours, estimate->total_node_hours);
  EXPECT_GT(estimate->high_total_node_hours, estimate->total_node_hours);
  EXPECT_NEAR(estimate->optimistic_total_node_hours / estimate->total_node_hours, estimate->predicted->median, 1e-9);
  const std::string text = draw::to_markdown(make_proposal(analysis, options));
  EXPECT_NE(text.find("predicted, not measured: 90 % interval"), std::string::npos) << text;
  EXPECT_NE(text.find("by the model of"), std::string::npos);
  const auto measured = analysis::estimate_resources(analysis.curves[0], analysis,
                                                     {.job_size = 8, .predict_kept_rate = options.predict_kept_rate});
  ASSERT_TRUE(measured);
  EXPECT_FALSE(measured->predicted) << "a size that was measured";
}

// Efficiency and step of the job's size are told with their intervals, between measured sizes, too.
TEST(KeptRate, EfficiencyAndStepOfAJobAreMarkedAsPredicted) {
  const analysis::Analysis analysis = runs_to(8, 5);
  for (const int64_t size : {32, 6}) {
    const analysis::ProposalOptions options{.job_size = size, .predict_kept_rate = kept_rate_predictor(analysis)};
    const auto estimate = analysis::estimate_resources(analysis.curves[0], analysis, options);
    ASSERT_TRUE(estimate && estimate->efficiency && estimate->step_s) << size;
    const double truth_s = 0.100 + 0.005 * std::log2(static_cast<double>(size));
    EXPECT_LT(estimate->step_s->low, truth_s);
    EXPECT_GT(estimate->step_s->high, truth_s);
    EXPECT_NEAR(estimate->efficiency->median, 0.1 / estimate->step_s->median, 0.01);
    EXPECT_LT(estimate->efficiency->low, estimate->efficiency->median);
    const std::string told =
        fmt::format("Predicted for {} nodes, not measured: an efficiency of {:.1f} % (90 % interval", size,
                    100 * estimate->efficiency->median);
    const std::string text = draw::to_markdown(make_proposal(analysis, options));
    EXPECT_NE(text.find(told), std::string::npos) << text;
    EXPECT_NE(text.find("| efficiency |"), std::string::npos) << text;
    EXPECT_NE(text.find("| step |"), std::string::npos) << text;
    EXPECT_EQ(text.find("not measured: a prediction |"), std::string::npos);
    const auto lines = predicted_sizes(analysis, options);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find(told), std::string::npos) << lines[0];
  }
  const analysis::ProposalOptions measured{.job_size = 8, .predict_kept_rate = kept_rate_predictor(analysis)};
  EXPECT_TRUE(predicted_sizes(analysis, measured).empty());
}

// Nothing was measured of the loss: the prior's is taken, never none.
TEST(KeptRate, OfOneSizeIsThatOfThePriors) {
  const analysis::Analysis analysis = runs_to(1, 0);
  const auto kept = kept_rate_predictor(analysis)(analysis.curves[0], 16);
  ASSERT_TRUE(kept);
  EXPECT_LT(kept->median, 0.99);
  EXPECT_GT(kept->high - kept->low, 0.05);
  EXPECT_NE(kept->source.find("one measured size: how the rate falls is the prior's"), std::string::npos);
  const auto estimate = analysis::estimate_resources(
      analysis.curves[0], analysis, {.job_size = 16, .predict_kept_rate = kept_rate_predictor(analysis)});
  ASSERT_TRUE(estimate && estimate->predicted);
  EXPECT_GT(estimate->total_node_hours, estimate->optimistic_total_node_hours);
}

// The rows of the report and the curves of predict are read once, from the same table.
TEST(KeptRate, OfATableComesFromTheTableThatTheReportRead) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path,
                          "# ResNet-50, 8 GPUs a node\nnodes,gpus,global_batch,samples_per_s\n"
                          "1,8,1024,8000\n2,16,2048,15800\n4,32,4096,31000\n");
  const std::vector<published::PublishedTable> tables = {published::check_published(path)};
  const analysis::Analysis rows = published::rows_of(tables, {});
  std::filesystem::remove(path);
  ASSERT_EQ(rows.curves.size(), 1u);
  const auto kept = kept_rate_predictor(rows, tables)(rows.curves[0], 16);
  ASSERT_TRUE(kept);
  EXPECT_NEAR(kept->median, 0.95, 0.05);
  EXPECT_FALSE(kept_rate_predictor(rows)(rows.curves[0], 16)) << "rows alone tell no curve";
}

std::string golden(const char* name) { return std::string(LOCKSTEP_GOLDEN_DIR) + "/published/" + name; }

size_t num_charts(const draw::Section& section) {
  return static_cast<size_t>(std::count_if(section.blocks.begin(), section.blocks.end(), [](const draw::Block& block) {
    return std::holds_alternative<draw::Chart>(block);
  }));
}

// The same rows by the same code as `predict TABLE --calibrate-up-to 8 --validate`.
TEST(JoinPredictions, OfATableJudgesItsLargerSizes) {
  const std::string path = golden("clap_htsat_tiny_jupiter.csv");
  const ReportedPredictions reported = join_predictions({published::check_published(path)}, {});
  ASSERT_TRUE(reported.section);
  EXPECT_EQ(num_charts(*reported.section), 1u);
  ASSERT_EQ(reported.texts.size(), 1u);
  EXPECT_TRUE(reported.why_not.empty());
  const Validation judged = validate_curve(read_table_curves(path).front(), 8);
  EXPECT_NE(reported.texts[0].find(fmt::format(
                "predicted from 8 nodes and fewer, the larger sizes are missed by {:.1f}", judged.mean_error_pct)),
            std::string::npos)
      << reported.texts[0];
}

// Eight times slower than before at 32 nodes: the network is to blame, since the work of a device stays.
TEST(JoinPredictions, TheDifferenceIsGivenToAPart) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path,
                          "# ResNet-50, 8 A100 a node\nnodes,gpus,global_batch,step_time_s\n"
                          "1,8,1024,0.100\n2,16,2048,0.102\n4,32,4096,0.104\n8,64,8192,0.130\n16,128,16384,0.170\n");
  const ReportedPredictions reported = join_predictions({published::check_published(path)}, {});
  ASSERT_EQ(reported.texts.size(), 1u);
  const std::string& text = reported.texts[0];
  EXPECT_NE(text.find("Farthest off at 16 nodes: measured 0.17 s a step"), std::string::npos) << text;
  EXPECT_NE(text.find("Calibrated on all sizes, the model gives"), std::string::npos) << text;
  EXPECT_EQ(text.find("'compute'"), std::string::npos) << text;
}

TEST(JoinPredictions, WithoutSecondsEfficienciesAreCompared) {
  const ReportedPredictions reported = join_predictions({published::check_published(golden("nemo_clip_g14.csv"))}, {});
  ASSERT_EQ(reported.texts.size(), 2u);
  EXPECT_NE(reported.texts[0].find("measured efficiency"), std::string::npos) << reported.texts[0];
}

TEST(JoinPredictions, WhatCannotBePredictedSaysWhyInOneLine) {
  core::TempDir folder;
  const auto table = [&](const char* name, const char* text) {
    core::write_file_atomic(folder.path() / name, text);
    return published::check_published(folder.path() / name);
  };
  const ReportedPredictions reported =
      join_predictions({table("few.csv", "nodes,samples_per_s\n1,100\n2,190\n4,370\n"),
                        table("none.csv", "model,parameters\na,100\nb,200\n"),
                        table("repeats.csv", "nodes,samples_per_s\n1,100\n1,101\n1,102\n1,100\n")},
                       {});
  EXPECT_FALSE(reported.section);
  EXPECT_TRUE(reported.texts.empty());
  ASSERT_EQ(reported.why_not.size(), 2u);
  EXPECT_NE(reported.why_not[0].find("no column of sizes"), std::string::npos) << reported.why_not[0];
  EXPECT_EQ(reported.why_not[0].find("predict:"), std::string::npos);
  EXPECT_NE(reported.why_not[1].find("'few' (3) and 1 more"), std::string::npos) << reported.why_not[1];
}

TEST(JoinPredictions, CurvesOfSeveralTablesHaveNamesOfTheirOwn) {
  core::TempDir folder;
  std::vector<published::PublishedTable> tables;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(folder.path() / name);
    const auto path = folder.path() / name / "mine.csv";
    core::write_file_atomic(path, "nodes,samples_per_s\n1,100\n2,190\n4,370\n8,720\n");
    tables.push_back(published::check_published(path));
  }
  const ReportedPredictions reported = join_predictions(tables, {});
  ASSERT_TRUE(reported.section);
  std::set<std::string> ids;
  for (const draw::Block& block : reported.section->blocks)
    if (const auto* chart = std::get_if<draw::Chart>(&block)) ids.insert(chart->id);
  EXPECT_EQ(ids.size(), 2u);
}

}  // namespace
}  // namespace lockstep::predict
