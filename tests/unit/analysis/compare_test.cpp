#include "analysis/compare.h"
#include "analysis/analyse.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "analysis/cells.h"
#include "analysis/document.h"
#include "analysis/proposal.h"
#include "analysis/sources.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "draw/render.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::make_run;

std::vector<RunSummary> side(const std::vector<record::RunData>& runs) {
  std::vector<RunSummary> all;
  for (const record::RunData& run : runs) all.push_back(summarise_run(run, {.keeps_steps = true}));
  return all;
}

std::vector<record::RunData> repeats(const std::string& name, const std::vector<double>& step_ms, int64_t nodes = 1) {
  std::vector<record::RunData> runs;
  for (size_t i = 0; i < step_ms.size(); ++i)
    runs.push_back(make_run({.name = fmt::format("{}{}", name, i), .nodes = nodes, .step_ms = step_ms[i]}));
  return runs;
}

TEST(Compare, AClearDifferenceIsToldWithItsInterval) {
  const SideComparison result = compare_sides(side(repeats("a", {100, 100.2, 99.9, 100.1})),
                                              side(repeats("b", {110, 110.3, 109.8, 110.1})), false);
  ASSERT_EQ(result.sizes.size(), 1u);
  EXPECT_NEAR(result.sizes[0].comparison.ratio, 100.0 / 110.0, 0.003);
  ASSERT_TRUE(result.sizes[0].comparison.interval);
  EXPECT_LT(result.sizes[0].comparison.interval->high, 1.0);
  EXPECT_NE(result.verdict.find("A is faster than B"), std::string::npos) << result.verdict;
  EXPECT_TRUE(result.is_per_sample);
}

TEST(Compare, SaysWhatTheRankTestSaysBesideTheInterval) {
  const std::vector<double> fast{100, 100.2, 99.9, 100.1}, slow{110, 110.3, 109.8, 110.1};
  const auto verdict_of = [](const std::vector<double>& a, const std::vector<double>& b) {
    return compare_sides(side(repeats("a", a)), side(repeats("b", b)), false).verdict;
  };
  EXPECT_NE(verdict_of(fast, slow).find("rank test p = 0.029)."), std::string::npos) << verdict_of(fast, slow);
  EXPECT_EQ(verdict_of(fast, slow).find("does not confirm"), std::string::npos);
  const std::vector<double> three_fast(fast.begin(), fast.end() - 1), three_slow(slow.begin(), slow.end() - 1);
  EXPECT_NE(verdict_of(three_fast, three_slow).find("p = 0.1). The rank test alone does not confirm it"),
            std::string::npos)
      << "no order of six runs is rarer";
}

/// A run whose steps are followed by pauses: every tenth takes `pause_s` on the wall clock alone.
record::RunData paused_run(const std::string& name, double pause_s) {
  record::RunData run = make_run({.name = name});
  for (size_t i = 0; i < run.steps.time_s.size(); ++i) {
    const size_t num_pauses = (i + 5) / 10;
    run.steps.time_s[i] += pause_s * static_cast<double>(num_pauses);
  }
  return run;
}

TEST(Compare, TellsTheBilledRateThatAReportTells) {
  const std::vector<record::RunData> a = {paused_run("a", 2)}, b = {paused_run("b", 0)};
  const SideComparison result = compare_sides(side(a), side(b), false);
  const draw::Table& table = result.table;
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1][0].text, table.rows[0][0].text + ", billed");
  for (const auto& [runs, rate] : {std::pair(&a, table.rows[1][3].value), {&b, table.rows[1][4].value}}) {
    const double reported = tests::analysis_of(*runs).curves.at(0).points.at(0).billed_samples_per_s;
    ASSERT_TRUE(rate);
    EXPECT_NEAR(*rate, reported, 1e-9 * reported);
  }
  ASSERT_TRUE(table.rows[1][3].value && table.rows[0][3].value);
  EXPECT_LT(*table.rows[1][3].value, 0.5 * *table.rows[0][3].value) << "20 s of pauses beside 10 s of steps";
  EXPECT_NE(comparison_json(result).find("a_billed_samples_per_s"), std::string::npos);
  std::vector<record::RunData> unclocked = {make_run({.name = "c"})};
  unclocked[0].steps.time_s.assign(unclocked[0].steps.time_s.size(), std::nan(""));
  EXPECT_EQ(compare_sides(side(unclocked), side(b), false).table.rows.size(), 1u);
}

TEST(Compare, TellsTheRateOfAnEvenNumberOfStepsThatAReportTells) {
  record::RunData a = make_run({.name = "a", .num_steps = 120}), b = make_run({.name = "b", .num_steps = 120});
  for (size_t i = 0; i < a.steps.size(); ++i)  // two groups, half of the steps in each: the median lies between
    a.steps.step_ms[i] = (37 * i % 100 < 50 ? 100 : 150) + 0.01 * static_cast<double>(i);
  a.steps.time_s.assign(a.steps.size(), std::nan(""));
  const auto warmup = [](const std::vector<record::RunData>& runs) {
    std::vector<RunSummary> all;
    for (const record::RunData& run : runs)
      all.push_back(summarise_run(run, {.warmup_steps = 20, .keeps_steps = true}));
    return all;
  };
  const SizeComparison one = compare_sides(warmup({a}), warmup({b}), false).sizes.at(0);
  const Analysis analysis = analyse(warmup({a}), {});
  EXPECT_DOUBLE_EQ(1e3 / one.a_ms, analysis.curves.at(0).points.at(0).samples_per_s.value);
  EXPECT_DOUBLE_EQ(one.comparison.ratio, one.a_ms / one.b_ms);
  if (const auto& interval = one.comparison.interval) {
    EXPECT_LE(interval->low, one.comparison.ratio);
    EXPECT_GE(interval->high, one.comparison.ratio);
  }
}

