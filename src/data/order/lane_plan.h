#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/shard_reader.h"

namespace lockstep::data {

/// The shards of a data set and what is known about them. Shared by all lanes, never changed.
struct ShardSet {
  std::vector<std::string> shards;
  std::vector<double> cumulative_weight;  ///< Running sum of up-sampling factors, one per shard; for drawing.
  SampleFilter filter;
  std::vector<std::string> wanted;  ///< filter.wanted()
  // With an index, one entry per shard; else empty.
  std::vector<int64_t> samples;  ///< Usable samples.
  std::vector<uint64_t> bytes;
  std::string index_dir;
  std::map<std::string, int64_t> left_out = {};  ///< Reason -> samples that are not usable, each shard counted once.

  bool has_index() const { return !samples.empty(); }
  int64_t num_samples() const;  ///< Sum over the index.
  /// Hash of shard names and sample counts; tells whether a position belongs to this data.
  std::string fingerprint() const;
};

/// A run of usable samples of one shard.
struct ShardPiece {
  int64_t shard = 0;
  int64_t first = 0;   ///< Ordinal among the shard's usable samples.
  int64_t count = -1;  ///< -1: to the end of the shard, however many that are.
  bool operator==(const ShardPiece&) const = default;
};

/// The order of a data set: which lane reads which pieces in which pass. A pure function of its fields.
struct LaneOrder {
  uint64_t seed = 0;
  int64_t num_lanes = 1;
  bool shuffle = true;
  bool resampled = false;
  int64_t pass_samples = 0;  ///< Samples of a pass over all lanes; 0: unknown (no index, or resampled).
  int64_t window = 1;        ///< Samples of one lane shuffled together.

  /// Samples of a lane per pass where pass_samples is known.
  int64_t lane_samples(int64_t lane) const;
  /// Size of the n-th shuffle window of a lane within a pass. Windows of different lanes are staggered, so that not all
  /// lanes read at once.
  int64_t window_samples(int64_t lane, uint64_t number) const;
};

/// Number of lanes for a run: `requested` (or fewer), adjusted to a multiple of `world_size`. Without an index every
/// lane needs a shard of its own: fewer shards than ranks throw DataError with the legal choices.
int64_t choose_num_lanes(int64_t requested, int64_t num_shards, int64_t pass_samples, bool resampled,
                         int64_t world_size);

/// Pieces that `lane` reads in `pass`, in order.
/// With an index the shuffled sequence of all samples is cut into equal lanes, so a shard may be shared by neighbouring
/// lanes and the last pass_samples mod total samples of the sequence are left out (others in each pass). Without one
/// whole shards are dealt out. Resampled: draw k = slot * num_lanes + lane picks a shard from (seed, k) alone.
std::vector<ShardPiece> lane_pieces(const ShardSet& set, const LaneOrder& order, uint64_t pass, int64_t lane);

}  // namespace lockstep::data
