#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// What the audio reader accepts. Checked against the header, which is foreign, before anything is decoded.
struct AudioLimits {
  double max_seconds = 24 * 3600;
  int64_t max_channels = 64;
  int64_t min_rate = 1000, max_rate = 768'000;  ///< Hz.
};

/// What the header of a recording says.
struct AudioInfo {
  int64_t num_frames = 0;  ///< Points in time; every channel has one value at each.
  int64_t num_channels = 0;
  int64_t sample_rate = 0;  ///< Hz.
  double seconds() const { return static_cast<double>(num_frames) / static_cast<double>(sample_rate); }
};

/// One recording in memory: WAV, FLAC or OGG (Vorbis, Opus), recognised by its first bytes, never by the name.
///
/// The constructor parses the header and counts the frames where the header does not tell; `bytes` must outlive the
/// reader. A recording without a frame, one that is damaged or cut short, and a header beyond the limits throw
/// DataError with `name`.
class AudioReader {
 public:
  AudioReader(std::span<const std::byte> bytes, std::string_view name, const AudioLimits& limits = {});
  ~AudioReader();
  AudioReader(const AudioReader&) = delete;
  AudioReader& operator=(const AudioReader&) = delete;

  const AudioInfo& info() const;

  /// Frames [first, first + count) as the mean of their channels; whole numbers become [-1, 1). Only this part is
  /// decoded, but that the recording is not cut short is checked at its end, too. Fewer frames than announced, and
  /// values that are no numbers, throw DataError.
  void read_mono(int64_t first, int64_t count, std::vector<float>& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decodes all of a recording as read_mono does, and shows `visit` one piece after the other.
void read_all_mono(AudioReader& reader, const std::function<void(std::span<const float> piece)>& visit);

}  // namespace lockstep::data
