#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/axis_scale.h"
#include "draw/chart_svg.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

/// A dash where there is no value, as of an interval that does not exist.
Cell number_cell(double value) {
  return std::isfinite(value) ? Cell{.text = short_number(value), .value = value} : Cell{};
}

std::optional<double> at(const std::vector<double>& values, size_t index) {
  return index < values.size() ? std::optional<double>(values[index]) : std::nullopt;
}

Cell optional_cell(std::optional<double> value) { return value ? number_cell(*value) : Cell{}; }

std::string name_of(const Series& series, size_t index) {
  const std::string name = one_line(series.name);
  return name.empty() ? fmt::format("series {}", index + 1) : name;
}

Table bars_table(const Chart& chart) {
  Table table;
  table.columns.push_back({.title = chart.x.title.empty() ? "bar" : chart.x.title, .key = "bar", .is_text = true});
  for (size_t part = 0; part < chart.bars->parts.size(); ++part)
    table.columns.push_back({.title = one_line(chart.bars->parts[part]), .key = one_line(chart.bars->parts[part])});
  for (size_t bar = 0; bar < chart.bars->bars.size(); ++bar) {
    std::vector<Cell> row = {{.text = one_line(chart.bars->bars[bar])}};
    for (size_t part = 0; part < chart.bars->parts.size(); ++part)
      row.push_back(part < chart.bars->values.size() ? optional_cell(at(chart.bars->values[part], bar)) : Cell{});
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool has_interval(const Series& series) { return !series.low.empty() || !series.high.empty(); }
bool has_labels(const Series& series) {
  return std::any_of(series.labels.begin(), series.labels.end(),
                     [](const std::string& label) { return !label.empty(); });
}

/// Column groups of one series: value, interval, label, those that it has.
void add_columns(const Series& series, const std::string& name, Table& table) {
  if (!series.y.empty()) table.columns.push_back({.title = name, .key = name});
  if (has_interval(series)) {
    table.columns.push_back({.title = name + ", low", .key = name + "_low"});
    table.columns.push_back({.title = name + ", high", .key = name + "_high"});
  }
  if (has_labels(series)) table.columns.push_back({.title = name + ", label", .key = name + "_label", .is_text = true});
}

void add_cells(const Series& series, size_t index, std::vector<Cell>& row) {
  if (!series.y.empty()) row.push_back(optional_cell(at(series.y, index)));
  if (has_interval(series)) {
    row.push_back(optional_cell(at(series.low, index)));
    row.push_back(optional_cell(at(series.high, index)));
  }
  if (has_labels(series)) row.push_back({.text = index < series.labels.size() ? series.labels[index] : ""});
}

/// One row per x, in the order of first appearance; possible when no series has an x twice and most x are shared.
Table wide_table(const Chart& chart, const std::vector<const Series*>& series, const std::vector<double>& all_x) {
  Table table;
  table.columns.push_back({.title = chart.x.title.empty() ? "x" : chart.x.title, .key = "x"});
  for (size_t index = 0; index < series.size(); ++index)
    add_columns(*series[index], name_of(*series[index], index), table);
  for (const double x : all_x) {
    std::vector<Cell> row = {number_cell(x)};
    for (const Series* each : series) {
      const size_t index = static_cast<size_t>(std::find(each->x.begin(), each->x.end(), x) - each->x.begin());
      add_cells(*each, index, row);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table long_table(const Chart& chart, const std::vector<const Series*>& series) {
  Table table;
  table.columns = {{.title = "series", .key = "series", .is_text = true},
                   {.title = chart.x.title.empty() ? "x" : chart.x.title, .key = "x"},
                   {.title = chart.y.title.empty() ? "y" : chart.y.title, .key = "y"}};
  const bool has_bounds =
      std::any_of(series.begin(), series.end(), [](const Series* each) { return has_interval(*each); });
  const bool has_text = std::any_of(series.begin(), series.end(), [](const Series* each) { return has_labels(*each); });
  if (has_bounds)
    table.columns.insert(table.columns.end(), {{.title = "low", .key = "low"}, {.title = "high", .key = "high"}});
  if (has_text) table.columns.push_back({.title = "label", .key = "label", .is_text = true});
  for (size_t which = 0; which < series.size(); ++which) {
    const Series& each = *series[which];
    for (size_t index = 0; index < std::max(each.x.size(), each.y.size()); ++index) {
      std::vector<Cell> row = {
          {.text = name_of(each, which)}, optional_cell(at(each.x, index)), optional_cell(at(each.y, index))};
      if (has_bounds) row.insert(row.end(), {optional_cell(at(each.low, index)), optional_cell(at(each.high, index))});
      if (has_text) row.push_back({.text = index < each.labels.size() ? each.labels[index] : ""});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

Table chart_table(const Chart& chart) {
  Table table;
  if (chart.bars) {
    table = bars_table(chart);
  } else {
    constexpr size_t kMaxSharedX = 64;  // beyond, rows per x would need a search each and be mostly dashes
    std::vector<const Series*> series;
    std::vector<double> all_x;
    bool is_wide = true;
    for (const Series& each : chart.series) {
      if (each.is_reference) continue;
      series.push_back(&each);
      is_wide = is_wide && each.x.size() <= kMaxSharedX && each.x.size() >= each.y.size();
      if (!is_wide) continue;
      std::vector<double> sorted = each.x;
      std::sort(sorted.begin(), sorted.end());
      is_wide = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                std::none_of(sorted.begin(), sorted.end(), [](double x) { return x != x; });
      for (const double x : each.x)
        if (std::find(all_x.begin(), all_x.end(), x) == all_x.end()) all_x.push_back(x);
    }
    is_wide = is_wide && all_x.size() <= kMaxSharedX;
    if (is_wide) std::sort(all_x.begin(), all_x.end());
    table = is_wide ? wide_table(chart, series, all_x) : long_table(chart, series);
  }
  table.id = chart.id;
  table.title = chart.title;
  return table;
}

}  // namespace lockstep::draw
