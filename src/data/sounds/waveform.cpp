#include "data/sounds/waveform.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"
#include "data/sounds/audio_resample.h"
#include "data/text/name_table.h"

namespace lockstep::data {
namespace {

/// Values at the lower of both rates on either side of a part: the resampling filter does not reach farther.
constexpr int64_t kFilterMargin = 1024;

int64_t crop_start(AudioCrop crop, int64_t surplus, uint64_t rng_key) {
  switch (crop) {
    case AudioCrop::kRandom:
      return static_cast<int64_t>(core::CounterRng(rng_key).below(static_cast<uint64_t>(surplus) + 1));
    case AudioCrop::kFront: return 0;
    case AudioCrop::kCentre: return surplus / 2;
  }
  LOCKSTEP_CHECK(false, "crop={}", static_cast<int>(crop));
}

/// Values [start, start + count) of the resampled recording. The piece that is decoded begins where a value of both
/// rates coincides, so that the result falls on the same moments as if everything had been resampled.
std::span<const float> read_resampled(AudioReader& reader, int64_t rate, int64_t start, int64_t count,
                                      WaveformScratch& scratch) {
  const AudioInfo& info = reader.info();
  if (info.sample_rate == rate) {
    reader.read_mono(start, count, scratch.mono);
    return scratch.mono;
  }
  const int64_t common = std::gcd(info.sample_rate, rate), up = rate / common, down = info.sample_rate / common;
  const int64_t margin = kFilterMargin * std::max<int64_t>(1, (info.sample_rate + rate - 1) / rate);
  const int64_t block = std::max<int64_t>(0, start * down / up - margin) / down;
  const int64_t first = block * down, last = std::min(info.num_frames, (start + count) * down / up + margin);
  reader.read_mono(first, last - first, scratch.mono);
  resample_audio(scratch.mono, info.sample_rate, rate, scratch.resampled);
  return std::span<const float>(scratch.resampled)
      .subspan(static_cast<size_t>(start - block * up), static_cast<size_t>(count));
}

void fill_clip(std::span<const float> values, AudioFill fill, std::span<float> out_S) {
  const size_t length = values.size(), size = out_S.size();
  const size_t num_whole = fill == AudioFill::kPad ? 1 : size / length;
  float* end = out_S.data();
  for (size_t i = 0; i < num_whole; ++i) end = std::copy(values.begin(), values.end(), end);
  const auto rest = static_cast<size_t>(out_S.data() + size - end);
  if (fill == AudioFill::kRepeat) {
    std::copy_n(values.begin(), rest, end);
  } else {
    std::fill_n(end, rest, 0.0f);
  }
}

}  // namespace

AudioFill parse_audio_fill(const std::string& name) {
  static constexpr NameTable<AudioFill, 3> kNames{
      {{"repeatpad", AudioFill::kRepeatPad}, {"pad", AudioFill::kPad}, {"repeat", AudioFill::kRepeat}}};
  return parse_name(name, kNames, "way to fill a clip");
}

AudioCrop parse_audio_crop(const std::string& name) {
  static constexpr NameTable<AudioCrop, 3> kNames{
      {{"rand_trunc", AudioCrop::kRandom}, {"trunc", AudioCrop::kFront}, {"centre", AudioCrop::kCentre}}};
  return parse_name(name, kNames, "way to cut a clip");
}

void check_waveform(const WaveformConfig& config) {
  const auto check = [](const char* what, int64_t seen, int64_t low, int64_t high) {
    if (seen >= low && seen <= high) return;
    throw UsageError(fmt::format("data: waveform: {} is {}, expected {} to {}", what, seen, low, high));
  };
  check("sample_rate", config.sample_rate, config.limits.min_rate, config.limits.max_rate);
  check("clip_samples", config.clip_samples, 1, 1'000'000'000);
}

void round_to_int16(std::span<float> values) {
  for (float& value : values)
    value = static_cast<float>(static_cast<int32_t>(std::clamp(value, -1.0f, 1.0f) * 32767.0f)) / 32767.0f;
}

int64_t read_waveform(std::span<const std::byte> bytes, std::string_view name, const WaveformConfig& config,
                      uint64_t rng_key, std::span<float> out_S, WaveformScratch& scratch) {
  LOCKSTEP_CHECK(static_cast<int64_t>(out_S.size()) == config.clip_samples, "size={} expected={}", out_S.size(),
                 config.clip_samples);
  AudioReader reader(bytes, name, config.limits);
  const int64_t length = resampled_length(reader.info().num_frames, reader.info().sample_rate, config.sample_rate);
  const int64_t surplus = length - config.clip_samples;
  const int64_t start = surplus > 0 ? crop_start(config.crop, surplus, rng_key) : 0;
  const auto values = read_resampled(reader, config.sample_rate, start, std::min(length, config.clip_samples), scratch);
  fill_clip(values, config.fill, out_S);
  if (config.int16_round_trip) round_to_int16(out_S);
  return length;
}

}  // namespace lockstep::data
