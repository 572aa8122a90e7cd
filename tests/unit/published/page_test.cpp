// What stands on a page: titles, captions, which columns and which values.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "analysis/charts.h"
#include "analysis/charts_runs.h"
#include "analysis/collectives.h"
#include "analysis/document.h"
#include "analysis/tables.h"
#include "core/files.h"
#include "core/strings.h"
#include "draw/block_names.h"
#include "draw/render.h"
#include "published/recompute.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::published {
namespace {

using tests::analysis_of;
using tests::make_run;

std::vector<record::RunData> sweep_of(const std::string& model) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2, 4})
    runs.push_back(make_run({.name = fmt::format("{}_n{}", model, nodes),
                             .nodes = nodes,
                             .step_ms = 100.0 + 5 * nodes,
                             .job = fmt::format("slurm {}", nodes),
                             .model = model}));
  return runs;
}

/// The rows of a table of results, as an analysis.
analysis::Analysis rows_of_table(const std::string& text) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "mine.csv", text);
  return check_published(folder.path() / "mine.csv", {}).rows;
}

std::vector<std::string> titles_of(const draw::Document& document) {
  std::vector<std::string> titles;
  for (const draw::Section& section : document.sections)
    for (const draw::Block& block : section.blocks)
      if (const std::string title = draw::block_title(block); !title.empty()) titles.push_back(title);
  return titles;
}

std::string captions_of(const draw::Document& document) {
  std::string captions;
  for (const draw::Section& section : document.sections)
    for (const draw::Block& block : section.blocks) {
      if (const auto* table = std::get_if<draw::Table>(&block)) {
        captions += table->caption + "\n";
        for (const auto& row : table->rows)
          for (const draw::Cell& cell : row) captions += cell.note.empty() ? "" : cell.note + "\n";
      }
      if (const auto* chart = std::get_if<draw::Chart>(&block))
        captions += chart->caption + "\n" + chart->summary + "\n";
    }
  return captions;
}

std::set<std::string> keys_of(const draw::Table& table) {
  std::set<std::string> keys;
  for (const draw::Column& column : table.columns) keys.insert(column.key);
  return keys;
}

TEST(Page, TheScalingTableHasWhatFitsAPageAndTheRestItsOwn) {
  const analysis::Analysis analysis = analysis_of(sweep_of("ViT-B-32"));
  const draw::Table scaling = analysis::scaling_table(analysis.curves.at(0)),
                    quantiles = analysis::quantile_table(analysis.curves.at(0));
  EXPECT_EQ(keys_of(scaling), (std::set<std::string>{"nodes", "devices", "global_batch", "local_batch", "rate_per_s",
                                                     "rate_per_device_per_s", "speedup", "efficiency_pct", "mfu_pct",
                                                     "step_p50_ms", "runs", "checks"}));
  EXPECT_EQ(keys_of(quantiles), (std::set<std::string>{"nodes", "devices", "step_p50_ms", "step_p95_ms", "step_p99_ms",
                                                       "runs", "jobs", "steps"}));
  ASSERT_EQ(quantiles.rows.size(), 3u);
  EXPECT_NEAR(*quantiles.rows[2].at(3).value, analysis.curves[0].points[2].p95_ms, 1e-9);
  EXPECT_EQ(scaling.caption.find("weak scaling: "), std::string::npos) << "the title says it: " << scaling.caption;
  EXPECT_TRUE(scaling.caption.starts_with("The local batch is 8 at every size")) << scaling.caption;
}

