#include "data/sounds/clap_decoder.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/sounds/sound_caption.h"

namespace lockstep::data {
namespace {

/// Random values of a normal distribution, drawn once; a synthetic sample is one of 65,536 stretches of them. Drawing
/// anew for each sample, as the reference does, costs a hundred times as much and shows the model nothing else.
class NoiseBank {
 public:
  explicit NoiseBank(int64_t clip_samples) : clip_samples_(static_cast<size_t>(clip_samples)) {}

  void fill(uint64_t number, std::span<float> out_S) {
    std::call_once(once_, [&] {
      core::CounterRng rng(core::stable_hash("synthetic audio"));
      values_.resize(clip_samples_ + kStarts);
      for (float& value : values_) value = static_cast<float>(rng.normal());
    });
    const auto start = static_cast<ptrdiff_t>(core::Permutation(kStarts, core::stable_hash("start"))(number % kStarts));
    std::copy_n(values_.begin() + start, out_S.size(), out_S.begin());
  }

 private:
  static constexpr size_t kStarts = size_t{1} << 16;
  const size_t clip_samples_;
  std::once_flag once_;
  std::vector<float> values_;
};

/// A file named by a table or found in a folder is a recording whatever its extension; only members of shards are
/// chosen by it.
const Member& recording_of(const RawSample& sample, const std::vector<std::string>& keys) {
  if (!sample.file.empty())
    for (const Member& member : sample.members)
      if (is_audio_extension(member.extension)) return member;
  return sample.require(keys, "recording", "--audio-ext");
}

}  // namespace

TextEncoder make_constant_encoder(std::vector<int32_t> ids, int32_t padding_id) {
  return [ids = std::move(ids), padding_id](std::string_view, std::span<int32_t> out) {
    LOCKSTEP_CHECK(ids.size() <= out.size(), "ids={} context_length={}", ids.size(), out.size());
    std::fill(std::copy(ids.begin(), ids.end(), out.begin()), out.end(), padding_id);
  };
}

SampleDecoder make_clap_decoder(const ClapDecoderConfig& config, TextEncoder encoder) {
  check_waveform(config.waveform);
  const auto noise = std::make_shared<NoiseBank>(config.waveform.clip_samples);
  const auto read_audio = [config, noise](const RawSample& sample, SampleSlot& slot) {
    thread_local WaveformScratch scratch;
    if (const Member* number = sample.find(kNoiseExtension)) {
      noise->fill(static_cast<uint64_t>(core::parse_int(number->bytes).value_or(0)), slot.audio_S);
      if (config.waveform.int16_round_trip) round_to_int16(slot.audio_S);
      slot.audio_samples = config.waveform.clip_samples;
      return;
    }
    const Member& audio = recording_of(sample, config.audio_keys);
    const uint64_t crop_key = core::stream_key({config.seed, core::stable_hash("crop"), sample.id});
    slot.audio_samples = read_waveform(std::as_bytes(std::span(audio.bytes)), sample.place(), config.waveform, crop_key,
                                       slot.audio_S, scratch);
  };
  const auto read_text = [config, encoder = std::move(encoder)](const RawSample& sample, SampleSlot& slot) {
    const uint64_t caption_key = core::stream_key({config.seed, core::stable_hash("caption"), sample.id});
    encoder(sound_caption(sample, config.text_keys, caption_key, config.is_train), slot.text_T);
  };
  return [read_audio, read_text](const RawSample& sample, SampleSlot& slot) {
    try {
      if (!slot.audio_S.empty()) read_audio(sample, slot);
      if (!slot.text_T.empty()) read_text(sample, slot);
    } catch (const DataError& error) {
      rethrow_with_place(error, sample);
    }
  };
}

}  // namespace lockstep::data
