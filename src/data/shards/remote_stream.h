#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "data/shards/byte_stream.h"

namespace lockstep::data {

/// Opens a shard at s3://, http:// or https://: it is read in blocks by ranges, the next one while this one is used,
/// each tried again where it broke off. A shard that is not there, that may not be read, or that changes meanwhile
/// throws DataError, in the constructor for what the first block shows.
std::unique_ptr<ByteStream> open_remote_stream(const std::string& shard, uint64_t offset,
                                               const std::atomic<bool>* stop);

/// DataError, as of the stream, where the shard cannot be read. Asks for one byte.
void check_remote_shard(const std::string& shard);

}  // namespace lockstep::data
