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
    "Names are those of `report --json`: of a size (`curves[].points[]`) or of a column of its tables, with `series.`\n"
    "before them of a run (`runs[].series`). N nodes (devices where sizes are those), n devices, N0 the base of a "
    "curve.\n\n";

std::string list_item(const MetricDef& metric) {
  std::vector<std::string> facts;
  if (!metric.unit.empty()) facts.emplace_back(metric.unit);
  if (!reduction_name(metric.reduction).empty()) facts.emplace_back(reduction_name(metric.reduction));
  std::string text = fmt::format("`{}`", metric.name);
  if (!facts.empty()) text += fmt::format(" ({})", core::join(facts, "; "));
  if (!metric.formula.empty()) text += fmt::format(" = `{}`", metric.formula);
  return core::markdown_item(fmt::format("{}: {}", text, metric.help));
}

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
      "Behind the unit stands how the values of steps, ranks or intervals become the one number that a report shows: "
      "costs\n"
      "are averaged or summed, rates and shares are totals over totals, never means of ratios. The files are described "
      "in\n"
      "docs/record.md.\n";
  for (const MetricSource source : kSources) {
    const std::string title = source == kDerived ? "Computed by reports"
                              : source == kSweep ? "Computed by sweep collect"
                                                 : std::string(source_name(source));
    text += fmt::format("\n## {}\n\n{}", title, source == kDerived ? kDerivedNames : "");
    for (const MetricDef& metric : metric_catalogue())
      if (metric.source == source) text += list_item(metric);
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
