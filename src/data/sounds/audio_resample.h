#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// Values at `to_rate` Hz that `count` values at `from_rate` Hz become: count * to / from, rounded up.
int64_t resampled_length(int64_t count, int64_t from_rate, int64_t to_rate);

/// Band-limited resampling by soxr at its high quality (20 bits); `out` gets resampled_length values, the first at the
/// same moment as the first of `in`.
void resample_audio(std::span<const float> in, int64_t from_rate, int64_t to_rate, std::vector<float>& out);

}  // namespace lockstep::data
