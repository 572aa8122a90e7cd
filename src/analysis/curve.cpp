#include "analysis/curve.h"
#include "core/counted.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::analysis {

Estimate proportional(double value, const Estimate& to) {
  if (!to.has_range || !(to.value > 0) || !std::isfinite(value)) return {.value = value};
  return {.value = value, .low = value * to.low / to.value, .high = value * to.high / to.value, .has_range = true};
}

Estimate inverse(double value, const Estimate& to) {
  if (!to.has_range || !(to.low > 0) || !std::isfinite(value)) return {.value = value};
  return {.value = value, .low = value * to.value / to.high, .high = value * to.value / to.low, .has_range = true};
}

Estimate step_estimate(const Point& point) {
  const auto& interval = point.estimate.median_interval;
  if (!point.has_step_time) return {.value = record::kUnknown};
  if (!interval || !(interval->low > 0) || !std::isfinite(interval->high)) return {.value = point.estimate.median_ms};
  return {.value = point.estimate.median_ms, .low = interval->low, .high = interval->high, .has_range = true};
}

Estimate speedup_estimate(const Point& point) { return proportional(point.speedup, point.efficiency); }

const char* scaling_name(ScalingKind kind) {
  switch (kind) {
    case ScalingKind::kSingle: return "one size";
    case ScalingKind::kWeak: return "weak scaling";
    case ScalingKind::kStrong: return "strong scaling";
    case ScalingKind::kMixed: return "mixed, neither weak nor strong scaling";
    case ScalingKind::kUnknown: return "weak or strong not known";
  }
  return "";
}

std::optional<IdealStep> ideal_step(const Curve& curve, const Point& point) {
  if (!curve.base || &point == &curve.points[*curve.base]) return std::nullopt;
  if (curve.kind == ScalingKind::kWeak) return IdealStep{1, "longer than at the base"};
  if (curve.kind != ScalingKind::kStrong) return std::nullopt;
  const double share = static_cast<double>(curve.points[*curve.base].size) / static_cast<double>(point.size);
  return IdealStep{share, "longer than the base's step shared out evenly over this size"};
}

const char* device_word(const Curve& curve) {
  return curve.points.empty() ? "device" : curve.points.front().device_word;
}

std::string unit_name(const Curve& curve) { return curve.is_by_devices ? device_word(curve) : "node"; }

std::string size_text(const Curve& curve, int64_t size) {
  if (size == 0) return "unknown size";
  return core::counted(size, unit_name(curve));
}

bool is_token_task(const Point& point) {
  return std::isfinite(point.tokens_per_step) && point.setup.counts_sequences();
}

double tokens_of_sample(const Point& point) {
  if (point.setup.sample_unit != "tokens") return point.tokens_per_step / point.samples_per_step;
  return point.setup.sequence_length ? static_cast<double>(*point.setup.sequence_length) : record::kUnknown;
}

bool has_budget_of_samples(const Point& point, const AnalysisOptions& options) {
  return is_token_task(point) && options.is_samples_budget_given && !options.is_tokens_budget_given &&
         std::isfinite(tokens_of_sample(point));
}

double budget_of(const Point& point, const AnalysisOptions& options) {
  if (point.work_time) return options.budget_runs * point.samples_per_step;
  if (has_budget_of_samples(point, options)) return options.budget_samples * tokens_of_sample(point);
  return is_token_task(point) ? options.budget_tokens : options.budget_samples;
}

Estimate work_seconds(const Point& point) {
  constexpr double kMsPerSecond = 1e3;
  if (!point.work_time) return {.value = record::kUnknown};
  const auto& interval = point.estimate.median_interval;
  Estimate seconds{.value = point.estimate.median_ms / kMsPerSecond};
  if (!interval || !(interval->low > 0) || !std::isfinite(interval->high)) return seconds;
  return {seconds.value, interval->low / kMsPerSecond, interval->high / kMsPerSecond, true};
}

bool is_of_times(const Curve& curve) { return !curve.points.empty() && curve.points.front().work_time.has_value(); }

bool is_of_table(const Curve& curve) { return !curve.points.empty() && curve.points.front().is_of_table; }

std::string point_name(const Curve& curve, const Point& point) {
  return fmt::format("{}, {}", curve.name, size_text(curve, point.size));
}

}  // namespace lockstep::analysis
