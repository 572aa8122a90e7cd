#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "draw/document.h"

namespace lockstep::draw {

/// "6.71", "1.2e-05": six significant digits at most, for labels and tables of a chart.
std::string short_number(double value);

struct Tick {
  double value = 0;
  std::string label{};  ///< Empty: a mark without text.
  std::string note{};   ///< Second line.
};

/// One axis: which values are shown, where, and with which ticks. Never fails: without usable data it spans 0 to 1 (1
/// to 10 on a log axis).
class AxisScale {
 public:
  /// `values`: everything that must be visible; not finite ones, and on a log axis those up to zero, do not count.
  /// `max_ticks`: labels that have room.
  AxisScale(const Axis& axis, std::span<const double> values, size_t max_ticks, bool wants_zero = false);

  /// Share of the axis from its low end, 0 to 1 inside.
  double share(double value) const;
  /// Whether the value has a place on the axis at all (finite, above zero on a log axis).
  bool has_place(double value) const;
  bool is_inside(double value) const;

  double low() const { return low_; }
  double high() const { return high_; }
  bool is_log() const { return scale_ != Scale::kLinear; }
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void set_range(const Axis& axis, std::span<const double> values, bool wants_zero);
  void choose_linear_ticks(size_t max_ticks);
  void choose_log_ticks(size_t max_ticks, bool is_bytes);

  Scale scale_ = Scale::kLinear;
  double low_ = 0, high_ = 1;
  std::vector<Tick> ticks_{};
};

}  // namespace lockstep::draw
