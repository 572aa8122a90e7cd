#include "data/sounds/audio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "core/error.h"
#include "data/memory_file.h"
#include "data/sounds/audio_container.h"

namespace lockstep::data {
namespace {

constexpr int64_t kBlockValues = 1 << 16;  // decoded at a time, over all channels

int major_format(AudioContainer container) {
  switch (container) {
    case AudioContainer::kWav: return SF_FORMAT_WAV;
    case AudioContainer::kFlac: return SF_FORMAT_FLAC;
    case AudioContainer::kOgg: return SF_FORMAT_OGG;
  }
  LOCKSTEP_CHECK(false, "container={}", static_cast<int>(container));
}

}  // namespace

struct AudioReader::State {
  State(std::span<const std::byte> bytes, std::string_view name, const AudioLimits& limits);

  void check_header(const SF_INFO& header, const AudioLimits& limits);
  int64_t count_frames(int64_t max_frames);
  void seek_to(int64_t frame);
  /// Decodes up to `count` frames into `block`; returns how many there were.
  int64_t read_block(int64_t count);
  void append_mono(int64_t num_frames, std::vector<float>& out) const;
  void check_values(const std::vector<float>& mono, int64_t first) const;
  void check_end();
  [[noreturn]] void throw_damaged(const std::string& reason) const { throw damaged_audio(name, reason, memory.size()); }

