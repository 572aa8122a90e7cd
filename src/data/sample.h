#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  uint64_t offset = 0;  ///< Byte of the first member's header in the shard; row for a CSV; 0 elsewhere.
  uint64_t id = 0;      ///< Position in the stream over all ranks and epochs; equal on any world size. Keys random augmentation.
  int64_t label = -1;   ///< Class, where the source has classes.
  std::vector<Member> members;
  /// Non-empty: the image lies in this file; load_deferred reads it into `members` (done by a worker thread, not by the reader).
  std::string file;
  /// Another sample to use instead when this one is bad: a pure function of (seed, epoch, position, attempt), attempt from 1.
  /// Thread safe; owns what it needs. Empty: the source has no substitutes.
  std::function<RawSample(int attempt)> substitute;

  /// The first member whose extension is in `extensions` (tried in that order), or nullptr.
  const Member* find(std::span<const std::string> extensions) const;
  const Member* find(std::string_view extension) const;
  /// "shard 'x.tar' offset=512 key='000'": for messages.
  std::string place() const;
};

/// Reads sample.file into a member named after its extension, or "jpg" where that is no picture's (formats are told by content,
/// not by name); DataError when it cannot be read. No-op where `file` is empty or was read before.
void load_deferred(RawSample& sample);

/// Where a decoder writes one sample of a batch.
struct SampleSlot {
  std::span<uint8_t> image_YXC;  ///< Y * X * 3 bytes; empty when the batch has no images.
  std::span<int32_t> text_T;     ///< Token ids, zero when the decoder starts; empty when the batch has no text.
  int64_t label = -1;            ///< RawSample::label; the decoder may change it.
};

/// Turns a raw sample into pixels and tokens. Runs in several threads at once; throws DataError for a bad sample.
using SampleDecoder = std::function<void(const RawSample&, SampleSlot&)>;

/// A sample that could not be used.
struct BadSample {
  std::string shard;
  uint64_t offset = 0;
  std::string key;
  std::string reason;
};

}  // namespace lockstep::data