TEST(Page, TablesOfResultsHaveNoCaptionsOfSteps) {
  const analysis::Analysis rows = rows_of_table("nodes,gpus,samples_per_s\n1,4,100\n2,8,190\n4,16,360\n");
  const analysis::Curve& curve = rows.curves.at(0);
  ASSERT_TRUE(curve.points[0].is_of_table);
  std::string captions = analysis::scaling_table(curve).caption + analysis::efficiency_table(curve).caption +
                         analysis::cost_table(curve, {}).caption;
  for (const auto& charts : {analysis::efficiency_charts({curve}), analysis::throughput_charts({curve}),
                             analysis::speedup_charts({curve}), analysis::time_charts({curve}, {})}) {
    ASSERT_FALSE(charts.empty());
    for (const draw::Chart& chart : charts) captions += chart.caption;
  }
  for (const char* wrong : {"median steps", "of the median step", "interval", "+-", "Dashed"})
    EXPECT_EQ(captions.find(wrong), std::string::npos) << wrong << " in " << captions;
  EXPECT_FALSE(keys_of(analysis::efficiency_table(curve)).contains("efficiency_low_pct"));
  EXPECT_TRUE(analysis::quantile_table(curve).rows.empty());

  const analysis::Analysis measured = analysis_of(sweep_of("m"));
  EXPECT_NE(analysis::efficiency_charts(measured.curves)[0].caption.find("Bars are 95 % intervals"), std::string::npos);
  EXPECT_NE(analysis::scaling_table(measured.curves[0]).caption.find("+- is half"), std::string::npos);
  EXPECT_TRUE(keys_of(analysis::efficiency_table(measured.curves[0])).contains("efficiency_low_pct"));
}

TEST(Page, HeadingsOfSeveralConfigurationsDiffer) {
  std::vector<record::RunData> runs = sweep_of("ViT-B-32");
  for (record::RunData run : sweep_of("")) {  // another unit, and a model that is not told
    run.setup.sample_unit = "sequences";
    run.setup.task = "gpt";
    runs.push_back(std::move(run));
  }
  const draw::Document document = analysis::make_document(analysis_of(runs));
  EXPECT_EQ(document.title, "Scaling report: 2 configurations") << "one model is not the whole";
  const std::vector<std::string> titles = titles_of(document);
  EXPECT_EQ(std::set<std::string>(titles.begin(), titles.end()).size(), titles.size()) << core::join(titles, "\n");
  EXPECT_NE(std::find(titles.begin(), titles.end(), "Scaling efficiency: ViT-B-32, bf16"), titles.end())
      << core::join(titles, "\n");
  EXPECT_EQ(analysis::make_document(analysis_of(sweep_of("ViT-B-32"))).title, "Scaling report: ViT-B-32");
}

TEST(Page, HeadingsOfSeveralSectionsNameTheirs) {
  const draw::Document document{.sections = {{.title = "A",
                                              .blocks = {draw::Chart{.id = "c", .title = "Speed-up"},
                                                         draw::Table{.id = "t", .title = "Runs"}, draw::Paragraph{}}},
                                             {.title = "B", .blocks = {draw::Chart{.id = "c", .title = "Speed-up"}}}}};
  EXPECT_EQ(draw::name_blocks(document).headings,
            (std::vector<std::vector<std::string>>{{"Speed-up: A", "Runs", ""}, {"Speed-up: B"}}));
  const std::string html = draw::to_html(document);
  EXPECT_EQ(core::split(html, ">Speed-up: B</").size(), 3u) << "in the contents and as a heading";
  EXPECT_NE(draw::to_markdown(document).find("### Speed-up: B\n"), std::string::npos);
}

TEST(Page, EightConfigurationsComeInCountedCharts) {
  std::vector<record::RunData> runs;
  for (int model = 0; model < 8; ++model)
    for (record::RunData& run : sweep_of(fmt::format("m{}", model))) runs.push_back(std::move(run));
  const std::vector<draw::Chart> charts = analysis::efficiency_charts(analysis_of(runs).curves);
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].title, "Scaling efficiency: samples/s over nodes (1 of 2)");
  EXPECT_EQ(charts[1].title, "Scaling efficiency: samples/s over nodes (2 of 2)");
}