TEST(Compare, TellsTheRateOfManyRepeatsThatAReportTells) {
  std::vector<double> a_ms, b_ms;
  for (int i = 0; i < 24; ++i) a_ms.push_back(i < 14 ? 100 + 0.1 * i : 140), b_ms.push_back(120 + 0.1 * i);
  const std::vector<record::RunData> a = repeats("a", a_ms);
  const SizeComparison one = compare_sides(side(a), side(repeats("b", b_ms)), false).sizes.at(0);
  const double reported = tests::analysis_of(a).curves.at(0).points.at(0).samples_per_s.value;
  EXPECT_NEAR(1e3 / one.a_ms, reported, 1e-9 * reported);
  EXPECT_NEAR(one.comparison.ratio, one.a_ms / one.b_ms, 1e-12);
}

TEST(Compare, NoiseIsNotADifference) {
  const SideComparison result =
      compare_sides(side(repeats("a", {100, 104, 97, 101})), side(repeats("b", {101, 98, 103, 99})), false);
  EXPECT_NE(result.verdict.find("no difference"), std::string::npos) << result.verdict;
}

TEST(Compare, PairsCancelWhatChangesFromHourToHour) {
  const std::vector<double> hours = {100, 130, 90, 115, 105}, slower = {102.1, 132.5, 91.9, 117.4, 107.0};
  const SideComparison paired = compare_sides(side(repeats("a", hours)), side(repeats("b", slower)), true);
  EXPECT_NE(paired.verdict.find("A is faster"), std::string::npos) << paired.verdict;
  const SideComparison unpaired = compare_sides(side(repeats("a", hours)), side(repeats("b", slower)), false);
  EXPECT_NE(unpaired.verdict.find("no difference"), std::string::npos) << unpaired.verdict;
  EXPECT_THROW(compare_sides(side(repeats("a", hours)), side(repeats("b", {100})), true), UsageError);
}

std::string notes_of(const SideComparison& result) {
  std::string notes;
  for (const std::string& note : result.notes) notes += note + "\n";
  return notes;
}

TEST(Compare, TwoSingleRunsDifferAndNothingIsConcludedAboutTheSides) {
  const SideComparison result = compare_sides(side(repeats("a", {100})), side(repeats("b", {103})), false);
  EXPECT_NE(result.verdict.find("these two runs differ"), std::string::npos) << result.verdict;
  EXPECT_NE(result.verdict.find("Nothing is concluded"), std::string::npos) << result.verdict;
  EXPECT_EQ(result.verdict.find("faster"), std::string::npos) << result.verdict;
  EXPECT_EQ(result.sizes.at(0).conclusion, "none");
  EXPECT_NE(notes_of(result).find("single run"), std::string::npos);
  EXPECT_NE(comparison_json(result).find("\"conclusion\":"), std::string::npos);
}

TEST(Compare, TheRateOfARunIsThatOfTheReport) {
  for (const size_t num_steps : {16u, 60u, 700u}) {
    std::vector<record::RunData> a = repeats("a", {100}), b = repeats("b", {103});
    for (record::RunData* run : {&a[0], &b[0]}) {
      *run = make_run({.name = run->name, .step_ms = run == &a[0] ? 100.0 : 103.0, .num_steps = num_steps});
      for (size_t i = 0; i < num_steps; i += 3) run->steps.step_ms[i] *= 1.5;  // far from symmetric
    }
    const Analysis report = tests::analysis_of(a);
    const SideComparison result = compare_sides(side(a), side(b), false);
    const double rate = report.curves.at(0).points.at(0).samples_per_s.value;
    EXPECT_NEAR(1e3 / result.sizes.at(0).a_ms / rate, 1, 1e-5) << num_steps;
    EXPECT_NE(draw::to_text(result.table).find(figure_text(rate)), std::string::npos) << draw::to_text(result.table);
    EXPECT_EQ(result.sizes[0].comparison.interval.has_value(), num_steps >= 60) << num_steps;
    EXPECT_NE(comparison_method(result).find("capability"), std::string::npos);
  }
}

TEST(Compare, TwoAgainstOneKeepsTheSpread) {
  const SideComparison near = compare_sides(side(repeats("a", {100, 104})), side(repeats("b", {110})), false);
  EXPECT_EQ(near.sizes.at(0).conclusion, "no_difference") << near.verdict;
  const SideComparison far =
      compare_sides(side(repeats("a", {100, 100.1, 99.9, 100})), side(repeats("b", {110})), false);
  EXPECT_EQ(far.sizes.at(0).conclusion, "a_faster") << far.verdict;
  EXPECT_NE(notes_of(far).find("given the spread of the other side"), std::string::npos) << notes_of(far);
}

TEST(Compare, RunsOfOneJobAreNoRepeats) {
  auto a = repeats("a", {100, 100.1, 99.9, 100.05}), b = repeats("b", {101, 101.1, 100.9, 101.05});
  for (auto& run : a) run.allocation = "1";
  for (auto& run : b) run.allocation = "2";
  const SideComparison result = compare_sides(side(a), side(b), false);
  EXPECT_EQ(result.sizes.at(0).conclusion, "none") << result.verdict;
  EXPECT_NE(result.verdict.find("these two jobs differ"), std::string::npos) << result.verdict;
}

