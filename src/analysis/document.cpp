#include "analysis/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/cells.h"
#include "analysis/charts.h"
#include "analysis/charts_runs.h"
#include "analysis/collectives.h"
#include "analysis/curve_names.h"
#include "analysis/json.h"
#include "analysis/latency.h"
#include "analysis/losses.h"
#include "analysis/summary.h"
#include "analysis/tables.h"
#include "analysis/tables_epochs.h"
#include "analysis/tables_runs.h"
#include "analysis/text.h"
#include "core/counted.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxDetailedCurves = 8;  // curves with pictures of their own; the rest keep their tables

using Kind = draw::Paragraph::Kind;

draw::Section result_section(const Analysis& analysis) {
  draw::Section section{.id = "result", .title = "Result"};
  const bool has_benchmarks = std::any_of(analysis.runs.begin(), analysis.runs.end(), [](const RunSummary& run) {
    return !run.collective_points.empty() || !run.latency_points.empty();
  });
  if (analysis.curves.empty() && !has_benchmarks)
    add_text(section,
             {"No run here holds a usable measurement. What was read, and why it could not be used, is listed below."},
             Kind::kWarning);
  if (analysis.curves.size() > 1 || !analysis.left_out.empty()) add_block(section, run_overview(analysis, true));
  add_block(section, efficiency_charts(analysis.curves, analysis.options));
  for (const Curve& curve : analysis.curves) {
    add_text(section, conclusions_of(curve, analysis.options));
    add_text(section, limits_of(curve), Kind::kNote);
    add_block(section, scaling_table(curve));
  }
  if (!analysis.missing.empty()) {
    add_text(section, {"Missing:"});
    add_text(section, {core::join(analysis.missing, "\n")}, Kind::kList);
  }
  return section;
}

draw::Section rate_section(const Analysis& analysis) {
  draw::Section section{.id = "rates", .title = "Rates, utilisation, speed-up"};
  add_block(section, throughput_charts(analysis.curves));
  add_block(section, utilisation_charts(analysis.curves));
  add_block(section, speedup_charts(analysis.curves));
  for (const Curve& curve : analysis.curves) {
    add_block(section, rate_table(curve));
    add_block(section, efficiency_table(curve));
    add_block(section, epoch_table(curve));
    add_block(section, interval_table(curve));
    add_block(section, protocol_table(curve, analysis.runs));
  }
  add_block(section, system_table(analysis));
  return section;
}

draw::Section cost_section(const Analysis& analysis) {
  draw::Section section{.id = "cost", .title = "Time to solution and cost"};
  add_block(section, time_charts(analysis.curves, analysis.options));
  for (const Curve& curve : analysis.curves) add_block(section, cost_table(curve, analysis.options));
  return section;
}

draw::Section step_section(const Analysis& analysis) {
  draw::Section section{.id = "steps", .title = "Step times"};
  size_t shown = 0;
  for (const Curve& curve : analysis.curves) {
    if (shown++ < kMaxDetailedCurves) {
      add_block(section, cdf_charts(curve, analysis.runs));
      add_block(section, trace_charts(curve, analysis.runs));
    }
    add_block(section, quantile_table(curve));
    add_block(section, distribution_table(curve, analysis.runs));
  }
  if (shown > kMaxDetailedCurves)
    add_text(section,
             {fmt::format("Pictures are drawn for the first {} of {} configurations; the tables have them all.",
                          kMaxDetailedCurves, shown)},
             Kind::kNote);
  return section;
}

draw::Section cause_section(const Analysis& analysis) {
  draw::Section section{.id = "causes", .title = "Where the time goes"};
  size_t shown = 0;
  for (const Curve& curve : analysis.curves) {
    const bool has_pictures = shown++ < kMaxDetailedCurves;
    if (const auto chart = breakdown_chart(curve); chart && has_pictures)
      add_block(section, std::vector<draw::Chart>{*chart});
    add_block(section, phase_table(curve));
    add_block(section, straggler_table(curve, analysis.runs));
    add_block(section, host_table(curve, analysis.runs));
    if (has_pictures) add_block(section, collective_charts(curve, analysis.runs));
    add_block(section, collective_table(curve, analysis.runs));
    add_block(section, resource_table(curve));
    add_block(section, startup_table(curve, analysis.runs));
    add_block(section, evaluation_table(curve, analysis.runs));
  }
  return section;
}

