// What `report` prints on a terminal of an afternoon's runs, whatever they are a mixture of: the runs first, 80
// columns, and never more lines than somebody reads.
#include "analysis/summary.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "analysis/charts.h"
#include "analysis/sources.h"
#include "core/strings.h"
#include "unit/analysis/log_writers.h"

namespace lockstep::analysis {
namespace {

/// Of a whole call: `report` prints at most two lines behind the summary, on an old proposal and where the page is.
constexpr size_t kMaxLines = 118, kMaxColumns = 80;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = core::split(text, "\n");
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// Holds a text to the size of a terminal.
void expect_fits(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_LE(lines.size(), kMaxLines) << text;
  for (const std::string& line : lines) EXPECT_LE(line.size(), kMaxColumns) << line;
}

/// The eight kinds of logs, one of each.
std::vector<intervals::Program> eight_programs() {
  std::vector<intervals::Program> programs;
  for (const intervals::Program& program : intervals::kPrograms)
    if (program.format != logs::LogFormat::kCsv &&
        std::none_of(programs.begin(), programs.end(),
                     [&](const intervals::Program& known) { return known.format == program.format; }))
      programs.push_back(program);
  return programs;
}

/// Logs of all programs on one, two and four nodes, as their runs leave them, read by their names.
class ManyLogs : public testing::Test {
 protected:
  Analysis read(int64_t steps_per_line, int64_t steps_per_evaluation, const std::string& pattern) {
    std::vector<std::string> paths;
    for (const intervals::Program& program : eight_programs())
      for (const int64_t nodes : {1, 2, 4}) {
        intervals::Timeline run(nodes, steps_per_line, steps_per_evaluation);
        run.num_steps = 300;
        paths.push_back((folder_.path() / fmt::format("{}-n{}.log", program.name, nodes)).string());
        std::ofstream(paths.back(), std::ios::binary)
            << (program.start != nullptr ? program.start(run) : "") << program.log(run);
      }
    return analyse(load_sources(find_sources(paths), {.meta = {.path_pattern = pattern}}), {});
  }
  core::TempDir folder_{};
};

TEST_F(ManyLogs, OfEightProgramsAtThreeSizesFitATerminal) {
  ASSERT_EQ(eight_programs().size(), 8u);
  for (const char* pattern : {"", "-n(?P<nodes>[0-9]+)"})
    for (const int64_t steps_per_line : {1, 10})
      for (const int64_t steps_per_evaluation : {0, 100}) {
        SCOPED_TRACE(fmt::format("--meta '{}', a line every {} steps, an evaluation every {}", pattern, steps_per_line,
                                 steps_per_evaluation));
        const Analysis analysis = read(steps_per_line, steps_per_evaluation, pattern);
        ASSERT_EQ(analysis.runs.size(), 24u);
        const std::string text = summary_text(analysis);
        expect_fits(text);
        EXPECT_EQ(text.find("24 runs in "), 0u) << text;
        for (const RunSummary& run : analysis.runs)
          EXPECT_NE(text.find("\n" + run.name + " "), std::string::npos) << "a row for " << run.name << "\n" << text;
        for (const Curve& curve : analysis.curves)
          EXPECT_NE(text.find("[" + curve.id.substr(6) + "]"), std::string::npos) << curve.id << "\n" << text;
        EXPECT_EQ(text.find("\ncheck: "), std::string::npos) << "checks of curves stand with them\n" << text;
        for (const draw::Chart& chart : efficiency_charts(analysis.curves, {}))
          for (const draw::Series& series : chart.series) EXPECT_FALSE(series.x.empty()) << "no line: " << series.name;
      }
}

/// Any afternoon: runs of a few configurations drawn by chance, some of them repeats, some failed or profiled.
std::vector<record::RunData> drawn_runs(uint64_t seed, size_t num_runs) {
  std::mt19937_64 random(seed);
  const auto draw = [&](uint64_t count) { return random() % count; };
  const char* const programs[] = {"lockstep", "openclip", "megatron", "torchtitan"};
  const uint64_t num_models = 1 + draw(8), num_options = draw(6);
  std::vector<record::RunData> runs;
  for (size_t i = 0; i < num_runs; ++i) {
    const int64_t nodes = int64_t{1} << draw(5);
    record::RunData run = tests::make_run(
        {.name = draw(2) == 0
                     ? fmt::format("run-{}", i)
                     : fmt::format("2026_11_22-model_with_a_long_name-lr_0.0005-b_512-j_4-p_amp-n{}-{}", nodes, i),
         .nodes = nodes,
         .samples_per_device = int64_t{8} << draw(2),
         .step_ms = 100 + static_cast<double>(draw(60)),
         .num_steps = draw(8) == 0 ? 0 : 60 + draw(100),
         .model = fmt::format("a-model-with-a-name-{}", draw(num_models))});
    run.format = programs[draw(4)];
    if (draw(6) == 0)
      run.state = "failed", run.message = fmt::format("comm: rank {} is gone: connection closed by peer", i);
    if (draw(8) == 0) run.setup.is_profiled = true;
    if (draw(6) == 0) run.setup.nodes.reset();
    if (draw(6) == 0) run.problems.push_back(fmt::format("{} lines of the log could not be read", i));
    run.options["name"] = run.name;
    for (uint64_t option = 0; option < num_options; ++option)
      run.options[fmt::format("an_option_of_the_work_{}", option)] = fmt::format("value-{}", draw(3));
    runs.push_back(std::move(run));
  }
  return runs;
}

TEST(Summary, OfAnyMixtureFitsATerminalAndNamesEveryCurveOnce) {
  for (const size_t num_runs : {3u, 8u, 24u, 60u})
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(fmt::format("{} runs, seed {}", num_runs, seed));
      const Analysis analysis = tests::analysis_of(drawn_runs(seed, num_runs));
      const std::string text = summary_text(analysis);
      expect_fits(text);
      std::set<std::string> names;
      for (const Curve& curve : analysis.curves) EXPECT_TRUE(names.insert(curve.name).second) << curve.name;
      if (num_runs > 24) continue;  // of more, some are on the page
      for (const Curve& curve : analysis.curves)
        EXPECT_TRUE(text.find(curve.name) != std::string::npos || analysis.curves.size() > kMaxFullCurves)
            << curve.name;
    }
}

TEST(Summary, OfOneConfigurationIsToldInFull) {
  std::vector<record::RunData> runs;
  for (const int64_t nodes : {1, 2, 4})
    runs.push_back(tests::make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
  const std::string text = summary_text(tests::analysis_of(runs));
  for (const char* part : {"an efficiency of", "The largest measured size", "check: M04 single-run"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Summary, TheLastLossNeedsNoBatch) {
  record::RunData run = tests::make_run({.name = "a", .nodes = 1});
  run.setup.global_batch.reset();
  run.steps.samples.clear();
  run.steps.samples_seen.clear();
  run.steps.loss.assign(run.steps.size(), 3.5);
  run.steps.loss[run.steps.size() - 2] = 2.125;
  run.steps.loss.back() = std::numeric_limits<double>::quiet_NaN();  // of this step it tells none
  const draw::Table table = run_overview(tests::analysis_of({run}), true);
  const auto column = std::find_if(table.columns.begin(), table.columns.end(),
                                   [](const draw::Column& one) { return one.key == "last_loss"; });
  ASSERT_NE(column, table.columns.end());
  EXPECT_EQ(table.rows.at(0).at(static_cast<size_t>(column - table.columns.begin())).text, "2.125");
}

}  // namespace
}  // namespace lockstep::analysis
