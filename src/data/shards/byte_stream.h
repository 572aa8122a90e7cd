#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

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

/// Opens a local file at `offset`, or runs the command of "pipe:COMMAND" with /bin/sh -c (offset then skips by
/// reading). `stop`, where given, must outlive the stream: a read that waits throws soon after it becomes true.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& shard, uint64_t offset, const std::atomic<bool>* stop);

}  // namespace lockstep::data
