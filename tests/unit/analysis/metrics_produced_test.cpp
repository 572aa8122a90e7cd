// The catalogue of metrics against a report made of full records: what it declares is produced, and
// what is produced is declared.
#include <gtest/gtest.h>

#include <set>

#include "analysis/analyse.h"
#include "analysis/document.h"
#include "analysis/json.h"
#include "core/files.h"
#include "core/json.h"
#include "record/metrics.h"
#include "unit/analysis/recorded_runs.h"

namespace lockstep::analysis {
namespace {

using tests::write_record;

/// Two sizes with three jobs each, with every file of a record.
Analysis full_analysis(const std::filesystem::path& folder) {
  const AnalysisOptions options{.measured_peak_tflops = 700};
  std::vector<RunSummary> runs;
  for (const int64_t nodes : {1, 2})
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto path = folder / fmt::format("{}-{}", nodes, repeat);
      write_record(path, {.nodes = nodes,
                          .step_ms = (100 + 5 * static_cast<double>(nodes)) * (1 + 0.002 * repeat),
                          .steps_per_epoch = 150 / nodes});
      runs.push_back(summarise_run(record::load_run(path), options));
      runs.back().allocation = path.filename().string();
      runs.back().logged_tflops_per_device = 5;  // as a log of Megatron tells
    }
  return analyse(std::move(runs), options);
}

bool is_known(const core::Json& value) {
  if (value.is_object()) return value.contains("value") ? !value.at("value").is_null() : !value.empty();
  return !value.is_null();
}

/// What stands beside numbers and tells what they are of.
const std::set<std::string> kFacts = {"size",
                                      "nodes",
                                      "devices",
                                      "global_batch",
                                      "samples_per_device",
                                      "runs",
                                      "jobs",
                                      "checks",
                                      "samples_to_loss_verdict",
                                      "series.steps",
                                      "series.is_steady",
                                      "series.median_interval_ms",
                                      "series.median_interval_method"};

std::set<std::string> produced_names(record::MetricSource source) {
  std::set<std::string> names;
  for (const record::MetricDef& metric : record::metric_catalogue())
    if (metric.source == source) names.insert(std::string(metric.name));
  return names;
}

struct Report {
  core::TempDir folder{};
  Analysis analysis = full_analysis(folder.path());
  core::Json json = core::Json::parse(analysis_json(analysis));
  const core::Json& point() const { return json.at("curves").at(0).at("points").at(1); }
};

TEST(Metrics, EveryDerivedOneHasANumberInAReportOfFullRecords) {
  const Report report;
  ASSERT_EQ(report.analysis.curves.size(), 1u);
  std::set<std::string> produced;
  for (const auto& [key, value] : report.point().items())
    if (is_known(value)) produced.insert(key);
  for (const auto& [key, value] : report.json.at("runs").at(0).at("series").items()) produced.insert("series." + key);
  for (const draw::Section& section : make_document(report.analysis).sections)
    for (const draw::Block& block : section.blocks)
      if (const draw::Table* table = std::get_if<draw::Table>(&block))
        for (size_t column = 0; column < table->columns.size(); ++column)
          for (const auto& row : table->rows)
            if (row[column].value) produced.insert(table->columns[column].key);
  for (const std::string& name : produced_names(record::MetricSource::kDerived))
    EXPECT_TRUE(produced.contains(name)) << name << " has no producer";
}

TEST(Metrics, EveryNumberOfSizesAndSeriesIsDeclared) {
  const Report report;
  std::set<std::string> declared = produced_names(record::MetricSource::kDerived);
  declared.merge(produced_names(record::MetricSource::kSteps));
  declared.insert(kFacts.begin(), kFacts.end());
  for (const auto& [key, value] : report.point().items())
    EXPECT_TRUE(declared.contains(key)) << key << " is not in the catalogue";
  for (const auto& [key, value] : report.json.at("runs").at(0).at("series").items())
    EXPECT_TRUE(declared.contains("series." + key)) << key << " is not in the catalogue";
}

/// Formulas of the catalogue, worked out from other numbers of the same report.
TEST(Metrics, FormulasAreWhatIsComputed) {
  const Report report;
  const core::Json &base = report.json.at("curves").at(0).at("points").at(0), &point = report.point();
  const auto number = [](const core::Json& json, const char* key) {
    return (json.at(key).is_object() ? json.at(key).at("value") : json.at(key)).get<double>();
  };
  const auto expect = [&](const char* key, double value) { EXPECT_NEAR(number(point, key) / value, 1, 1e-9) << key; };
  const double batch = 64, nodes = 2, devices = 4;
  expect("samples_per_s", 1e3 * batch / number(point, "step_p50_ms"));
  expect("mean_samples_per_s", 1e3 * batch / number(point, "step_mean_ms"));
  expect("stall_ratio", number(point, "samples_per_s") / number(point, "billed_samples_per_s"));
  expect("samples_per_s_per_device", number(point, "samples_per_s") / devices);
  expect("samples_per_s_per_node", number(point, "samples_per_s") / nodes);
  expect("tokens_per_s_per_device", number(point, "tokens_per_s") / devices);
  expect("tflops_per_device", 3 * 0.3 * number(point, "samples_per_s") / devices);
  expect("mfu", number(point, "tflops_per_device") / number(point, "peak_tflops"));
  expect("mfu_measured_peak", number(point, "tflops_per_device") / 700);
  expect("speedup", number(point, "samples_per_s") / number(base, "samples_per_s"));
  expect("efficiency", number(point, "speedup") / nodes);
  expect("eff_tput", number(point, "mean_samples_per_s") / number(base, "mean_samples_per_s") / nodes);
  expect("eff_batch", number(base, "step_p50_ms") / number(point, "step_p50_ms"));
  expect("karp_flatt", (1 / number(point, "speedup") - 0.5) / 0.5);
  expect("node_hours_per_sample", nodes / 3600 / number(point, "samples_per_s"));
  expect("budget_node_hours", 24 * nodes * number(point, "budget_days"));
  EXPECT_NE(number(point, "samples_per_s"), number(point, "billed_samples_per_s"))
      << "else these formulas could be mixed up";
  EXPECT_NE(number(point, "samples_per_s"), number(point, "mean_samples_per_s"));
  const double step_ms =
      110.22;  // the mean of the three jobs; the slow rank works 0.16 of it longer than the three others
  EXPECT_NEAR(number(point, "skew_ms"), 0.16 * 0.75 * step_ms, 0.002 * step_ms);
  EXPECT_NEAR(number(point, "skew_share"), 0.12, 1e-6);
  EXPECT_NEAR(number(point, "straggler_share"), 0.16, 1e-6);
  EXPECT_NEAR(number(point, "data_wait_share"), 0.02, 1e-6);
  EXPECT_NEAR(number(point, "exposed_comm_share"), 0.1, 1e-6);
  EXPECT_NEAR(number(point, "telemetry_share"), 0.001, 1e-6);
  EXPECT_NEAR(number(point, "joules_per_sample"), 2 * 2 * 0.1 * step_ms / batch, 0.01)
      << "two hosts with two meters of 100 W";
}

/// The slowest rank is the one with the most own work: what it computes and what it waits for data.
TEST(Metrics, TheSlowestRankIsRankedByComputingAndWaitingForData) {
  record::RunData run;
  for (int64_t step = 0; step < 4; ++step)
    run.rank_times.push_back({.step = step,
                              .step_ms = {100, 100},
                              .data_wait_ms = {50, 1},
                              .compute_ms = {40, 60},
                              .comm_wait_ms = {10, 39}});
  size_t num_intervals = 0;
  const std::vector<RankShare> ranks = rank_shares(run, 0, num_intervals);
  EXPECT_EQ(ranks.at(0).slowest_share, 1) << "rank 1 computes longer, rank 0 waits for its loader";
  const auto skew = rank_skew(run, 0);
  ASSERT_TRUE(skew);
  EXPECT_DOUBLE_EQ(skew->over_mean_ms, (90 - 61) / 2.0);
  EXPECT_DOUBLE_EQ(skew->over_median_ms, (90 - 61) / 2.0);
  EXPECT_DOUBLE_EQ(skew->step_ms, 100);
  EXPECT_FALSE(rank_skew({}, 0));
}

/// A straggler that wanders from rank to rank costs as much as one that stays; the ranks' means over the run do not
/// show it.
TEST(Metrics, SkewIsOfEveryIntervalAndNotOfMeans) {
  record::RunData run;
  for (int64_t step = 0; step < 4; ++step) {
    record::RankTimesRecord times{
        .step = step, .step_ms = {100, 100}, .data_wait_ms = {0, 0}, .compute_ms = {60, 60}, .comm_wait_ms = {40, 40}};
    times.compute_ms[static_cast<size_t>(step % 2)] = 90;
    run.rank_times.push_back(times);
  }
  EXPECT_DOUBLE_EQ(rank_skew(run, 0)->over_mean_ms, 15);
}

}  // namespace
}  // namespace lockstep::analysis