TEST(Compare, ModelsAreMatchedAndNotPooled) {
  std::vector<record::RunData> a, b;
  for (const auto& [model, ms] : {std::pair{"ViT-B-32", 100.0}, {"ViT-L-14", 400.0}})
    for (int i = 0; i < 3; ++i) {
      a.push_back(make_run({.name = fmt::format("{}-{}", model, i), .step_ms = ms * (1 + 0.001 * i), .model = model}));
      b.push_back(
          make_run({.name = fmt::format("{}-{}", model, i), .step_ms = 1.05 * ms * (1 + 0.001 * i), .model = model}));
    }
  b.push_back(make_run({.name = "huge", .step_ms = 900, .model = "ViT-H-14"}));
  for (const bool is_paired : {false, true}) {
    const SideComparison result = compare_sides(side(a), side(b), is_paired);
    ASSERT_EQ(result.sizes.size(), 2u);
    EXPECT_NE(result.sizes[0].size.find("model ViT-B-32"), std::string::npos) << result.sizes[0].size;
    for (const SizeComparison& one : result.sizes) {
      EXPECT_EQ(one.num_a, 3u);
      EXPECT_NEAR(one.comparison.ratio, 1 / 1.05, 1e-3);
      EXPECT_EQ(one.conclusion, "a_faster") << one.verdict;
    }
    EXPECT_NE(notes_of(result).find("model ViT-H-14: only B has it"), std::string::npos) << notes_of(result);
  }
  EXPECT_THROW(compare_sides(side(a), side({b.back()}), false), DataError);
}

TEST(Compare, AStoppedRunIsUsedWithAWord) {
  auto a = repeats("a", {100, 100.1}), b = repeats("b", {100, 100.2});
  b[1].state = "stopped";
  const SideComparison result = compare_sides(side(a), side(b), false);
  EXPECT_EQ(result.sizes.at(0).num_b, 2u);
  EXPECT_NE(notes_of(result).find("b1: stopped after"), std::string::npos) << notes_of(result);
  EXPECT_EQ(notes_of(result).find("a1: stopped"), std::string::npos) << notes_of(result);
}

TEST(Compare, FailedRunsGiveWayToWholeOnesAndThatIsSaid) {
  auto a = repeats("a", {100, 100.1, 99.9}), b = repeats("b", {100, 100.2, 50});
  b[2].state = "failed";
  b[2].message = "out of memory";
  const SideComparison result = compare_sides(side(a), side(b), false);
  EXPECT_EQ(result.sizes.at(0).num_b, 2u);
  EXPECT_EQ(result.sizes.at(0).conclusion, "no_difference") << result.verdict;
  EXPECT_NE(notes_of(result).find("b2 of B is left out: it failed (out of memory)"), std::string::npos)
      << notes_of(result);
  const SideComparison paired = compare_sides(side(a), side(b), true);
  EXPECT_EQ(paired.sizes.at(0).num_a, 2u);
  EXPECT_NE(notes_of(paired).find("a2 of A is left out: the run it is paired with failed"), std::string::npos)
      << notes_of(paired);
  const SideComparison only = compare_sides(side(a), side({b[2]}), false);
  EXPECT_NE(notes_of(only).find("b2 of B is used although it failed"), std::string::npos) << notes_of(only);
}

TEST(Compare, SizesAreMatchedAndTheRestIsNamed) {
  auto a = repeats("a1", {100, 101}), more = repeats("a2", {105, 106}, 2);
  a.insert(a.end(), more.begin(), more.end());
  const SideComparison result = compare_sides(side(a), side(repeats("b", {100, 101})), false);
  ASSERT_EQ(result.sizes.size(), 1u);
  EXPECT_EQ(result.sizes[0].num_a, 2u);
  bool is_named = false;
  for (const std::string& note : result.notes) is_named |= note.find("only A") != std::string::npos;
  EXPECT_TRUE(is_named);
}

TEST(Compare, SettingsThatDifferAreNamedAndProfilesLeftOut) {
  auto b = repeats("b", {100, 101, 300});
  for (auto& run : b) run.setup.precision = "fp32";
  b[2].setup.is_profiled = true;
  const SideComparison result = compare_sides(side(repeats("a", {100, 101})), side(b), false);
  std::string notes;
  for (const std::string& note : result.notes) notes += note + "\n";
  EXPECT_NE(notes.find("precision differs: A bf16, B fp32"), std::string::npos) << notes;
  EXPECT_NE(notes.find("b2 of B is left out"), std::string::npos) << notes;
  EXPECT_EQ(result.sizes[0].num_b, 2u);
  auto only_profiled = repeats("c", {100});
  only_profiled[0].setup.is_profiled = true;
  EXPECT_THROW(compare_sides(side(only_profiled), side(b), false), DataError);
}

TEST(Compare, SidesAreNamedByWhatTheUserNamed) {
  const auto a = side(repeats("a", {100})), b = side(repeats("b", {110, 111}));
  const SideComparison named = compare_sides(a, b, false, "old/before/", "new/after");
  EXPECT_EQ(named.name_a, "before");
  EXPECT_EQ(named.name_b, "after");
  const SideComparison alike = compare_sides(a, b, false, "old/logs", "./new/logs/");
  EXPECT_EQ(alike.name_a, "old/logs");
  EXPECT_EQ(alike.name_b, "new/logs");
}

