#pragma once
#include <cstddef>
#include <span>

namespace lockstep::stats {

/// Steps from the start that are slower than the steady state: up to where the rolling median of five has first come
/// down to the level of the second half, within two standard deviations of that half's own rolling medians (which hold
/// its autocorrelation), or of medians of five independent steps as spread as that half's where that is more (the few
/// windows of a short run overlap), and then up to two single steps more that lie three deviations above it: a warm-up
/// of one or two steps (or rows of a log, each the mean of many) is hidden in the median of five. At most half of the
/// series; that value means the end was not found.
///
/// MSER-5, the usual rule, was tried on the series of series_test.cpp: its end lies within five steps of the true one
/// in 43 to 81 % of them, this one's in 95 % or more.
size_t find_warmup_end(std::span<const double> step_ms);
/// The same in words, for reports; change it with the function.
inline constexpr const char* kWarmupMethod =
    "it ends where a rolling median of five steps has come down to the level of the second half of the run, and single "
    "steps far above that level with it";

}  // namespace lockstep::stats
