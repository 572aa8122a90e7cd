#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/rng.h"
#include "data/shards/source.h"
#include "data/shards/source_config.h"

namespace lockstep::data {

/// WebDataset's shuffle: a buffer that first grows to `initial` items, then by two per item handed out up to
/// `capacity`; each item handed out is drawn from all of it, by Random::below(size).
template <typename T, typename Random = core::CounterRng> class RollingShuffle {
 public:
  RollingShuffle(std::function<std::optional<T>()> source, int64_t capacity, int64_t initial, Random random)
      : source_(std::move(source)), capacity_(static_cast<size_t>(capacity)), initial_(static_cast<size_t>(initial)),
        random_(std::move(random)) {}

  std::optional<T> next() {
    while (auto item = source_()) {
      buffer_.push_back(std::move(*item));
      if (buffer_.size() < capacity_)
        if (auto more = source_()) buffer_.push_back(std::move(*more));
      if (buffer_.size() >= initial_) return pick();
    }
    if (buffer_.empty()) return std::nullopt;
    return pick();
  }

 private:
  T pick() {
    std::swap(buffer_[random_.below(buffer_.size())], buffer_.back());
    T item = std::move(buffer_.back());
    buffer_.pop_back();
    return item;
  }

  std::function<std::optional<T>()> source_;
  const size_t capacity_, initial_;
  Random random_;
  std::vector<T> buffer_;
};

/// DataOrder::kOpenClip: num_workers streams per rank as OpenCLIP's data loader has them. Every epoch begins anew with
/// the shards in OpenCLIP's own order of seed + epoch, dealt out to ranks, then to workers; each worker shuffles
/// samples in a buffer of its own (OpenCLIP's draws there are new in each run) and gives whole micro-batches in turn,
/// as many as the epoch asks of it (its shards again when they run dry). The order depends on the world size, the
/// workers and the micro-batch; a position fits only the same ones and is reached by reading the epoch up to there
/// again.
std::unique_ptr<SampleSource> open_openclip_source(const SourceConfig& config);

}  // namespace lockstep::data