TEST(Compare, DifferentSizesGetNoVerdictAndTheSidesAreToldApart) {
  record::RunData a = make_run({.name = "out.log", .devices_per_node = 1}),
                  b = make_run({.name = "out.log", .nodes = 2, .step_ms = 104});
  a.source = "/logs/one/out.log";
  b.source = "/logs/two/out.log";
  const SideComparison result = compare_sides(side({a}), side({b}), false);
  EXPECT_EQ(result.name_a, "one/out.log");
  EXPECT_EQ(result.name_b, "two/out.log");
  EXPECT_EQ(result.verdict.find("faster than"), std::string::npos) << result.verdict;
  EXPECT_EQ(result.verdict.find("slower"), std::string::npos) << result.verdict;
  EXPECT_NE(result.verdict.find("The sizes differ (1 node, 1 device against 2 nodes, 8 devices)"), std::string::npos)
      << result.verdict;
  ASSERT_GT(result.table.columns.size(), 6u);
  EXPECT_EQ(result.table.columns[5].title, "A (ms per sample)");
  EXPECT_EQ(result.table.columns[6].title, "B (ms per sample)");
}

Analysis sweep() {
  std::vector<RunSummary> runs;
  for (const auto& [nodes, ms] : {std::pair{1, 100.0}, {2, 104.0}, {4, 110.0}, {8, 140.0}})
    for (int repeat = 0; repeat < 2; ++repeat)
      runs.push_back(summarise_run(make_run({.name = fmt::format("n{}r{}", nodes, repeat),
                                             .nodes = nodes,
                                             .step_ms = ms,
                                             .job = fmt::format("{}{}", nodes, repeat)}),
                                   {}));
  return analyse(std::move(runs), {.budget_samples = 3.6e9});
}

TEST(Proposal, TheEstimateFollowsItsFormula) {
  const Analysis analysis = sweep();
  const auto estimate =
      estimate_resources(analysis.curves.at(0), analysis,
                         {.restart_share = 10, .eval_share = 3, .checkpoint_share = 2, .sweep_node_hours = 50});
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->size, 4) << "the largest size that keeps 80 %";
  const double rate = 128 / 0.110, pure = 4 * 3.6e9 / rate / 3600;
  EXPECT_NEAR(estimate->node_hours / pure, 1, 0.005);
  EXPECT_NEAR(estimate->total_node_hours / (pure * 1.05 * 1.10 + 50), 1, 0.005);
  EXPECT_FALSE(estimate->is_prediction);
}

TEST(Proposal, EnergyOfATokenTaskCountsItsTokens) {
  record::RunData run = tests::make_run({.name = "gpt"});
  run.setup.task = "gpt";
  run.setup.sample_unit = "sequences";
  for (double& tokens : run.steps.tokens) tokens = 32 * 1000;  // 32 sequences of 1,000 tokens
  run.system.push_back({.attempt = 1,
                        .step = 699,
                        .num_steps = 700,
                        .host = "n1",
                        .received_bytes = {},
                        .sent_bytes = {},
                        .energy_j = {{"nvml-0", 32.0 * 700 * 36}}});
  const AnalysisOptions options{.budget_samples = 1e9, .budget_tokens = 1e9};
  const Analysis analysis = analyse({summarise_run(run, options)}, options);
  std::string found;
  for (const draw::Section& section : make_proposal(analysis, {}).sections)
    for (const draw::Block& block : section.blocks)
      if (const auto* table = std::get_if<draw::Table>(&block))
        for (const auto& row : table->rows)
          if (row.size() == 4 && row[0].text == "energy of the training") {
            EXPECT_NEAR(row[1].value.value_or(0), 10.0, 0.01) << "36 J a sequence, 1e9 tokens are 1e6 sequences";
            found = row[3].text;
          }
  EXPECT_NE(found.find("J per token"), std::string::npos) << found;
}

TEST(Proposal, ASizeThatWasNotMeasuredIsAPrediction) {
  const Analysis analysis = sweep();
  const auto larger = estimate_resources(analysis.curves.at(0), analysis, {.job_size = 16});
  ASSERT_TRUE(larger);
  EXPECT_TRUE(larger->is_prediction);
  EXPECT_EQ(larger->measured_at->nodes, 8);
  const auto between = estimate_resources(analysis.curves.at(0), analysis, {.job_size = 3});
  EXPECT_EQ(between->measured_at->nodes, 4) << "the lower efficiency of the next larger size";
  const draw::Document document = make_proposal(analysis, {.job_size = 16});
  std::string text;
  for (const draw::Section& section : document.sections)
    for (const draw::Block& block : section.blocks)
      if (const auto* paragraph = std::get_if<draw::Paragraph>(&block)) text += paragraph->text + "\n";
  EXPECT_NE(text.find("M15"), std::string::npos);
  EXPECT_NE(text.find("weak scaling"), std::string::npos);
  EXPECT_NE(text.find("lockstep train clip --name n1r0"), std::string::npos) << "the exact commands";
}

std::string text_of(const draw::Document& document) {
  std::string text;
  for (const draw::Section& section : document.sections)
    for (const draw::Block& block : section.blocks) {
      if (const auto* paragraph = std::get_if<draw::Paragraph>(&block)) text += paragraph->text + "\n";
      if (const auto* table = std::get_if<draw::Table>(&block)) {
        text += table->title + "\n" + table->caption + "\n";
        for (const auto& row : table->rows) {
          for (const draw::Cell& cell : row) text += cell.text + " | ";
          text += "\n";
        }
      }
    }
  return text;
}

