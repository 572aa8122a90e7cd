#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "core/rng.h"
#include "data/memory_file.h"

namespace lockstep::tests {

inline constexpr int kWav16 = SF_FORMAT_WAV | SF_FORMAT_PCM_16, kWavFloat = SF_FORMAT_WAV | SF_FORMAT_FLOAT,
                     kFlac16 = SF_FORMAT_FLAC | SF_FORMAT_PCM_16, kFlac24 = SF_FORMAT_FLAC | SF_FORMAT_PCM_24,
                     kVorbis = SF_FORMAT_OGG | SF_FORMAT_VORBIS, kOpus = SF_FORMAT_OGG | SF_FORMAT_OPUS;

/// Interleaved values as a file of a libsndfile format, written by libsndfile itself.
inline std::string encode_audio(std::span<const float> values, int rate, int format, int num_channels = 1) {
  data::MemoryOutput output;
  SF_INFO info{};
  info.samplerate = rate;
  info.channels = num_channels;
  info.format = format;
  data::SndFile file = output.open(info);
  EXPECT_NE(file, nullptr) << sf_strerror(nullptr);
  if (file == nullptr) return {};
  sf_command(file.get(), SFC_SET_CLIPPING, nullptr, SF_TRUE);
  // In pieces: libsndfile's Vorbis encoder keeps each call on the stack.
  for (size_t at = 0; at < values.size();) {
    const size_t count = std::min(values.size() - at, static_cast<size_t>(4096 * num_channels));
    EXPECT_EQ(sf_write_float(file.get(), values.data() + at, static_cast<sf_count_t>(count)),
              static_cast<sf_count_t>(count));
    at += count;
  }
  file.reset();
  return output.take();
}

/// Something like music: three partials that come and go, and a little noise, all well below half the rate.
inline std::vector<float> melody(int64_t count, int64_t rate, uint64_t seed = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  core::CounterRng rng(seed);
  const double pitch = rng.uniform(200, 500);
  for (int64_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(rate);
    double value = 0;
    for (int k = 1; k <= 3; ++k)
      value += std::sin(2 * std::numbers::pi * pitch * k * t) * (0.5 + 0.4 * std::sin(1.7 * k * t));
    values[static_cast<size_t>(i)] = static_cast<float>(0.2 * value + 0.002 * rng.normal());
  }
  return values;
}

/// Largest difference, relative to the largest absolute value of `expected`; fails when that is zero or sizes differ.
inline double relative_difference(std::span<const float> seen, std::span<const float> expected) {
  EXPECT_EQ(seen.size(), expected.size());
  double scale = 0, difference = 0;
  for (size_t i = 0; i < std::min(seen.size(), expected.size()); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
    difference = std::max(difference, std::abs(static_cast<double>(seen[i]) - static_cast<double>(expected[i])));
  }
  EXPECT_GT(scale, 0.0);
  return difference / scale;
}

/// Root of the mean square of the difference over that of `expected`.
inline double rms_difference(std::span<const float> seen, std::span<const float> expected) {
  EXPECT_EQ(seen.size(), expected.size());
  double scale = 0, difference = 0;
  for (size_t i = 0; i < std::min(seen.size(), expected.size()); ++i) {
    scale += std::pow(expected[i], 2);
    difference += std::pow(seen[i] - expected[i], 2);
  }
  EXPECT_GT(scale, 0.0);
  return std::sqrt(difference / scale);
}

}  // namespace lockstep::tests
