#include "stats/series_warmup.h"

#include <algorithm>
#include <array>
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

}  // namespace

size_t find_warmup_end(std::span<const double> step_ms) {
  if (step_ms.size() < 4 * kWindow) return 0;
  std::vector<double> rolling;
  rolling.reserve(step_ms.size());
  for (size_t begin = 0; begin + kWindow <= step_ms.size(); ++begin)
    rolling.push_back(median_of_window(step_ms, begin));
  const size_t half = step_ms.size() / 2;
  const std::span<const double> steady = std::span(rolling).subspan(half);
  const double level = median(steady), limit = level + kDeviations * robust_stddev(steady, level);
  size_t end = 0;
  while (end < half && rolling[end] > limit) ++end;
  // A median of five hides two slow steps: up to two of the last window, or of the first one, may still belong to the
  // warm-up.
  const double step_level = median(step_ms.subspan(half)),
               step_limit = step_level + kStepDeviations * robust_stddev(step_ms.subspan(half), step_level);
  for (size_t i = 0; i < kWindow / 2; ++i)
    if (end < half && step_ms[end] > step_limit) ++end;
  return end;
}

}  // namespace lockstep::stats
