#include "data/order/lane_plan.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/counted.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/shards/shard_list.h"

namespace lockstep::data {
namespace {

constexpr uint64_t kPurposeShards = 0x5348415244ull;  // keys of the random streams
constexpr uint64_t kPurposeRotate = 0x524f54ull;
constexpr uint64_t kPurposeDraw = 0x44524157ull;
constexpr int64_t kMinLaneSamples = 8;  // shorter lanes would leave a bad sample without substitutes

/// The j-th shard of a pass.
std::vector<int64_t> shard_sequence(int64_t num_shards, const LaneOrder& order, uint64_t pass) {
  std::vector<int64_t> sequence(static_cast<size_t>(num_shards));
  std::iota(sequence.begin(), sequence.end(), int64_t{0});
  if (!order.shuffle) return sequence;
  const core::Permutation permutation(static_cast<uint64_t>(num_shards),
                                      core::stream_key({order.seed, kPurposeShards, pass}));
  for (size_t j = 0; j < sequence.size(); ++j) sequence[j] = static_cast<int64_t>(permutation(j));
  return sequence;
}

std::vector<ShardPiece> drawn_pieces(const ShardSet& set, const LaneOrder& order, uint64_t pass, int64_t lane) {
  const auto num_shards = static_cast<int64_t>(set.shards.size());
  const int64_t draws_per_lane = (num_shards + order.num_lanes - 1) / order.num_lanes;
  std::vector<ShardPiece> pieces;
  for (int64_t i = 0; i < draws_per_lane; ++i) {
    const uint64_t slot = pass * static_cast<uint64_t>(draws_per_lane) + static_cast<uint64_t>(i);
    const uint64_t draw = slot * static_cast<uint64_t>(order.num_lanes) + static_cast<uint64_t>(lane);
    const double at =
        core::CounterRng(core::stream_key({order.seed, kPurposeDraw, draw})).uniform() * set.cumulative_weight.back();
    const auto found = std::upper_bound(set.cumulative_weight.begin(), set.cumulative_weight.end(), at);
    const int64_t shard = std::min<int64_t>(found - set.cumulative_weight.begin(), num_shards - 1);
    pieces.push_back({shard, 0, set.has_index() ? set.samples[static_cast<size_t>(shard)] : -1});
  }
  return pieces;
}

/// Appends the samples [begin, end) of the pass's sequence, as pieces of shards.
void append_range(const ShardSet& set, const std::vector<int64_t>& sequence, int64_t begin, int64_t end,
                  std::vector<ShardPiece>& pieces) {
  int64_t shard_begin = 0;
  for (const int64_t shard : sequence) {
    if (shard_begin >= end) return;
    const int64_t count = set.samples[static_cast<size_t>(shard)];
    const int64_t from = std::max(begin, shard_begin), to = std::min(end, shard_begin + count);
    if (from < to) pieces.push_back({shard, from - shard_begin, to - from});
    shard_begin += count;
  }
}

}  // namespace

int64_t ShardSet::num_samples() const { return std::accumulate(samples.begin(), samples.end(), int64_t{0}); }

std::string ShardSet::fingerprint() const {
  core::Xxh3 hash;
  const auto add = [&](const std::string& text) { hash.update(std::as_bytes(std::span(text))); };
  for (size_t i = 0; i < shards.size(); ++i) {
    // Data may be copied to other folders between two runs; a command is itself.
    add(is_pipe(shards[i]) ? shards[i] : std::filesystem::path(shards[i]).filename().string());
    add(has_index() ? fmt::format(":{}\n", samples[i]) : "\n");
  }
  add(fmt::format("{}|{}|{}", core::join(filter.image_keys, ","), core::join(filter.text_keys, ","),
                  filter.need_label));
  return hash.hex();
}

int64_t LaneOrder::lane_samples(int64_t lane) const {
  return pass_samples / num_lanes + (lane < pass_samples % num_lanes ? 1 : 0);
}

int64_t LaneOrder::window_samples(int64_t lane, uint64_t number) const {
  if (number > 0 || !shuffle) return window;
  return std::max<int64_t>(1, window - window * lane / (2 * num_lanes));
}

int64_t choose_num_lanes(int64_t requested, int64_t num_shards, int64_t pass_samples, bool resampled,
                         int64_t world_size) {
  LOCKSTEP_CHECK(requested > 0 && num_shards > 0 && world_size > 0, "lanes={} shards={} world={}", requested,
                 num_shards, world_size);
  const bool can_cut = pass_samples > 0;
  const int64_t limit = can_cut ? std::min(requested, std::max<int64_t>(1, pass_samples / kMinLaneSamples))
                                : std::min(requested, num_shards);
  if (limit >= world_size) return limit / world_size * world_size;
  if (can_cut || resampled || num_shards >= world_size) return world_size;
  throw DataError(
      fmt::format("data: {} for {}: without an index every rank needs at least one shard of its own",
                  core::counted(num_shards, "shard"), core::counted(world_size, "rank")),
      "run `lockstep data index SHARDS` once (ranks then share shards), write more shards, or use fewer ranks");
}

std::vector<ShardPiece> lane_pieces(const ShardSet& set, const LaneOrder& order, uint64_t pass, int64_t lane) {
  if (order.resampled) return drawn_pieces(set, order, pass, lane);
  const std::vector<int64_t> sequence = shard_sequence(static_cast<int64_t>(set.shards.size()), order, pass);
  std::vector<ShardPiece> pieces;
  if (order.pass_samples == 0) {
    for (size_t j = static_cast<size_t>(lane); j < sequence.size(); j += static_cast<size_t>(order.num_lanes)) {
      const auto shard = static_cast<size_t>(sequence[j]);
      pieces.push_back({sequence[j], 0, set.has_index() ? set.samples[shard] : -1});
    }
    return pieces;
  }
  const int64_t total = set.num_samples();
  LOCKSTEP_CHECK(order.pass_samples <= total, "pass={} total={}", order.pass_samples, total);
  const int64_t shorter = order.pass_samples / order.num_lanes, longer = order.pass_samples % order.num_lanes;
  int64_t begin = lane * shorter + std::min(lane, longer);
  // The sequence starts at another sample in each pass, else a single shard would always lose the same tail.
  if (order.shuffle)
    begin += static_cast<int64_t>(
        core::CounterRng(core::stream_key({order.seed, kPurposeRotate, pass})).below(static_cast<uint64_t>(total)));
  begin %= total;
  const int64_t end = begin + order.lane_samples(lane);
  append_range(set, sequence, begin, std::min(end, total), pieces);
  if (end > total) append_range(set, sequence, 0, end - total, pieces);
  return pieces;
}

}  // namespace lockstep::data