/// What stands below the tables: reasons of empty cells and remarks.
std::string notes_of(const draw::Document& document) {
  std::string text;
  for (const draw::Section& section : document.sections)
    for (const draw::Block& block : section.blocks)
      if (const auto* table = std::get_if<draw::Table>(&block)) {
        for (const auto& row : table->rows)
          for (const draw::Cell& cell : row) text += cell.note + "\n";
        text += core::join(table->notes, "\n");
      }
  return text;
}

TEST(Proposal, BeyondTheLargestSizeTheLossGoesOn) {
  const Analysis analysis = sweep();
  const ProposalOptions options{.job_size = 64};
  const auto estimate = estimate_resources(analysis.curves.at(0), analysis, options);
  ASSERT_TRUE(estimate);
  const double kept = 110.0 / 140.0, perfect = 64 * 32 / 0.140;
  EXPECT_NEAR(estimate->kept, kept * kept * kept, 0.01);
  EXPECT_NEAR(estimate->optimistic_rate_per_s / perfect, 1, 0.005);
  EXPECT_NEAR(estimate->rate_per_s / (perfect * kept * kept * kept), 1, 0.01) << "three doublings from 8 nodes";
  EXPECT_NEAR(estimate->total_node_hours / estimate->optimistic_total_node_hours, 1 / (kept * kept * kept), 0.05);
  EXPECT_NE(estimate->pause_source.find("8 nodes"), std::string::npos) << estimate->pause_source;
  const std::string text = text_of(make_proposal(analysis, options));
  EXPECT_NE(text.find("extrapolated, not measured"), std::string::npos) << text;
  EXPECT_NE(text.find("total, optimistic"), std::string::npos);
}

TEST(Proposal, SlowStepsAndPausesLeadToTheBilledRate) {
  record::RunData run = make_run({.name = "uneven", .nodes = 2});
  double later_s = 0;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    if (i * 7919 % 101 < 10) {
      run.steps.step_ms[i] += 400;  // about one step in ten is slow, at no fixed distance, and a pause follows it
      later_s += 0.4 + 0.1;
    }
    run.steps.time_s[i] += later_s;
  }
  std::vector<RunSummary> runs;
  runs.push_back(summarise_run(run, {}));
  const Analysis analysis = analyse(std::move(runs), {.budget_samples = 3.6e9});
  const auto estimate = estimate_resources(analysis.curves.at(0), analysis, {});
  ASSERT_TRUE(estimate);
  const Point& point = analysis.curves[0].points[0];
  EXPECT_GT(estimate->slow_share, 0.3);
  EXPECT_GT(estimate->pause_share, 0.03);
  EXPECT_NEAR(estimate->total_node_hours, 2 * 3.6e9 / point.billed_samples_per_s / 3600,
              1e-6 * estimate->total_node_hours);
}

TEST(Proposal, WithoutAClockPausesAreSaidToBeMissingNotMeasuredAsNone) {
  record::RunData run = make_run({.name = "no-clock", .nodes = 2});
  run.steps.time_s.assign(run.steps.size(), std::nan(""));
  std::vector<RunSummary> runs;
  runs.push_back(summarise_run(run, {}));
  const Analysis analysis = analyse(std::move(runs), {});
  EXPECT_TRUE(std::isnan(analysis.curves.at(0).points.at(0).billed_samples_per_s));
  const auto estimate = estimate_resources(analysis.curves.at(0), analysis, {});
  ASSERT_TRUE(estimate);
  EXPECT_FALSE(estimate->is_pause_known);
  EXPECT_EQ(estimate->pause_share, 0);
  const std::string text = text_of(make_proposal(analysis, {}));
  EXPECT_EQ(text.find("measured: wall clock"), std::string::npos) << text;
  EXPECT_EQ(text.find("0.0 % for pauses"), std::string::npos) << text;
  EXPECT_NE(text.find("other time between steps are not in the total"), std::string::npos) << text;
  const auto asks_for_shares = [&](const ProposalOptions& options) {
    return core::join(missing_for_proposal(analysis, options), "\n").find("--eval-share") != std::string::npos;
  };
  EXPECT_TRUE(asks_for_shares({}));
  EXPECT_FALSE(asks_for_shares({.eval_share = 2}));
  EXPECT_TRUE(estimate_resources(analysis.curves[0], analysis, {.eval_share = 2})->is_pause_known);
}

TEST(Proposal, ARepeatWithoutAClockLeavesThePausesOfTheOthers) {
  record::RunData paused = make_run({.name = "paused", .nodes = 2}), no_clock = make_run({.name = "none", .nodes = 2});
  for (size_t i = 0; i < paused.steps.size(); ++i) paused.steps.time_s[i] += 0.05 * static_cast<double>(i);
  no_clock.steps.time_s.assign(no_clock.steps.size(), std::nan(""));
  const auto pauses = [](const std::vector<record::RunData>& of) {
    std::vector<RunSummary> runs;
    for (const record::RunData& run : of) runs.push_back(summarise_run(run, {}));
    const Analysis analysis = analyse(std::move(runs), {});
    const auto estimate = estimate_resources(analysis.curves.at(0), analysis, {});
    return estimate && estimate->is_pause_known ? estimate->pause_share : std::nan("");
  };
  const double alone = pauses({paused});
  EXPECT_NEAR(alone, 0.5, 0.02);
  EXPECT_NEAR(pauses({paused, no_clock}), alone, 0.02);
}

