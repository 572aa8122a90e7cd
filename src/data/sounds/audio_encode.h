#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace lockstep::data {

/// A FLAC of mono values, rounded to 16 bits and clipped to [-1, 1). UsageError for a rate that FLAC cannot hold.
std::string encode_flac(std::span<const float> mono, int64_t sample_rate);

}  // namespace lockstep::data