  MemoryFile memory;
  std::string name;
  AudioContainer container;
  SndFile file;
  AudioInfo info;
  /// libsndfile 1.2 lands up to a block beside the wanted frame of a Vorbis file: those are read from the front.
  bool can_seek = false;
  int64_t at = 0;  // frame that the decoder stands at
  std::vector<float> block;
};

AudioReader::State::State(std::span<const std::byte> bytes, std::string_view name_, const AudioLimits& limits)
    : memory(bytes), name(name_), container(detect_audio_container(bytes, name_)) {
  check_audio_container(container, bytes, name);
  SF_INFO header{};  // must be zero before opening
  file = memory.open(header);
  if (!file) throw_damaged(sf_strerror(nullptr));
  check_header(header, limits);
  const auto max_frames = static_cast<int64_t>(limits.max_seconds * static_cast<double>(info.sample_rate));
  const bool is_counted = header.frames > 0 && header.frames < SF_COUNT_MAX;
  info.num_frames = is_counted ? header.frames : count_frames(max_frames);
  if (info.num_frames == 0) throw empty_audio(name, memory.size());
  if (info.num_frames > max_frames)
    throw DataError(fmt::format("data: recording in {} announces {} frames, {:.0f} s, more than the {:.0f} s allowed",
                                name, info.num_frames, info.seconds(), limits.max_seconds),
                    "cut it into pieces");
}

void AudioReader::State::check_header(const SF_INFO& header, const AudioLimits& limits) {
  if ((header.format & SF_FORMAT_TYPEMASK) != major_format(container) &&
      !(container == AudioContainer::kWav && (header.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_WAVEX))
    throw_damaged(fmt::format("its content is of another kind (format={:#x}) than its first bytes",
                              static_cast<unsigned>(header.format)));
  can_seek = (header.format & SF_FORMAT_SUBMASK) != SF_FORMAT_VORBIS;
  info = {.num_frames = 0, .num_channels = header.channels, .sample_rate = header.samplerate};
  const auto check = [&](const char* what, int64_t seen, int64_t low, int64_t high) {
    if (seen >= low && seen <= high) return;
    throw DataError(
        fmt::format("data: recording in {} announces {}={}, expected {} to {}", name, what, seen, low, high),
        "convert it, or leave it out");
  };
  check("channels", info.num_channels, 1, limits.max_channels);
  check("sample_rate", info.sample_rate, limits.min_rate, limits.max_rate);
}

/// For headers without a length: decodes everything once.
int64_t AudioReader::State::count_frames(int64_t max_frames) {
  int64_t total = 0;
  while (total <= max_frames) {
    const int64_t got = read_block(max_frames + 1 - total);
    if (got == 0) break;
    total += got;
  }
  return total;
}

int64_t AudioReader::State::read_block(int64_t count) {
  const int64_t wanted = std::min(count, std::max<int64_t>(1, kBlockValues / info.num_channels));
  block.resize(static_cast<size_t>(wanted * info.num_channels));
  const auto got = static_cast<int64_t>(sf_readf_float(file.get(), block.data(), wanted));
  if (got < wanted && sf_error(file.get()) != SF_ERR_NO_ERROR)
    throw_damaged(fmt::format("{} (behind frame {})", sf_strerror(file.get()), at + std::max<int64_t>(0, got)));
  at += got;
  return got;
}

void AudioReader::State::seek_to(int64_t frame) {
  if (can_seek && frame != at) {
    if (sf_seek(file.get(), frame, SEEK_SET) != frame)
      throw_damaged(fmt::format("frame {} of {} cannot be reached", frame, info.num_frames));
    at = frame;
  }
  if (frame < at) {
    if (sf_seek(file.get(), 0, SEEK_SET) != 0) throw_damaged("its beginning cannot be reached again");
    at = 0;
  }
  while (at < frame)
    if (read_block(frame - at) == 0) throw_damaged(fmt::format("it ends after {} of {} frames", at, info.num_frames));
}

void AudioReader::State::append_mono(int64_t num_frames, std::vector<float>& out) const {
  const auto num = static_cast<size_t>(num_frames), channels = static_cast<size_t>(info.num_channels),
             begin = out.size();
  out.resize(begin + num);
  if (channels == 1) {
    std::copy_n(block.begin(), num, out.begin() + static_cast<ptrdiff_t>(begin));
    return;
  }
  for (size_t i = 0; i < num; ++i) {
    float sum = 0;
    for (size_t c = 0; c < channels; ++c) sum += block[i * channels + c];
    out[begin + i] = sum / static_cast<float>(channels);
  }
}

void AudioReader::State::check_values(const std::vector<float>& mono, int64_t first) const {
  const auto bad = std::find_if(mono.begin(), mono.end(), [](float value) { return !(std::abs(value) <= FLT_MAX); });
  if (bad == mono.end()) return;
  throw DataError(fmt::format("data: recording in {} holds {} at frame {}, expected finite numbers", name, *bad,
                              first + (bad - mono.begin())),
                  "repair it, or leave it out");
}

/// After a part was read: the last frame must be there, too. (WAV and OGG were checked by their containers.)
void AudioReader::State::check_end() {
  if (container != AudioContainer::kFlac || at >= info.num_frames) return;
  seek_to(info.num_frames - 1);
  if (read_block(1) != 1) throw_damaged(fmt::format("its last frame ({}) is missing", info.num_frames));
}

AudioReader::AudioReader(std::span<const std::byte> bytes, std::string_view name, const AudioLimits& limits)
    : state_(std::make_unique<State>(bytes, name, limits)) {}

AudioReader::~AudioReader() = default;

const AudioInfo& AudioReader::info() const { return state_->info; }

void AudioReader::read_mono(int64_t first, int64_t count, std::vector<float>& out) {
  LOCKSTEP_CHECK(first >= 0 && count >= 0 && first + count <= info().num_frames, "first={} count={} frames={}", first,
                 count, info().num_frames);
  out.clear();
  out.reserve(static_cast<size_t>(count));
  state_->seek_to(first);
  while (static_cast<int64_t>(out.size()) < count) {
    const int64_t got = state_->read_block(count - static_cast<int64_t>(out.size()));
    if (got == 0) state_->throw_damaged(fmt::format("it ends after {} of {} frames", state_->at, info().num_frames));
    state_->append_mono(got, out);
  }
  state_->check_end();
  state_->check_values(out, first);
}

void read_all_mono(AudioReader& reader, const std::function<void(std::span<const float> piece)>& visit) {
  constexpr int64_t kPieceFrames = 1 << 20;
  std::vector<float> values;
  for (int64_t at = 0; at < reader.info().num_frames; at += kPieceFrames) {
    reader.read_mono(at, std::min(kPieceFrames, reader.info().num_frames - at), values);
    visit(values);
  }
}

}  // namespace lockstep::data
