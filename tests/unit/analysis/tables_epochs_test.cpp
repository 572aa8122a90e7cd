// The tables of epochs and of systems, of runs whose times are known.
#include "analysis/tables_epochs.h"

#include <gtest/gtest.h>

#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::analysis_of;
using tests::make_run;

/// 700 steps of 0.1 s in 7 epochs, with 2 s of validation after each.
record::RunData run_with_epochs(int64_t nodes, double step_ms, const std::string& system) {
  record::RunData run = make_run({.name = fmt::format("{}-{}", system, nodes), .nodes = nodes, .step_ms = step_ms});
  run.setup.system = system;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    run.steps.epoch[i] = static_cast<int32_t>(i / 100);
    run.steps.time_s[i] += 2.0 * static_cast<double>(i / 100);
    run.steps.data_wait_ms[i] = 0.03 * run.steps.step_ms[i];
  }
  return run;
}

const draw::Cell& cell(const draw::Table& table, size_t row, const std::string& key) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].key == key) return table.rows.at(row).at(i);
  throw std::runtime_error("no column " + key);
}

TEST(EpochTable, HasEpochsTheirTrainingPartAndWaiting) {
  const Analysis analysis = analysis_of({run_with_epochs(1, 100, "")});
  ASSERT_EQ(analysis.curves.size(), 1u);
  const draw::Table table = epoch_table(analysis.curves.front());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_NEAR(analysis.curves.front().points.front().epoch_s, 12, 0.1);
  EXPECT_EQ(cell(table, 0, "epoch_rest_percent").text, "16.7");
  EXPECT_EQ(cell(table, 0, "data_wait_percent").text, "3.00");
  EXPECT_EQ(cell(table, 0, "epoch_samples").text, "3200");
}

TEST(EpochTable, IsEmptyWithoutWholeEpochs) {
  const Analysis analysis = analysis_of({make_run({})});
  EXPECT_TRUE(epoch_table(analysis.curves.front()).rows.empty());
}

TEST(SystemTable, PutsSystemsOfOneConfigurationSideBySide) {
  const Analysis analysis = analysis_of({run_with_epochs(1, 100, "Alpha"), run_with_epochs(2, 110, "Alpha"),
                                         run_with_epochs(1, 50, "Beta"), run_with_epochs(2, 60, "Beta")});
  const draw::Table table = system_table(analysis);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_NEAR(cell(table, 0, "rate_Alpha").value.value(), 80.00, 0.2);  // 8 samples in 0.1 s
  EXPECT_NEAR(cell(table, 0, "rate_Beta").value.value(), 160.0, 0.2);
  EXPECT_EQ(cell(table, 1, "size").text, "2 nodes");
  EXPECT_EQ(cell(table, 1, "efficiency_Beta").text, "83.3");
}

TEST(SystemTable, TakesTheTagOfASweep) {
  std::vector<record::RunData> runs = {run_with_epochs(1, 100, ""), run_with_epochs(1, 50, "")};
  runs[0].setup.tags["system"] = "Alpha", runs[1].setup.tags["system"] = "Beta";
  runs[1].name = "other";
  const draw::Table table = system_table(analysis_of(runs));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_NEAR(cell(table, 0, "rate_Beta").value.value(), 160.0, 0.2);
}

TEST(SystemTable, IsEmptyForOneSystem) {
  EXPECT_TRUE(
      system_table(analysis_of({run_with_epochs(1, 100, "Alpha"), run_with_epochs(2, 100, "Alpha")})).rows.empty());
}

}  // namespace
}  // namespace lockstep::analysis
