// Tables and charts of curves of times.
#include "analysis/work_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/cells.h"
#include "analysis/charts.h"
#include "analysis/column_table.h"
#include "analysis/work_time_text.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {
using Columns = TableColumns<Point>;

constexpr double kHour = 3600;

std::string time_title(const Curve& curve) {
  const WorkTime& times = *curve.points.front().work_time;
  const std::string unit = work_time_unit(curve.points.front());
  return (times.is_step ? "time of a step" : "time") + (unit.empty() ? "" : " (" + unit + ")");
}

/// Hours of one run on so many places; NaN where the unit of the times or the places are not known.
double hours_on(const Point& point, int64_t places) {
  const bool is_known = places > 0 && point.work_time->unit_s > 0;
  return is_known ? static_cast<double>(places) * work_seconds(point).value / kHour : NAN;
}

std::string codes_of(const Point& point) {
  std::vector<std::string> codes;
  for (const Flag& flag : point.flags)
    if (std::find(codes.begin(), codes.end(), flag.code) == codes.end()) codes.push_back(flag.code);
  return core::join(codes, " ");
}

/// "M04 single-run" of each check that fired.
std::string names_of_checks(const Curve& curve) {
  std::vector<std::string> names;
  for (const Point& point : curve.points)
    for (const Flag& flag : point.flags)
      if (const std::string name = flag.code + " " + flag.name;
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return core::join(names, ", ");
}

bool has_point(const Curve& curve, const std::function<bool(const Point&)>& fits) {
  return std::any_of(curve.points.begin(), curve.points.end(), fits);
}

void add_cost_columns(const Curve& curve, Columns& columns) {
  if (curve.points.front().work_time->is_step) return;
  const auto add = [&](const std::string& title, const std::string& key, int64_t Point::*places) {
    if (has_point(curve, [&](const Point& point) { return std::isfinite(hours_on(point, point.*places)); }))
      columns.push_back(
          {column(title, key), [places](const Point& point) { return figure_cell(hours_on(point, point.*places)); }});
  };
  add("node-hours", "node_hours", &Point::nodes);
  const auto unit = billed_unit(curve.points.front());
  if (unit) add(unit->name, "device_hours", &Point::devices);
}
}  // namespace

draw::Table work_time_table(const Curve& curve) {
  draw::Table table{.id = "scaling-" + curve.id, .title = fmt::format("{}: {}", curve.name, scaling_name(curve.kind))};
  const bool has_range = has_point(curve, [](const Point& point) { return work_seconds(point).has_range; });
  const bool has_repeats = has_point(curve, [](const Point& point) { return point.runs.size() > 1; });
  table.caption = fmt::format("{}. Base: {}{}. {}{}{}", capitalised(curve.kind_reason), curve.base_reason,
                              curve.base ? ", with " + work_time_text(curve.points[*curve.base]) : "",
                              efficiency_of_times_text({&curve}),
                              has_repeats ? " Several rows of one size have their geometric mean." : "",
                              has_range ? " +- is half of a 95 % interval; where its arms differ by more than a fifth, "
                                          "both ends are shown."
                                        : "");
  Columns columns;
  const auto add = [&](std::string title, std::string key, std::function<draw::Cell(const Point&)> cell) {
    columns.push_back({column(std::move(title), std::move(key)), std::move(cell)});
  };
  if (has_point(curve, [](const Point& point) { return point.nodes > 0; }))
    add("nodes", "nodes", [](const Point& point) { return count_cell(point.nodes); });
  const std::string places = std::string(device_word(curve)) + "s";
  if (has_point(curve, [](const Point& point) { return point.devices > 0; }))
    add(places, places, [](const Point& point) { return count_cell(point.devices); });
  add(time_title(curve), "time", [](const Point& point) { return figure_cell(time_in_unit(point)); });
  add("speed-up", "speedup", [](const Point& point) { return fixed_cell(speedup_estimate(point), 2); });
  add("ideal speed-up", "ideal_speedup", [&](const Point& point) {
    const double growth = size_growth(curve, point);
    return std::isfinite(growth) ? draw::Cell{.text = fmt::format("{:.4g}", growth), .value = growth} : draw::Cell{};
  });
  add("efficiency (%)", "efficiency_pct", [](const Point& point) { return percent_cell(point.efficiency); });
  add_cost_columns(curve, columns);
  if (has_repeats)
    add("rows", "runs", [](const Point& point) { return count_cell(static_cast<int64_t>(point.runs.size())); });
  columns.push_back({text_column("checks", "checks"), [](const Point& point) { return text_cell(codes_of(point)); }});
  fill_table(table, columns, curve.points);
  if (const std::string names = names_of_checks(curve); !names.empty()) table.notes.push_back("Checks: " + names);
  return table;
}

std::vector<draw::Chart> work_time_charts(const std::vector<Curve>& curves) {
  return charts_over_sizes(curves, "walltime", [](const std::vector<const Curve*>& group, draw::Chart& chart) {
    if (!is_of_times(*group.front())) return;
    chart.title = "Time";
    chart.summary = "Time of the work at each size; the number at each marker is the efficiency.";
    chart.caption = "Grey lines: ideal from each base. Numbers: efficiency in %.";
    chart.y = {.title = time_title(*group.front()), .scale = draw::Scale::kLog10};
    for (const Curve* curve : group) {
      draw::Series series{.name = curve->name};
      for (const Point& point : curve->points) {
        const Estimate time = time_in_unit(point);
        series.x.push_back(static_cast<double>(point.size));
        series.y.push_back(time.value);
        series.low.push_back(time.has_range ? time.low : NAN);
        series.high.push_back(time.has_range ? time.high : NAN);
        series.labels.push_back(
            std::isfinite(point.efficiency.value) ? fmt::format("{:.0f}", 100 * point.efficiency.value) : "");
      }
      if (std::none_of(series.low.begin(), series.low.end(), [](double low) { return std::isfinite(low); }))
        series.low.clear(), series.high.clear();
      draw::Series ideal{.name = "ideal", .mark = draw::Mark::kLine, .x = series.x, .is_reference = true};
      chart.series.push_back(std::move(series));
      if (!curve->base) continue;
      const double base = time_in_unit(curve->points[*curve->base]).value;
      for (const Point& point : curve->points)
        ideal.y.push_back(curve->kind == ScalingKind::kStrong ? base / size_growth(*curve, point) : base);
      chart.series.push_back(std::move(ideal));
    }
  });
}

}  // namespace lockstep::analysis
