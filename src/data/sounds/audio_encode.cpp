#include "data/sounds/audio_encode.h"

#include "core/error.h"
#include "data/memory_file.h"

namespace lockstep::data {

std::string encode_flac(std::span<const float> mono, int64_t sample_rate) {
  constexpr int64_t kMaxRate = 655'350;
  if (sample_rate < 1 || sample_rate > kMaxRate)
    throw UsageError(fmt::format("data: a FLAC of {} Hz, expected 1 to {}", sample_rate, kMaxRate));
  MemoryOutput output;
  SF_INFO info{};
  info.samplerate = static_cast<int>(sample_rate);
  info.channels = 1;
  info.format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
  SndFile file = output.open(info);
  LOCKSTEP_CHECK(file != nullptr, "libsndfile: {}", sf_strerror(nullptr));
  sf_command(file.get(), SFC_SET_CLIPPING, nullptr, SF_TRUE);
  const auto count = static_cast<sf_count_t>(mono.size());
  const sf_count_t written = sf_writef_float(file.get(), mono.data(), count);
  LOCKSTEP_CHECK(written == count, "libsndfile: {}: frames={} expected={}", sf_strerror(file.get()), written, count);
  file.reset();  // flushes
  return output.take();
}

}  // namespace lockstep::data
