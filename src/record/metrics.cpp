#include "record/metrics.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <vector>

#include "core/strings.h"
#include "record/metrics_table.h"

namespace lockstep::record {
namespace {

constexpr MetricSource kSources[] = {kSteps, kRanks, kComm, kSystem, kStartup, kResults, kDerived, kSweep};

constexpr const char* kDerivedNames =
    "Names are those of `report --json`: of a size (`curves[].points[]`) or of a column of its tables, with `series.` "
    "before them of a run (`runs[].series`). N nodes (devices\n"
    "where sizes are those), n devices, N0 the base of a curve.\n\n";

/// A text in a cell of a Markdown table.
std::string cell(std::string_view text) { return core::replace_all(std::string(text), "|", "\\|"); }

}  // namespace

std::string_view source_name(MetricSource source) {
  constexpr std::array<std::string_view, 8> kNames{"steps.jsonl",   "ranks.jsonl",   "comm.jsonl", "system.jsonl",
                                                   "startup.jsonl", "results.jsonl", "computed",   "sweep collect"};
  return kNames.at(static_cast<size_t>(source));
}

std::string_view reduction_name(Reduction reduction) {
  constexpr std::array<std::string_view, 7> kNames{"", "last", "sum", "max", "mean", "median", "ratio of totals"};
  return kNames.at(static_cast<size_t>(reduction));
}

std::span<const MetricDef> metric_catalogue() {
  static const std::vector<MetricDef> catalogue = [] {
    std::vector<MetricDef> all(std::begin(kRecordedMetrics), std::end(kRecordedMetrics));
    all.insert(all.end(), std::begin(kDerivedMetrics), std::end(kDerivedMetrics));
    all.insert(all.end(), std::begin(kSweepMetrics), std::end(kSweepMetrics));
    return all;
  }();
  return catalogue;
}

std::string metrics_markdown() {
  std::string text =
      "# Metrics\n\n"
      "After reading this page you can look up the unit and the formula of every number of a run record and of a "
      "report.\n\n"
      "Written by `lockstep config reference --metrics --format markdown`; do not edit.\n\n"
      "`one number` says how the values of steps, ranks or intervals become the one that a report shows: costs are "
      "averaged or\n"
      "summed, rates and shares are totals over totals, never means of ratios. The files are described in "
      "docs/record.md.\n";
  for (const MetricSource source : kSources) {
    const std::string title = source == kDerived ? "Computed by reports"
                              : source == kSweep ? "Computed by sweep collect"
                                                 : std::string(source_name(source));
    text += fmt::format("\n## {}\n\n{}| name | unit | one number | formula | meaning |\n|---|---|---|---|---|\n", title,
                        source == kDerived ? kDerivedNames : "");
    for (const MetricDef& metric : metric_catalogue())
      if (metric.source == source)
        text += fmt::format("| `{}` | {} | {} | {} | {} |\n", metric.name, metric.unit,
                            reduction_name(metric.reduction), cell(metric.formula), cell(metric.help));
  }
  return text;
}

core::Json metrics_json() {
  core::Json list = core::Json::array();
  for (const MetricDef& metric : metric_catalogue())
    list.push_back({{"name", metric.name},
                    {"unit", metric.unit},
                    {"source", source_name(metric.source)},
                    {"reduction", reduction_name(metric.reduction)},
                    {"formula", metric.formula},
                    {"help", metric.help}});
  return list;
}

}  // namespace lockstep::record
