#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace lockstep::data {

/// One file of a sample: `extension` is lower case and without the leading dot ("jpg", "txt", "seg.png").
struct Member {
  std::string extension;
  std::string bytes;
};

/// One undecoded sample and where it came from.
struct RawSample {
  std::string key;      ///< Name inside the shard without the extension, row number of a CSV, or path of a file.
  std::string shard;    ///< Shard, CSV file or folder; "synthetic" for generated samples.
  uint64_t offset = 0;  ///< Byte of the first member's header in the shard; line of a CSV, from 1; row of an LMDB;
                        ///< 0 elsewhere.
  /// Position in the stream over all ranks and epochs; equal on any world size. Keys random augmentation.
  uint64_t id = 0;
  int64_t label = -1;  ///< Class, where the source has classes.
  std::vector<Member> members;
  /// Non-empty: the image lies in this file; load_deferred reads it into `members` (done by a worker thread, not by the
  /// reader).
  std::string file;
  /// Not empty: load_deferred calls it, for what else is read late: members, and the label. Thread safe; owns what it
  /// needs; DataError.
  std::function<void(RawSample&)> load;
  /// Another sample to use instead when this one is bad: a pure function of (seed, epoch, position, attempt), attempt
  /// from 1. Thread safe; owns what it needs. DataError where that one cannot be read. Empty: the source has no
  /// substitutes.
  std::function<RawSample(int attempt)> substitute;
  /// Not null: the sample is lost to damage in its shard, which this describes; it has no members.
  std::shared_ptr<const DataError> damage;

  /// The first member whose extension is in `extensions` (tried in that order), or nullptr.
  const Member* find(std::span<const std::string> extensions) const;
  const Member* find(std::string_view extension) const;
  /// The same, but DataError ("... has no <what>: expected ...") instead of nullptr. `flag` chooses the extensions.
  const Member& require(std::span<const std::string> extensions, const char* what, const char* flag) const;
  /// "shard 'x.tar' offset=512 key='000'", "file 'x.jpg' ('x.csv' line 2)": for messages.
  std::string place() const;
};

/// The member of a generated sample that stands for noise: a decimal number that keys it.
inline constexpr std::string_view kNoiseExtension = "noise";

/// Extensions (lower case, no dot) of the files that are taken for pictures, or for recordings.
std::span<const std::string_view> picture_extensions();
std::span<const std::string_view> audio_extensions();
bool is_picture_extension(std::string_view extension);
bool is_audio_extension(std::string_view extension);
/// The members of a shard's sample that are taken for its recording unless --audio-ext names others, the preferred one
/// first.
inline constexpr std::string_view kDefaultAudioKeys = "flac;wav;ogg";
std::vector<std::string> default_audio_keys();
/// The same of pictures, with --image-key.
inline constexpr std::string_view kDefaultImageKeys = "jpg;png;jpeg;webp";
std::vector<std::string> default_image_keys();

/// Reads sample.file into a member named after its extension, or "jpg" where that is no picture's or recording's
/// (formats are recognised by content, not by name); or calls sample.load. DataError when it cannot be read. No-op
/// where both are empty or it was read before.
void load_deferred(RawSample& sample);

/// Where a decoder writes one sample of a batch.
struct SampleSlot {
  std::span<uint8_t> image_YXC;  ///< Y * X * 3 bytes; empty when the batch has no images.
  std::span<float> audio_S;      ///< Values of a clip; empty when the batch has no audio.
  int64_t audio_samples = 0;     ///< Set by the decoder: HostBatch::audio_samples_B.
  std::span<int32_t> text_T;     ///< Token ids, zero when the decoder starts; empty when the batch has no text.
  int64_t label = -1;            ///< RawSample::label; the decoder may change it.
};

/// Turns a raw sample into pixels, sound and tokens. Runs in several threads at once; throws DataError for a bad
/// sample.
using SampleDecoder = std::function<void(const RawSample&, SampleSlot&)>;

/// Throws `error` again, with the sample's place in front of its message unless it is there; the module and the place
/// stand once.
[[noreturn]] void rethrow_with_place(const DataError& error, const RawSample& sample);

/// A sample that could not be used.
struct BadSample {
  std::string shard;
  uint64_t offset = 0;
  std::string key;
  std::string reason;  ///< Names the place, too.
};

/// Adds one line of JSON per sample (rank, shard, offset, key, reason) to `file`; made when missing. Bytes that are no
/// UTF-8 become U+FFFD. EnvironmentError when it cannot be written.
void append_bad_samples(const std::filesystem::path& file, int64_t rank, std::span<const BadSample> samples);

}  // namespace lockstep::data
