#include "draw/axis_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr double kLargest = 1e300, kSmallest = 1e-300;

struct Suffix {
  double factor;
  const char* text;
};
constexpr std::array<Suffix, 5> kDecimal = {{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
constexpr std::array<Suffix, 5> kBinary = {
    {{0x1p50, " PiB"}, {0x1p40, " TiB"}, {0x1p30, " GiB"}, {0x1p20, " MiB"}, {0x1p10, " KiB"}}};

/// Labels of equally spaced ticks: all with the same decimals and suffix.
std::vector<std::string> label_linear(const std::vector<double>& values, double step) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  std::vector<std::string> labels;
  if (largest >= 1e18 || largest < 1e-4) {
    for (const double value : values) labels.push_back(value == 0 ? "0" : fmt::format("{:.4g}", value));
    return labels;
  }
  Suffix suffix{1, ""};
  if (largest >= 1e4)
    suffix =
        *std::find_if(kDecimal.begin(), kDecimal.end(), [&](const Suffix& each) { return each.factor <= largest; });
  const double scaled_step = step / suffix.factor;
  int decimals = 0;
  while (decimals < 9 && std::abs(std::round(scaled_step * std::pow(10, decimals)) / std::pow(10, decimals) -
                                  scaled_step) > scaled_step * 1e-6)
    ++decimals;
  for (const double value : values) {
    const double shown = std::abs(value) < step * 1e-9 ? 0 : value / suffix.factor;
    labels.push_back(fmt::format("{:.{}f}{}", shown, decimals, shown == 0 ? "" : suffix.text));
  }
  return labels;
}

/// Label of one tick on a log axis, or given by the caller; long numbers are short when the axis reaches 100,000.
std::string label_single(double value, bool is_bytes, double high) {
  const double magnitude = std::abs(value);
  if (is_bytes) {
    for (const Suffix& suffix : kBinary)
      if (magnitude >= suffix.factor && magnitude < 0x1p60)
        return fmt::format("{:.4g}{}", value / suffix.factor, suffix.text);
    if (magnitude < 1024) return fmt::format("{:.4g} B", value);
  }
  if (magnitude == 0) return "0";
  if (magnitude >= 1e18 || magnitude < 1e-4) return fmt::format("{:.4g}", value);
  if (high < 1e5 || magnitude < 1e3) return fmt::format("{:.5g}", value);
  for (const Suffix& suffix : kDecimal)
    if (magnitude >= suffix.factor) return fmt::format("{:.4g}{}", value / suffix.factor, suffix.text);
  return fmt::format("{:.5g}", value);
}

}  // namespace

std::string short_number(double value) { return fmt::format("{:.6g}", value); }

AxisScale::AxisScale(const Axis& axis, std::span<const double> values, size_t max_ticks, bool wants_zero)
    : scale_(axis.scale) {
  set_range(axis, values, wants_zero);
  max_ticks = std::max<size_t>(2, max_ticks);
  const std::string title = core::to_lower_ascii(axis.title);
  const bool is_bytes = is_log() && (title.find("bytes") != std::string::npos || core::ends_with(title, "(b)"));
  for (size_t index = 0; index < axis.ticks.size(); ++index)
    if (is_inside(axis.ticks[index]))
      ticks_.push_back({axis.ticks[index], label_single(axis.ticks[index], is_bytes, high_),
                        index < axis.tick_notes.size() ? one_line(axis.tick_notes[index]) : ""});
  std::sort(ticks_.begin(), ticks_.end(), [](const Tick& a, const Tick& b) { return a.value < b.value; });
  ticks_.erase(
      std::unique(ticks_.begin(), ticks_.end(), [](const Tick& a, const Tick& b) { return a.value == b.value; }),
      ticks_.end());
  if (!ticks_.empty()) return;
  if (is_log())
    choose_log_ticks(max_ticks, is_bytes);
  else
    choose_linear_ticks(max_ticks);
}

bool AxisScale::has_place(double value) const { return std::isfinite(value) && (!is_log() || value > 0); }

bool AxisScale::is_inside(double value) const {
  constexpr double kSlack = 1e-9;
  return has_place(value) && share(value) >= -kSlack && share(value) <= 1 + kSlack;
}

