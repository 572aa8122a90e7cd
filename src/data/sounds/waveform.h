#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sounds/audio.h"

namespace lockstep::data {

/// How a recording shorter than a clip fills it.
enum class AudioFill {
  kRepeatPad,  ///< As many whole repetitions as fit, then zeros.
  kPad,        ///< Once, then zeros.
  kRepeat,     ///< Repetitions, the last one cut.
};

/// Which part of a recording longer than a clip is taken.
enum class AudioCrop {
  kRandom,  ///< "rand_trunc": uniform, a function of the random key.
  kFront,   ///< "trunc": from the beginning, as OpenCLIP evaluates.
  kCentre,  ///< "centre": the middle.
};

/// "repeatpad", "pad", "repeat"; UsageError with the known names.
AudioFill parse_audio_fill(const std::string& name);
/// "rand_trunc", "trunc", "centre"; UsageError with the known names.
AudioCrop parse_audio_crop(const std::string& name);

/// Way from a recording to clip_samples mono values. Defaults are LAION-CLAP's as its recipes call it.
struct WaveformConfig {
  int64_t sample_rate = 48000;    ///< Hz of the result; other recordings are resampled.
  int64_t clip_samples = 480000;  ///< S.
  AudioFill fill = AudioFill::kRepeatPad;
  AudioCrop crop = AudioCrop::kRandom;
  bool int16_round_trip = true;  ///< Clamp to [-1, 1], truncate x * 32767 to a whole number, divide by 32767.
  AudioLimits limits = {};
};

/// Throws UsageError that names the member, its value and the range.
void check_waveform(const WaveformConfig& config);

/// Memory kept between calls of one thread.
struct WaveformScratch {
  std::vector<float> mono, resampled;
};

/// Writes clip_samples values to out_S (exactly that size) and returns how many the recording has at
/// config.sample_rate: more than clip_samples where a part was taken, fewer where the rest was filled. Of a long
/// recording only that part is decoded; the values are those of resampling the whole and cutting then. Throws DataError
/// as AudioReader does.
int64_t read_waveform(std::span<const std::byte> bytes, std::string_view name, const WaveformConfig& config,
                      uint64_t rng_key, std::span<float> out_S, WaveformScratch& scratch);

/// LAION-CLAP's int16 round trip, in place: x -> trunc(clamp(x, -1, 1) * 32767) / 32767.
void round_to_int16(std::span<float> values);

}  // namespace lockstep::data