TEST(Page, TimeAndCostSayForWhichWork) {
  const analysis::Analysis analysis = analysis_of(sweep_of("m"));
  const std::vector<draw::Chart> charts = analysis::time_charts(analysis.curves, {});
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].title, "Time to solution for 10^9 samples");
  EXPECT_EQ(charts[1].title, "Node-hours for 10^9 samples");
  EXPECT_NE(charts[0].caption.find("--budget-samples changes it"), std::string::npos) << charts[0].caption;
  analysis::AnalysisOptions given{.budget_samples = 1.3e10};
  given.is_samples_budget_given = true;
  EXPECT_EQ(analysis::time_charts(analysis.curves, given)[0].title, "Time to solution for 1.3 x 10^10 samples");
  EXPECT_EQ(analysis::time_charts(analysis.curves, given)[0].caption.find("--budget-samples"), std::string::npos);
  EXPECT_EQ(analysis::cost_table(analysis.curves[0], given).caption.find("--budget-samples"), std::string::npos);
}

TEST(Page, ARateThatIsUnknownIsLeftOutAndSaidToBe) {
  std::vector<record::RunData> runs = sweep_of("m");
  for (record::RunData& run : runs) {
    run.setup.global_batch.reset(), run.setup.samples_per_device.reset();
    for (double& samples : run.steps.samples) samples = std::nan("");
    for (double& samples : run.steps.samples_seen) samples = std::nan("");
  }
  const analysis::Analysis analysis = analysis_of(runs);
  ASSERT_FALSE(std::isfinite(analysis.curves.at(0).points[0].samples_per_s.value));
  const std::string captions = captions_of(analysis::make_document(analysis));
  EXPECT_EQ(captions.find("nan"), std::string::npos) << captions;
  const draw::Table table = analysis::scaling_table(analysis.curves[0]);
  EXPECT_NE(table.caption.find("Base: the smallest size with a valid point, 1 node."), std::string::npos)
      << table.caption;
  EXPECT_EQ(table.rows[1].at(7).note, "needs the batch: the rate is unknown");
}

TEST(Page, SizesOfLettersFollowTheWidthOfTheTable) {
  const auto classes = [](size_t num_columns, const std::string& text) {
    draw::Table table{.id = "t", .title = "t", .columns = {}, .rows = {{}}};
    for (size_t column = 0; column < num_columns; ++column)
      table.columns.push_back({fmt::format("c{}", column), fmt::format("c{}", column)}),
          table.rows[0].push_back({.text = text});
    const std::string html = draw::to_html(draw::Document{.sections = {{.id = "s", .title = "s", .blocks = {table}}}});
    const size_t begin = html.find("<table") + 6;
    return html.substr(begin, html.find('>', begin) - begin);
  };
  EXPECT_EQ(classes(3, "1,234"), "");
  EXPECT_EQ(classes(12, "27,025 (26,947 to 27,126)"), " class=\"most fine split\"");
  EXPECT_EQ(classes(60, "1,234,567.8"), " class=\"most finest split tight\"")
      << "nothing fits: words may break, nothing is cut";
}

/// A run whose log tells means over ten steps, with one of them far off.
record::RunData run_of_means(int64_t nodes, double outlier) {
  record::RunData run =
      make_run({.name = fmt::format("n{}", nodes), .nodes = nodes, .ripple = 0.03, .num_steps = 60, .num_slow = 0});
  for (auto& steps : run.steps.num_steps) steps = 10;
  for (double& samples : run.steps.samples) samples *= 10;
  run.steps.step_ms.at(40) *= outlier;
  return run;
}

