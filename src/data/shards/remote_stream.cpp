#include "data/shards/remote_stream.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "remote/remote_reader.h"

namespace lockstep::data {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr size_t kFirstBlockBytes = size_t{1} << 20;  // the first sample soon
/// A gap up to this size costs less to read than another request.
constexpr uint64_t kMaxReadGap = kBlockBytes;

[[noreturn]] void throw_data_error(const std::string& shard, const remote::RemoteError& error) {
  throw DataError(fmt::format("data: cannot read shard '{}': {}", remote::parse_address(shard).text(), error.what()),
                  error.hint());
}

remote::ClientConfig client_config(const std::atomic<bool>* stop) {
  remote::ClientConfig config;
  config.is_stopped = [stop] { return stop != nullptr && stop->load(std::memory_order_relaxed); };
  config.on_retry = [](const remote::RemoteError& error) { core::log_warning("data: {}; trying again", error.what()); };
  return config;
}

struct Block {
  uint64_t offset = 0;
  std::vector<std::byte> bytes;
  bool is_last = false;                      // the shard ends with it
  std::optional<uint64_t> shard_bytes = {};  // as far as it is known by then
};

class RemoteStream final : public ByteStream {
 public:
  RemoteStream(const std::string& shard, uint64_t offset, const std::atomic<bool>* stop)
      : shard_(shard), reader_(remote::parse_address(shard), client_config(&is_abandoned_)), stop_(stop) {
    try {
      take(fetch(offset, kFirstBlockBytes));
    } catch (const remote::RemoteError& error) {
      throw_data_error(shard_, error);
    }
    fetch_ahead();
  }
  ~RemoteStream() override {
    is_abandoned_ = true;
    if (ahead_.valid()) ahead_.wait();
  }

  size_t read(std::span<std::byte> buffer) override {
    if (at_ == block_.bytes.size() && !take_next()) return 0;
    const size_t count = std::min(buffer.size(), block_.bytes.size() - at_);
    std::memcpy(buffer.data(), block_.bytes.data() + at_, count);
    at_ += count;
    return count;
  }

  bool skip(uint64_t count) override {
    const uint64_t left = block_.bytes.size() - at_;
    if (count <= left) {
      at_ += count;
      return true;
    }
    if (count - left <= kMaxReadGap) return false;
    const uint64_t target = block_.offset + at_ + count;
    is_abandoned_ = true;
    if (ahead_.valid()) ahead_.wait();
    ahead_ = {};
    is_abandoned_ = false;
    block_ = {.offset = target, .bytes = {}};
    at_ = 0;
    fetch_ahead();
    return true;
  }

  std::optional<uint64_t> size() const override { return bytes_; }
  void finish() override {}

 private:
  Block fetch(uint64_t offset, size_t wanted) {
    Block block{.offset = offset, .bytes = std::vector<std::byte>(wanted)};
    block.bytes.resize(reader_.read_at(offset, block.bytes));
    block.is_last = block.bytes.size() < wanted;
    block.shard_bytes = reader_.bytes();
    return block;
  }
  void take(Block block) {
    block_ = std::move(block);
    if (!bytes_) bytes_ = block_.shard_bytes;
  }
  void fetch_ahead() {
    if (block_.is_last) return;
    const uint64_t next = block_.offset + block_.bytes.size();
    ahead_ = std::async(std::launch::async, [this, next] { return fetch(next, kBlockBytes); });
  }
  /// False at the end of the shard.
  bool take_next() {
    if (!ahead_.valid()) return false;
    while (ahead_.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
        is_abandoned_ = true;  // what is under way ends soon
        throw DataError(fmt::format("data: reading of shard '{}' was interrupted", shard_));
      }
    try {
      take(ahead_.get());
    } catch (const remote::RemoteError& error) {
      throw_data_error(shard_, error);
    }
    at_ = 0;
    fetch_ahead();
    return !block_.bytes.empty();
  }

  std::string shard_;
  std::atomic<bool> is_abandoned_ = false;  // the stream goes, or jumps
  remote::RemoteReader reader_;             // of one thread at a time: of the constructor, then of ahead_
  const std::atomic<bool>* stop_;
  std::optional<uint64_t> bytes_;  // of the shard
  Block block_;
  size_t at_ = 0;
  std::future<Block> ahead_;
};

}  // namespace

std::unique_ptr<ByteStream> open_remote_stream(const std::string& shard, uint64_t offset,
                                               const std::atomic<bool>* stop) {
  return std::make_unique<RemoteStream>(shard, offset, stop);
}

void check_remote_shard(const std::string& shard) {
  try {
    std::byte first{};
    remote::RemoteReader(remote::parse_address(shard), client_config(nullptr)).read_at(0, std::span(&first, 1));
  } catch (const remote::RemoteError& error) {
    throw_data_error(shard, error);
  }
}

}  // namespace lockstep::data