/// A pause of five seconds before each of these steps.
record::RunData run_paused_before(const std::string& name, const std::vector<size_t>& steps) {
  record::RunData run = make_run({.name = name, .nodes = 2});
  for (const size_t step : steps)
    for (size_t i = step; i < run.steps.size(); ++i) run.steps.time_s[i] += 5;
  return run;
}

std::optional<ResourceEstimate> estimate_of(const std::vector<record::RunData>& of) {
  std::vector<RunSummary> runs;
  for (const record::RunData& run : of) runs.push_back(summarise_run(run, {}));
  const Analysis analysis = analyse(std::move(runs), {});
  return estimate_resources(analysis.curves.at(0), analysis, {});
}

TEST(Proposal, SinglePausesOfSeveralRunsAreNoMeasurement) {
  const auto single =
      estimate_of({run_paused_before("a", {300}), run_paused_before("b", {400}), run_paused_before("c", {500})});
  ASSERT_TRUE(single);
  EXPECT_TRUE(single->has_few_pauses);
  EXPECT_NE(single->pause_source.find("one pause or none in each run"), std::string::npos) << single->pause_source;
  const record::RunData often = run_paused_before("often", {100, 300, 500, 700});
  const auto alone = estimate_of({often}), with_others = estimate_of({often, run_paused_before("b", {400})});
  ASSERT_TRUE(alone && with_others);
  EXPECT_FALSE(with_others->has_few_pauses);
  EXPECT_NEAR(with_others->pause_share, alone->pause_share, 1e-9) << "that of the run that tells it";
}

TEST(Billed, IsTheClockWhateverPeriodPausesHave) {
  // One in 200 steps; the window ends elsewhere than a period does.
  const record::RunData run = run_paused_before("often", {100, 300, 500});
  const RunSummary summary = summarise_run(run, {});
  const double clock_s = run.steps.time_s.back() - run.steps.time_s[run.steps.size() - summary.num_measured_steps - 1];
  EXPECT_NEAR(summary.billed_s, clock_s, 0.01 * clock_s);
  EXPECT_GT(std::abs(summary.pause_ratio * summary.measured_s - clock_s), 0.5) << "which tells of longer runs";
}

