#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "data/shards/byte_stream.h"

namespace lockstep::data {

/// Opens a local file or an address (see remote_stream.h) at `offset`, or runs the command of "pipe:COMMAND" with
/// /bin/sh -c (offset then skips by reading). `stop`, where given, must outlive the stream: a read that waits throws
/// soon after it becomes true.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& shard, uint64_t offset, const std::atomic<bool>* stop);

}  // namespace lockstep::data
