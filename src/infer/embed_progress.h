#pragma once
#include <cstdint>
#include <optional>

namespace lockstep::infer {

/// How many samples of the shards that are to be embedded were, and how many are left: from their index, else from how
/// far into its bytes the present shard is read. Those of later shards are taken to be as many on average as those of
/// the shards before.
class EmbedProgress {
 public:
  struct Shard {
    std::optional<int64_t> num_samples;  ///< By its index.
    uint64_t num_bytes = 0;              ///< 0: not known.
  };

  explicit EmbedProgress(int64_t num_shards) : num_shards_(num_shards) {}

  void begin(const Shard& shard);
  /// So many more samples of that shard; the last of them begins at byte `offset`.
  void add(int64_t num_samples, uint64_t offset);
  void end();

  int64_t num_done() const { return num_done_; }
  /// Nothing while nobody can say.
  std::optional<double> num_left() const;

 private:
  std::optional<double> present_total() const;

  int64_t num_shards_, num_ended_ = 0;
  int64_t num_done_ = 0;   // samples of all shards
  int64_t num_there_ = 0;  // of them those of the present shard
  uint64_t offset_ = 0;
  std::optional<Shard> present_;
};

}  // namespace lockstep::infer
