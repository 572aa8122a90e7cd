#include "predict/rivals.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace lockstep::predict {
namespace {

/// Least squares: offset and slope, or nothing where all x are one.
std::optional<std::pair<double, double>> fit_line(std::span<const double> x, std::span<const double> y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) mean_x += x[i] / count, mean_y += y[i] / count;
  for (size_t i = 0; i < x.size(); ++i)
    xx += (x[i] - mean_x) * (x[i] - mean_x), xy += (x[i] - mean_x) * (y[i] - mean_y);
  if (xx <= 0) return std::nullopt;
  return std::pair{mean_y - xy / xx * mean_x, xy / xx};
}
}  // namespace

std::string_view rival_name(Rival rival) {
  constexpr std::array<std::string_view, 3> kNames{"constant efficiency", "Amdahl", "log-linear"};
  return kNames.at(static_cast<size_t>(rival));
}

std::string_view rival_short_name(Rival rival) {
  constexpr std::array<std::string_view, 3> kNames{"constant", "Amdahl", "log-lin"};
  return kNames.at(static_cast<size_t>(rival));
}

std::optional<double> rival_step_s(Rival rival, std::span<const Measured> measured, const Size& size) {
  LOCKSTEP_CHECK(!measured.empty(), "a rival needs a measurement");
  if (rival == Rival::kConstantEfficiency) {
    const auto largest = std::max_element(measured.begin(), measured.end(), [](const Measured& a, const Measured& b) {
      return a.size.nodes < b.size.nodes;
    });
    return largest->step_s / largest->size.work * size.work;
  }
  const bool is_log = rival == Rival::kLogLinear;
  std::vector<double> x, y;
  for (const Measured& one : measured) {
    const double unit = one.step_s / one.size.work;
    x.push_back(is_log ? std::log(one.size.nodes) : one.size.nodes);
    y.push_back(is_log ? std::log(unit) : unit);
  }
  const auto line = fit_line(x, y);
  if (!line) return std::nullopt;
  const double value = line->first + line->second * (is_log ? std::log(size.nodes) : size.nodes);
  const double unit = is_log ? std::exp(value) : value;
  return unit > 0 ? std::optional(unit * size.work) : std::nullopt;
}

}  // namespace lockstep::predict
