#include "analysis/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "analysis/settings.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {
/// Is one arm of the range longer than the other by more than a fifth, so that half of its width says too little?
bool is_lopsided(const Estimate& estimate) {
  constexpr double kMaxArmRatio = 1.2, kLeastShare = 0.001;  // arms below a thousandth of the value print as nothing
  const auto [shorter, longer] = std::minmax({estimate.value - estimate.low, estimate.high - estimate.value});
  return longer > kMaxArmRatio * shorter && longer > kLeastShare * std::abs(estimate.value);
}

/// Both ends of a lopsided range behind `text`; nothing where they print as the value and would say less than half of
/// their distance.
std::string range_text(const Estimate& estimate, const std::string& text, const std::string& low,
                       const std::string& high) {
  return is_lopsided(estimate) && !(low == text && high == text) ? fmt::format(" ({} to {})", low, high) : "";
}
}  // namespace

std::string fixed_text(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text[0] == '-' && text.find_first_not_of("-0.") == std::string::npos)
    text.erase(0, 1);  // rounded to nothing: no sign
  const size_t begin = text[0] == '-' ? 1 : 0;
  size_t point = std::min(text.find('.'), text.size());
  if (point - begin <= 4) return text;  // "2495" needs no comma
  while (point > begin + 3) text.insert(point -= 3, ",");
  return text;
}

std::string figure_text(double value, int digits) {
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (magnitude >= 12 || magnitude < -6) return fmt::format("{:.{}e}", value, digits - 1);
  return fixed_text(value, std::max(0, digits - 1 - magnitude));
}

std::string power_text(double value) {
  int exponent = static_cast<int>(std::floor(std::log10(value)));
  const std::string mantissa = fmt::format("{:.3g}", value / std::pow(10, exponent));
  if (exponent < 5) return fixed_text(value, 0);
  return mantissa == "1" ? fmt::format("10^{}", exponent) : fmt::format("{} x 10^{}", mantissa, exponent);
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

draw::Cell text_cell(std::string text, std::string note) {
  return {.text = std::move(text), .value = {}, .note = std::move(note)};
}
draw::Cell count_cell(int64_t value) {
  return {.text = fixed_text(static_cast<double>(value), 0), .value = static_cast<double>(value)};
}

draw::Cell fixed_cell(double value, int decimals) {
  if (!std::isfinite(value)) return {};
  return {.text = fixed_text(value, decimals), .value = value};
}

draw::Cell figure_cell(double value, int digits) {
  if (!std::isfinite(value)) return {};
  return {.text = figure_text(value, digits), .value = value};
}

draw::Cell percent_cell(double share, int decimals) { return fixed_cell(100 * share, decimals); }

draw::Cell percent_cell(const Estimate& share, int decimals) {
  draw::Cell cell = percent_cell(share.value, decimals);
  if (!cell.value || !share.has_range) return cell;
  const auto ends_text = [&](double end) { return fixed_text(100 * end, decimals); };
  const double half = 50 * (share.high - share.low);
  if (const std::string range = range_text(share, cell.text, ends_text(share.low), ends_text(share.high));
      !range.empty())
    cell.text += range;
  else
    cell.text += half < 0.01 ? " +- " + figure_text(half, 1)
                             : fmt::format(" +- {:.{}f}", half, half < 0.1 ? decimals + 1 : decimals);
  return cell;
}

draw::Cell fixed_cell(const Estimate& estimate, int decimals) {
  draw::Cell cell = fixed_cell(estimate.value, decimals);
  if (!cell.value || !estimate.has_range) return cell;
  const double half = (estimate.high - estimate.low) / 2;
  if (const std::string range =
          range_text(estimate, cell.text, fixed_text(estimate.low, decimals), fixed_text(estimate.high, decimals));
      !range.empty())
    cell.text += range;
  else
    cell.text +=
        half < 0.5 * std::pow(10, -decimals) ? " +- " + figure_text(half, 1) : " +- " + fixed_text(half, decimals);
  return cell;
}

draw::Cell figure_cell(const Estimate& estimate, int digits) {
  draw::Cell cell = figure_cell(estimate.value, digits);
  if (!cell.value || !estimate.has_range) return cell;
  if (const std::string range =
          range_text(estimate, cell.text, figure_text(estimate.low, digits), figure_text(estimate.high, digits));
      !range.empty())
    cell.text += range;
  else
    cell.text += " +- " + figure_text((estimate.high - estimate.low) / 2, 2);
  return cell;
}

draw::Cell missing_cell(std::string note) { return {.text = {}, .value = {}, .note = std::move(note)}; }

draw::Column column(std::string title, std::string key) { return {.title = std::move(title), .key = std::move(key)}; }
draw::Column text_column(std::string title, std::string key) {
  return {.title = std::move(title), .key = std::move(key), .is_text = true};
}

std::string work_text(const Point& point, const AnalysisOptions& options) {
  if (point.work_time)
    return fmt::format("{:g} {}{}", options.budget_runs, point.work_time->is_step ? "step" : "run",
                       options.budget_runs == 1 ? "" : "s");
  return fmt::format("{} {}", power_text(budget_of(point, options)),
                     is_token_task(point) ? "tokens" : point.setup.sample_unit);
}

bool is_work_given(const Point& point, const AnalysisOptions& options) {
  if (point.work_time) return options.is_runs_budget_given;
  return is_token_task(point) ? options.is_tokens_budget_given || has_budget_of_samples(point, options)
                              : options.is_samples_budget_given;
}

std::string work_source(const Point& point, const AnalysisOptions& options) {
  if (!is_work_given(point, options))
    return fmt::format("default; give --budget-{}", point.work_time        ? "runs"
                                                    : is_token_task(point) ? "tokens or --budget-samples"
                                                                           : "samples");
  if (point.work_time) return "given with --budget-runs";
  if (has_budget_of_samples(point, options))
    return fmt::format("{} samples of {} tokens, given with --budget-samples", power_text(options.budget_samples),
                       figure_text(tokens_of_sample(point)));
  return fmt::format("given with --budget-{}", is_token_task(point) ? "tokens" : "samples");
}

std::string work_note(const Point& point, const AnalysisOptions& options) {
  return is_work_given(point, options)
             ? ""
             : fmt::format(" The amount is the default; --budget-{} changes it.", point.work_time        ? "runs"
                                                                                  : is_token_task(point) ? "tokens"
                                                                                                         : "samples");
}

std::optional<BilledUnit> billed_unit(const Point& point) {
  const auto devices = static_cast<double>(point.devices);
  if (point.devices <= 0 || point.device_word == std::string_view("rank")) return std::nullopt;
  if (point.device_word == std::string_view("core")) return BilledUnit{"core-hours", devices};
  if (!is_on_cpu(point.setup)) return BilledUnit{"GPU-hours", devices};
  if (!point.setup.threads_per_device) return std::nullopt;
  return BilledUnit{"core-hours", devices * static_cast<double>(*point.setup.threads_per_device)};
}

std::string rate_unit(const Point& point) {
  return point.setup.sample_unit + (point.work_time && point.work_time->unit_s == 0 ? "/unit of time" : "/s");
}

}  // namespace lockstep::analysis