double AxisScale::share(double value) const {
  value = std::clamp(value, -kLargest * 1e6, kLargest * 1e6);
  if (is_log())
    return (std::log2(std::max(value, kSmallest * 1e-6)) - std::log2(low_)) / (std::log2(high_) - std::log2(low_));
  return (value / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
}

void AxisScale::set_range(const Axis& axis, std::span<const double> values, bool wants_zero) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!has_place(value)) continue;
    low = std::min(low, std::clamp(value, is_log() ? kSmallest : -kLargest, kLargest));
    high = std::max(high, std::clamp(value, is_log() ? kSmallest : -kLargest, kLargest));
  }
  const bool has_data = low <= high;
  if (!has_data) low = is_log() ? 1 : 0, high = is_log() ? 10 : 1;
  if (is_log()) {
    const double base = scale_ == Scale::kLog2 ? 2.2 : 10;  // a single value gets ticks on both sides
    const double margin = low == high ? base : std::exp2(std::max(0.12, (std::log2(high) - std::log2(low)) * 0.04));
    low = std::max(low / margin, kSmallest / 2), high = std::min(high * margin, kLargest * 2);
  } else if (has_data) {
    if (low == high) {
      const double half = low == 0 ? 1 : std::max(std::abs(low) * 0.1, kSmallest);
      low -= half, high += half;
    }
    const double data_low = low, margin = (high / 2 - low / 2) * 0.1;
    low -= margin, high += margin;
    if (data_low >= 0 && (wants_zero || low <= high * 0.4)) low = 0;
  }
  const auto usable = [&](const std::optional<double>& bound) {
    return bound && has_place(*bound) && std::abs(*bound) <= kLargest * 10;
  };
  if (usable(axis.min)) low = *axis.min;
  if (usable(axis.max)) high = *axis.max;
  if (!(low < high)) {  // contradictory bounds
    if (usable(axis.min))
      high = is_log() ? low * 10 : low + std::max(1.0, std::abs(low));
    else
      low = is_log() ? high / 10 : high - std::max(1.0, std::abs(high));
  }
  low_ = low, high_ = high;
}

void AxisScale::choose_linear_ticks(size_t max_ticks) {
  const double raw = (high_ / 2 - low_ / 2) / static_cast<double>(max_ticks) * 2;
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  double step = magnitude * 10;
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (magnitude * factor >= raw * 0.999) {
      step = magnitude * factor;
      break;
    }
  std::vector<double> values;
  const double slack = step * 1e-6;
  for (double index = std::ceil((low_ - slack) / step); index * step <= high_ + slack && values.size() <= max_ticks + 1;
       ++index)
    values.push_back(index * step);
  if (!(step > 0) || values.empty()) values = {low_, high_};
  const std::vector<std::string> labels = label_linear(values, step);
  for (size_t index = 0; index < values.size(); ++index) ticks_.push_back({values[index], labels[index]});
}

void AxisScale::choose_log_ticks(size_t max_ticks, bool is_bytes) {
  constexpr double kLargestPowerOfTwo = 65536;  // beyond, round decimal numbers are easier to read than 131072
  const bool is_binary = scale_ == Scale::kLog2 && (is_bytes || high_ < kLargestPowerOfTwo * 2);
  const double base = is_binary ? 2 : 10, per_power = std::log2(base);
  const double slack = 1e-9;
  const int first = static_cast<int>(std::ceil(std::log2(low_) / per_power - slack));
  const int last = static_cast<int>(std::floor(std::log2(high_) / per_power + slack));
  const int num_powers = std::max(0, last - first + 1);
  int stride = 1;
  for (const int wider : {2, 3, 5, 10, 20, 50, 100, 250}) {
    if (static_cast<size_t>((num_powers + stride - 1) / stride) <= max_ticks) break;
    if (!is_bytes || wider % 5 == 0 || wider == 2) stride = wider;  // so that 1 KiB and 1 MiB stay among the labels
  }
  for (int power = first; power <= last; ++power) {
    const double value = std::pow(base, power);
    ticks_.push_back({value, power % stride == 0 ? label_single(value, is_bytes, high_) : ""});
  }
  if (is_binary && num_powers >= 3) return;
  // Fewer powers: 1, 2, 5, 10, ... where three or more of them fit, else equal steps. Bytes stay
  // with halves of their powers.
  constexpr size_t kFewest = 3;
  std::vector<double> values;
  const std::vector<double> factors = is_bytes ? std::vector<double>{1, 1.5} : std::vector<double>{1, 2, 5};
  const double ten = is_bytes ? 2 : 10;
  const int from = static_cast<int>(std::floor(std::log2(low_) / std::log2(ten))),
            to = static_cast<int>(std::ceil(std::log2(high_) / std::log2(ten)));
  for (int power = from; power <= to; ++power)
    for (const double factor : factors)
      if (const double value = factor * std::pow(ten, power); is_inside(value)) values.push_back(value);
  if (values.size() > max_ticks + 1 && num_powers >= 2) return;  // the powers alone
  if (values.size() > max_ticks + 1 || values.size() < kFewest) {
    const Axis linear{.min = low_, .max = high_};
    auto equal_steps = AxisScale(linear, {}, max_ticks).ticks_;
    const bool is_whole = std::all_of(equal_steps.begin(), equal_steps.end(),
                                      [](const Tick& tick) { return tick.value == std::floor(tick.value); });
    if (scale_ != Scale::kLog2 || is_whole || num_powers < 2)
      ticks_ = std::move(equal_steps);  // there is no axis with 1.25 nodes
    return;
  }
  ticks_.clear();
  for (const double value : values) ticks_.push_back({value, label_single(value, is_bytes, high_)});
}

}  // namespace lockstep::draw