TEST(Proposal, TellsTheUtilisationByOurCountElseByTheProgramsOwn) {
  record::RunData run = make_run({.name = "counted"});
  run.steps.logged_tflops_per_device.assign(run.steps.size(), 98.9);
  const auto utilisation = [](const record::RunData& one) -> std::string {
    std::vector<RunSummary> runs;
    runs.push_back(summarise_run(one, {}));
    const std::string text = text_of(make_proposal(analyse(std::move(runs), {}), {}));
    const size_t begin = text.find("model FLOPs utilisation");
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_NE(utilisation(run).find("OpenCLIP profile"), std::string::npos) << utilisation(run);
  run.setup.forward_gflops_per_sample.reset();
  EXPECT_NE(utilisation(run).find("10.0 | %"), std::string::npos) << utilisation(run);
  EXPECT_NE(utilisation(run).find("printed by the program"), std::string::npos) << utilisation(run);
  run.setup.peak_tflops_per_device.reset();
  run.setup.device.clear();
  EXPECT_EQ(utilisation(run), "");
}

TEST(Proposal, EveryJobStartsUpAndThePriceIsToldWithThePlannedSize) {
  Analysis analysis = sweep();
  const ProposalOptions options{.job_size = 64, .job_hours = 10};
  const auto without = estimate_resources(analysis.curves.at(0), analysis, options);
  EXPECT_EQ(without->num_jobs, 0) << "no record tells the start-up";
  for (RunSummary& run : analysis.runs)
    run.startup.push_back({.attempt = 1, .phases_ms = {{"start", 60e3}, {"rendezvous", 1200e3}}});
  analysis.options.price_per_node_hour = 2.5;
  const auto estimate = estimate_resources(analysis.curves.at(0), analysis, options);
  EXPECT_DOUBLE_EQ(estimate->startup_s, 1260);
  const double hours = without->total_node_hours / 64;
  EXPECT_EQ(estimate->num_jobs, std::ceil(hours / (10 - 0.35)));
  EXPECT_NEAR(estimate->total_node_hours, without->total_node_hours + 64 * 0.35 * estimate->num_jobs,
              1e-6 * estimate->total_node_hours);
  const std::string text = text_of(make_proposal(analysis, options));
  for (const char* words : {"2.5 per node-hour", "of 10 h each", "\n64 | "})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_EQ(estimate_resources(analysis.curves.at(0), analysis, {.job_hours = 0.3})->num_jobs, 0)
      << "a job that ends before its first step";
}

TEST(Proposal, WhyJobsAreNotCountedIsSaidAsItIs) {
  Analysis analysis = sweep();
  const auto text = [&](const ProposalOptions& options) { return text_of(make_proposal(analysis, options)); };
  const std::string unmeasured = text({.job_size = 64, .job_hours = 24});
  EXPECT_NE(unmeasured.find("not measured, and not in the total"), std::string::npos) << unmeasured;
  EXPECT_EQ(unmeasured.find("start-up is not in the total"), std::string::npos) << "a row without a number:\n"
                                                                                << unmeasured;
  for (RunSummary& run : analysis.runs) run.startup.push_back({.attempt = 1, .phases_ms = {{"start", 3600e3}}});
  EXPECT_NE(text({.job_size = 64}).find("the wall time of a job is not given (--job-hours)"), std::string::npos);
  EXPECT_NE(text({.job_size = 64, .job_hours = 0.5}).find("a job of 0.5 h is shorter than its start-up"),
            std::string::npos);
}

TEST(Proposal, APriceHasTheUnitThatTheUserGivesElseItIsAskedFor) {
  Analysis analysis = sweep();
  analysis.options.price_per_node_hour = 2.5;
  const auto missing = [&] { return core::join(missing_for_proposal(analysis, {}), "\n"); };
  EXPECT_NE(missing().find("the currency of the price: give --currency"), std::string::npos) << missing();
  analysis.options.currency = "EUR";
  EXPECT_EQ(missing().find("--currency"), std::string::npos);
  const std::string text = text_of(make_proposal(analysis, {.job_size = 64}));
  EXPECT_NE(text.find("| EUR | 2.5 EUR per node-hour"), std::string::npos) << text;
}

TEST(Proposal, TheNoteTellsOnWhichPausesTheShareRests) {
  Analysis analysis = sweep();
  for (Curve& curve : analysis.curves)
    for (Point& point : curve.points) {
      point.pause_ratio = 1.1, point.num_pauses = 2, point.are_pauses_measured = true;
      for (const size_t index : point.runs) analysis.runs[index].num_pauses = 0;  // no measurement: not of the share
      RunSummary& run = analysis.runs[point.runs.front()];
      run.pause_ratio = 1.1, run.num_pauses = 2, run.num_window_steps = 40;
    }
  const std::string words = "rests on 2 pauses in 40 measured steps, one every 20 or so";
  const std::string measured = notes_of(make_proposal(analysis, {.job_size = 64}));
  EXPECT_NE(measured.find(words), std::string::npos) << measured;
  const std::string given = notes_of(make_proposal(analysis, {.job_size = 64, .checkpoint_share = 1}));
  EXPECT_EQ(given.find("The share of pauses rests"), std::string::npos) << given;
}

TEST(Proposal, AlternativesTellTheHoursThatASiteBills) {
  std::vector<record::RunData> runs;
  for (const int64_t nodes : {1, 2}) runs.push_back(make_run({.name = fmt::format("n{}", nodes), .nodes = nodes}));
  const auto column_of = [](const draw::Document& document, const std::string& title) {
    std::vector<double> values;
    for (const draw::Section& section : document.sections)
      for (const draw::Block& block : section.blocks)
        if (const auto* table = std::get_if<draw::Table>(&block);
            table != nullptr && table->id.find("alternatives") != std::string::npos)
          for (size_t i = 0; i < table->columns.size(); ++i)
            if (table->columns[i].title == title)
              for (const auto& row : table->rows) values.push_back(row[i].value.value_or(0));
    return values;
  };
  for (const bool is_on_cpu : {false, true}) {
    for (record::RunData& run : runs) run.setup.is_on_cpu = is_on_cpu, run.setup.threads_per_device = 12;
    const draw::Document document = make_proposal(tests::analysis_of(runs), {});
    const std::vector<double> node_hours = column_of(document, "node-hours"),
                              billed = column_of(document, is_on_cpu ? "core-hours" : "GPU-hours");
    ASSERT_EQ(node_hours.size(), 2u);
    ASSERT_EQ(billed.size(), 2u);
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(billed[i], node_hours[i] * (is_on_cpu ? 48 : 4), 1e-6 * billed[i]);
  }
}

TEST(Proposal, ABudgetThatNobodyGaveIsNotThePlan) {
  Analysis analysis = sweep();
  const std::vector<std::string> missing = missing_for_proposal(analysis, {.restart_share = 5, .eval_share = 1});
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_NE(missing[0].find("--budget-samples"), std::string::npos) << missing[0];
  EXPECT_NE(text_of(make_proposal(analysis, {})).find("default; give --budget-samples"), std::string::npos);
  analysis.options.is_samples_budget_given = true;
  EXPECT_TRUE(missing_for_proposal(analysis, {.restart_share = 5, .eval_share = 1}).empty());
  EXPECT_EQ(missing_for_proposal(analysis, {.eval_share = 1}).size(), 1u) << "restarts";
  EXPECT_NE(text_of(make_proposal(analysis, {})).find("given with --budget-samples"), std::string::npos);
}

TEST(Collectives, ABenchmarkHasItsSectionAndIsNotUnusable) {
  record::RunData run;
  run.name = "all_reduce_perf.txt";
  run.source = "/logs/all_reduce_perf.txt";
  run.format = "nccl-tests";
  for (const double bytes : {1048576.0, 2097152.0})
    run.collective_points.push_back({.kind = "all_reduce",
                                     .num_ranks = 4,
                                     .bytes = bytes,
                                     .time_us = 50,
                                     .algbw_gbytes_per_s = bytes / 50e3,
                                     .busbw_gbytes_per_s = 1.5 * bytes / 50e3,
                                     .num_wrong = 0});
  const Analysis analysis = analyse({summarise_run(run, {})}, {});
  EXPECT_TRUE(analysis.left_out.empty());
  EXPECT_TRUE(analysis.missing.empty());
  const draw::Document document = make_document(analysis);
  const std::string text = text_of(document);
  EXPECT_EQ(text.find("No run here holds a usable measurement"), std::string::npos);
  EXPECT_NE(text.find("all_reduce | out of place | 4 | 1,048,576"), std::string::npos) << text;
  bool has_chart = false;
  for (const draw::Section& section : document.sections)
    for (const draw::Block& block : section.blocks)
      if (const auto* chart = std::get_if<draw::Chart>(&block); chart != nullptr && section.id == "collectives") {
        has_chart = true;
        EXPECT_EQ(chart->x.scale, draw::Scale::kLog2);
        EXPECT_EQ(chart->series.at(0).x.size(), 2u);
      }
  EXPECT_TRUE(has_chart);
}

TEST(Sources, ADamagedSweepFileLeavesItsRuns) {
  core::TempDir folder;
  for (const char* name : {"n1", "n2"}) {
    std::filesystem::create_directories(folder.path() / "runs" / name);
    core::write_file_atomic(folder.path() / "runs" / name / "run.json", "{}");
  }
  const std::string large_point =
      R"({"run": "runs/n1", "axes": {}, "tags": {}, "state": "finished", "message": "", "jobs": [],
          "nodes": 4611686018427387904, "ranks_per_node": 4611686018427387904})";
  for (const std::string& text :
       {std::string("{\"sweep_version\": 1, \"poi"), std::string("{\"sweep_version\": 1, \"points\": [{}]}"),
        "{\"sweep_version\": 1, \"points\": [" + large_point + "]}"}) {
    core::write_file_atomic(folder.path() / "sweep.json", text);
    const std::vector<Source> sources = find_sources({folder.path().string()});
    ASSERT_EQ(sources.size(), 3u) << text;
    EXPECT_EQ(sources[0].name, "n1");
    EXPECT_TRUE(sources[1].damage.empty());
    EXPECT_NE(sources[2].damage.find("2 runs below its folder are reported"), std::string::npos) << sources[2].damage;
  }
  core::write_file_atomic(folder.path() / "sweep.json", "{\"sweep_version\": 99}");
  EXPECT_THROW(find_sources({folder.path().string()}), DataError);
}

