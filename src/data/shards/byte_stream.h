#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::data {

/// Bytes of one shard, from front to back.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Up to buffer.size() bytes; 0 only at the end. A failing read throws DataError.
  virtual size_t read(std::span<std::byte> buffer) = 0;
  /// Passes over `count` bytes without reading them; false: this stream cannot (a pipe), read them instead.
  virtual bool skip(uint64_t count) = 0;
  /// Size where it is known from the start.
  virtual std::optional<uint64_t> size() const = 0;
  /// Called at the end of the stream: a command that failed throws DataError with its exit status.
  virtual void finish() = 0;
};

}  // namespace lockstep::data