TEST(Page, OneSlowIntervalDoesNotStretchTheDistribution) {
  const analysis::Analysis analysis = analysis_of({run_of_means(1, 1), run_of_means(2, 2.3)});
  const std::vector<draw::Chart> charts = analysis::cdf_charts(analysis.curves.at(0), analysis.runs);
  ASSERT_EQ(charts.size(), 1u);
  const draw::Chart& chart = charts[0];
  ASSERT_TRUE(chart.x.min && chart.x.max);
  EXPECT_GT(*chart.x.min, 0.9) << "steps lie within 3 %";
  EXPECT_LT(*chart.x.max, 1.1);
  for (const draw::Series& series : chart.series) {
    size_t num_inside = 0;
    for (const double x : series.x) num_inside += x >= *chart.x.min && x <= *chart.x.max ? 1 : 0;
    EXPECT_GE(num_inside + 1, series.x.size()) << series.name;
  }
  EXPECT_NE(chart.caption.find("2 nodes: 1 of "), std::string::npos) << chart.caption;
  EXPECT_NE(chart.caption.find("right of the axis, up to 2.3"), std::string::npos) << chart.caption;
  EXPECT_EQ(chart.caption.find("1 node: "), std::string::npos) << chart.caption;
  for (const std::string& text : {chart.title, chart.x.title, chart.y.title})
    EXPECT_NE(text.find("mean"), std::string::npos) << text;
  for (const draw::Chart& trace : analysis::trace_charts(analysis.curves[0], analysis.runs)) {
    EXPECT_EQ(trace.caption.find("Thinned"), std::string::npos) << "60 rows are all there";
    EXPECT_NE(trace.title.find("means over 10 steps"), std::string::npos) << trace.title;
  }
}

TEST(Page, ASecondModeIsDrawnNotCutOff) {
  record::RunData run = make_run({.num_slow = 0});
  for (size_t i = 0; i < run.steps.step_ms.size(); i += 8) run.steps.step_ms[i] *= 1.5;
  const analysis::Analysis analysis = analysis_of({run});
  const std::vector<draw::Chart> charts = analysis::cdf_charts(analysis.curves.at(0), analysis.runs);
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_GT(*charts[0].x.max, 1.45);
  EXPECT_EQ(charts[0].caption.find("of the axis, up to"), std::string::npos) << charts[0].caption;
  EXPECT_EQ(charts[0].title.find("mean"), std::string::npos);
}

TEST(Page, StepsThatAreAllAlikeHaveNoChartOrAnAxisOfTheirOwn) {
  record::RunData run = make_run({.ripple = 0, .num_slow = 0});
  run.steps.step_ms.back() += 0.001;
  const analysis::Analysis analysis = analysis_of({run});
  for (const draw::Chart& chart : analysis::cdf_charts(analysis.curves.at(0), analysis.runs))
    EXPECT_LT(*chart.x.min, *chart.x.max);
}

TEST(Page, ABenchmarkOfCollectivesHasOneLineForEachBuffer) {
  record::RunData run;
  run.name = "all_reduce_perf.txt";
  run.format = "nccl-tests";
  for (const bool is_in_place : {false, true})
    for (const double bytes : {8.0, 1048576.0, 2097152.0})
      run.collective_points.push_back({.kind = "all_reduce",
                                       .num_ranks = 4,
                                       .bytes = bytes,
                                       .is_in_place = is_in_place,
                                       .time_us = 10 + bytes / 1e4,
                                       .algbw_gbytes_per_s = bytes / 50e3,
                                       .busbw_gbytes_per_s = is_in_place && bytes > 2e6 ? 1 : bytes / 50e3,
                                       .num_wrong = 1});
  const draw::Table table = analysis::collective_summary_table({analysis::summarise_run(run, {})});
  ASSERT_EQ(table.rows.size(), 2u);
  std::string row;
  for (const draw::Cell& cell : table.rows[1]) row += cell.text + "|";
  EXPECT_EQ(row, "all_reduce_perf.txt|all_reduce|in place|4|21.0|1.00 MiB|10.00|8 B|3|3|");
  EXPECT_EQ(*table.rows[0].at(5).value, 2097152);
}

}  // namespace
}  // namespace lockstep::published