TEST(Proposal, ThePeakBehindTheMfuIsNamed) {
  const std::string text = text_of(make_proposal(sweep(), {}));
  EXPECT_NE(text.find("MFU is against a peak per device of 989 TFLOP/s, datasheet, dense bf16."), std::string::npos)
      << text;
  EXPECT_NE(text.find("peak per device | 989 TFLOP/s, datasheet, dense bf16"), std::string::npos) << text;
}

TEST(Proposal, SizesInDevicesGiveDeviceHours) {
  std::vector<RunSummary> runs;
  for (const auto& [devices, ms] : {std::pair{1, 100.0}, {2, 104.0}, {4, 110.0}})
    runs.push_back(
        summarise_run(make_run({.name = fmt::format("d{}", devices), .devices_per_node = devices, .step_ms = ms}), {}));
  Analysis analysis = analyse(std::move(runs), {.budget_samples = 3.6e9});
  ASSERT_EQ(analysis.curves.size(), 1u);
  ASSERT_TRUE(analysis.curves[0].is_by_devices);
  const ProposalOptions options{.job_size = 64, .sweep_node_hours = 50};
  const auto estimate = estimate_resources(analysis.curves[0], analysis, options);
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->size, 4) << "64 nodes are no number of devices";
  EXPECT_NEAR(estimate->total_node_hours / (4 * 3.6e9 / (32 / 0.110) / 3600), 1, 0.01);
  const std::string text = text_of(make_proposal(analysis, options));
  EXPECT_NE(text.find("device-hours = N x"), std::string::npos) << text;
  EXPECT_NE(text.find("all runs are of one node"), std::string::npos);
  analysis.curves[0].base.reset();
  analysis.curves[0].base_reason = "there is no base";
  EXPECT_NE(text_of(make_proposal(analysis, {})).find("No resource estimate: there is no base"), std::string::npos);
}

TEST(Proposal, SharedCoresCostTheHoursOfOneMachine) {
  std::vector<RunSummary> runs;
  for (const auto& [ranks, ms] : {std::pair{1, 100.0}, {2, 104.0}, {4, 110.0}}) {
    record::RunData run = make_run({.name = fmt::format("d{}", ranks), .devices_per_node = ranks, .step_ms = ms});
    run.setup.device = "cpu";
    runs.push_back(summarise_run(run, {}));
  }
  const Analysis analysis = analyse(std::move(runs), {.budget_samples = 3.6e9});
  ASSERT_TRUE(analysis.curves.at(0).is_by_devices && analysis.curves[0].shares_cores);
  const ProposalOptions options{.sweep_node_hours = 50};
  const auto estimate = estimate_resources(analysis.curves[0], analysis, options);
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->size, 4);
  EXPECT_NEAR(estimate->node_hours / (3.6e9 / (32 / 0.110) / 3600), 1, 0.01) << "of one machine, not of four";
  EXPECT_NEAR(
      estimate->total_node_hours - estimate->node_hours * (1 + estimate->slow_share) * (1 + estimate->pause_share), 50,
      1e-6);
  const std::string text = text_of(make_proposal(analysis, options));
  EXPECT_EQ(text.find("device-hours"), std::string::npos) << text;
  EXPECT_NE(text.find("shared the cores of one machine. Sizes are its ranks"), std::string::npos) << text;
}

TEST(Proposal, TheReportsOwnCommandAndVersionAreGiven) {
  const std::string text =
      text_of(make_proposal(sweep(), {.report_command = "lockstep report logs --proposal", .version = "1.2.3"}));
  EXPECT_NE(text.find("by lockstep 1.2.3:\nlockstep report logs --proposal\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::analysis