draw::Section collective_section(const Analysis& analysis) {
  draw::Section section{.id = "collectives", .title = "Collectives"};
  add_block(section, collective_benchmark_charts(analysis.runs));
  add_block(section, collective_summary_table(analysis.runs));
  add_block(section, collective_benchmark_table(analysis.runs));
  return section;
}

draw::Section latency_section(const Analysis& analysis) {
  draw::Section section{.id = "latency", .title = "Inference latency"};
  add_block(section, latency_charts(analysis.runs));
  add_block(section, latency_table(analysis.runs));
  add_block(section, latency_stage_table(analysis.runs));
  return section;
}

draw::Section training_section(const Analysis& analysis) {
  draw::Section section{.id = "training", .title = "Training efficiency"};
  if (auto chart = loss_chart(analysis)) add_block(section, std::vector<draw::Chart>{*chart});
  for (const Curve& curve : analysis.curves) add_block(section, loss_table(curve));
  return section;
}

draw::Section trust_section(const Analysis& analysis) {
  draw::Section section{.id = "trust", .title = "What to trust"};
  if (analysis.flags.empty() && !analysis.runs.empty()) add_text(section, {"No honesty check fired."});
  add_block(section, check_table(analysis));
  add_block(section, left_out_table(analysis));
  add_block(section, problem_table(analysis));
  return section;
}

draw::Section method_section(const Analysis& analysis) {
  draw::Section section{.id = "method", .title = "Method"};
  add_text(section, method_of(analysis));
  std::set<std::string> commands;
  for (const RunSummary& run : analysis.runs)
    if (!run.command.empty()) commands.insert(run.command);
  size_t shown = 0;
  for (const std::string& command : commands)
    if (shown++ < kMaxDetailedCurves) add_text(section, {command}, Kind::kCode);
  add_block(section, manifest_table(analysis));
  add_block(section, run_table(analysis));
  return section;
}

/// Names the models where these are all, else how many configurations there are.
std::string title_of(const Analysis& analysis) {
  constexpr size_t kMaxModels = 3;
  std::set<std::string> models;
  for (const RunSummary& run : analysis.runs)
    if (run.collective_points.empty()) models.insert(run.setup.model);
  if (!models.empty() && models.size() <= kMaxModels && !models.contains(""))
    return "Scaling report: " + core::join(std::vector<std::string>(models.begin(), models.end()), ", ");
  return analysis.curves.size() > 1 ? fmt::format("Scaling report: {} configurations", analysis.curves.size())
                                    : "Scaling report";
}

std::string subtitle_of(const Analysis& analysis) {
  size_t num_points = 0;
  for (const Curve& curve : analysis.curves) num_points += curve.points.size();
  return fmt::format("{}, {} in {}, {} fired", core::counted(analysis.runs.size(), "run"),
                     core::counted(num_points, "size"), core::counted(analysis.curves.size(), "configuration"),
                     core::counted(analysis.flags.size(), "check"));
}
}  // namespace

void add_block(draw::Section& section, draw::Table table) {
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
}

void add_block(draw::Section& section, std::vector<draw::Chart> charts) {
  for (draw::Chart& chart : charts) section.blocks.emplace_back(std::move(chart));
}

void add_text(draw::Section& section, const std::vector<std::string>& texts, draw::Paragraph::Kind kind) {
  for (const std::string& text : texts) section.blocks.emplace_back(draw::Paragraph{.text = text, .kind = kind});
}

draw::Document make_document(const Analysis& analysis) {
  draw::Document document;
  document.title = title_of(analysis);
  document.subtitle = subtitle_of(analysis);
  for (draw::Section (*section)(const Analysis&) :
       {result_section, rate_section, cost_section, step_section, cause_section, collective_section, latency_section,
        training_section, trust_section, method_section}) {
    draw::Section made = section(analysis);
    if (analysis.curves.size() == 1)
      for (draw::Block& block : made.blocks) {
        const std::string& name = analysis.curves.front().name;
        if (auto* table = std::get_if<draw::Table>(&block))
          table->title = capitalised(without_name(table->title, name));
        if (auto* chart = std::get_if<draw::Chart>(&block))
          chart->title = capitalised(without_name(chart->title, name));
      }
    if (!made.blocks.empty()) document.sections.push_back(std::move(made));
  }
  document.data_json = analysis_json(analysis);
  return document;
}

}  // namespace lockstep::analysis
