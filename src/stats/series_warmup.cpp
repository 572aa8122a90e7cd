#include "stats/series_warmup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

constexpr size_t kWindow = 5;
constexpr double kDeviations = 2, kStepDeviations = 3;

double median_of_window(std::span<const double> values, size_t begin) {
  std::array<double, kWindow> window;
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), kWindow, window.begin());
  std::nth_element(window.begin(), window.begin() + kWindow / 2, window.end());
  return window[kWindow / 2];
}

/// How far medians of a window lie from a level that `num_steps` steps tell, when steps have this deviation. The few
/// windows of a short run overlap: their own spread, and the error of their level, come out too small by chance, and
/// half of a steady run would count as warm-up.
double window_deviation(double step_deviation, size_t num_steps) {
  constexpr double kOfMedianOfFive = 0.2868;  // variance of the median of five normal values
  constexpr double kOfLongMedian = 1.5708;    // the same times their number, of many: pi / 2
  return step_deviation * std::sqrt(kOfMedianOfFive + kOfLongMedian / static_cast<double>(num_steps));
}

}  // namespace

size_t find_warmup_end(std::span<const double> step_ms) {
  if (step_ms.size() < 4 * kWindow) return 0;
  std::vector<double> rolling;
  rolling.reserve(step_ms.size());
  for (size_t begin = 0; begin + kWindow <= step_ms.size(); ++begin)
    rolling.push_back(median_of_window(step_ms, begin));
  const size_t half = step_ms.size() / 2;
  const std::span<const double> steady = std::span(rolling).subspan(half);
  const double step_level = median(step_ms.subspan(half)),
               step_deviation = robust_stddev(step_ms.subspan(half), step_level);
  const double level = median(steady),
               deviation =
                   std::max(robust_stddev(steady, level), window_deviation(step_deviation, step_ms.size() - half)),
               limit = level + kDeviations * deviation;
  size_t end = 0;
  while (end < half && rolling[end] > limit) ++end;
  // A median of five hides two slow steps: up to two of the last window, or of the first one, may still belong to the
  // warm-up.
  const double step_limit = step_level + kStepDeviations * step_deviation;
  for (size_t i = 0; i < kWindow / 2; ++i)
    if (end < half && step_ms[end] > step_limit) ++end;
  return end;
}

}  // namespace lockstep::stats
