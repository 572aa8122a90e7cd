// Sentences on curves of times.
#include "analysis/work_time_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/cells.h"
#include "core/strings.h"

namespace lockstep::analysis {

std::string work_time_unit(const Point& point) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  const double unit_s = point.work_time->unit_s;
  if (unit_s <= 0) return "";
  return unit_s == kMinute ? "min" : unit_s == kHour ? "h" : unit_s == kDay ? "d" : "s";
}

Estimate time_in_unit(const Point& point) {
  const double unit_s = point.work_time->unit_s, scale = unit_s > 1 ? 1 / unit_s : 1;
  const Estimate seconds = work_seconds(point);
  return proportional(scale * seconds.value, seconds);
}

double size_growth(const Curve& curve, const Point& point) {
  return curve.base ? static_cast<double>(point.size) / static_cast<double>(curve.points[*curve.base].size) : NAN;
}

std::string work_time_text(const Point& point) {
  const std::string unit = work_time_unit(point);
  return figure_text(time_in_unit(point).value) + (unit.empty() ? "" : " " + unit);
}

std::string efficiency_of_times_text(const std::vector<const Curve*>& curves) {
  const auto has = [&](ScalingKind kind) {
    return std::any_of(curves.begin(), curves.end(), [&](const Curve* curve) { return curve->kind == kind; });
  };
  std::vector<std::string> parts;
  if (has(ScalingKind::kStrong)) parts.emplace_back("in strong scaling T(N0) N0 / (T(N) N)");
  if (has(ScalingKind::kWeak)) parts.emplace_back("in weak scaling T(N0) / T(N)");
  return parts.empty() ? "" : fmt::format("Efficiency is {}, with the times T of the table.", core::join(parts, ", "));
}

std::string work_time_sentence(const Curve& curve) {
  std::vector<std::string> sizes;
  for (const Point& point : curve.points) sizes.push_back(std::to_string(point.size));
  std::string text = fmt::format("{} was measured at {} {}s ({}: {}).", curve.name, core::join(sizes, ", "),
                                 unit_name(curve), scaling_name(curve.kind), curve.kind_reason);
  const Point& last = curve.points.back();
  if (!curve.base || !std::isfinite(last.efficiency.value)) return text;
  const Point& base = curve.points[*curve.base];
  if (base.size == last.size)
    return text + fmt::format(" The base is the largest size, {} with {}: smaller sizes are set against it.",
                              size_text(curve, base.size), work_time_text(base));
  text += fmt::format(
      " At {} it takes {}, at {} {}: a speed-up of {:.2f} where {:.3g} would be ideal, an efficiency of "
      "{:.1f} %",
      size_text(curve, base.size), work_time_text(base), size_text(curve, last.size), work_time_text(last),
      last.speedup, size_growth(curve, last), 100 * last.efficiency.value);
  if (last.efficiency.has_range)
    text += fmt::format(" (95 % interval {:.1f} to {:.1f} %)", 100 * last.efficiency.low, 100 * last.efficiency.high);
  return text + ".";
}

}  // namespace lockstep::analysis
