#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/pictures/picture_check.h"
#include "data/shards/shard_index.h"

namespace lockstep::data {

struct IndexJob {
  std::vector<std::string> shards;
  std::string index_dir;
  int64_t num_threads = 1;
  bool force = false;  ///< Build side-cars again that exist and fit the shard's size.
  /// A damaged shard gets a side-car up to its damage, or keeps that of the time when it was whole; false: it gets
  /// none.
  bool keep_damaged = false;
  bool decodes = false;  ///< verify_shards decodes pictures and recordings, too.
  /// Called in any thread after each shard, one call at a time; done counts shards.
  std::function<void(int64_t done, const std::string& shard)> on_progress;
};
struct IndexSummary {
  int64_t num_built = 0, num_reused = 0;
  int64_t num_samples = 0;  ///< In all shards, usable or not.
  uint64_t bytes = 0;
  /// Shards that are missing or damaged and got no side-car, in the order of the list.
  std::vector<std::pair<std::string, DataError>> damaged;
  std::vector<std::string> kept_damage;  ///< With keep_damaged: what is wrong with each damaged shard.
};
/// Writes the missing side-cars, several shards at a time, and at the end one summary per folder of side-cars. Whatever
/// was finished stays when it is stopped, so that a second run goes on.
IndexSummary build_indexes(const IndexJob& job);

/// Headers of side-cars. A summary ("shards.index": the header lines of all side-cars of a folder) saves opening each
/// one.
class IndexHeaders {
 public:
  explicit IndexHeaders(std::string index_dir) : index_dir_(std::move(index_dir)) {}
  /// Header of the shard's side-car, from the summary or the side-car itself; nothing when it has none.
  std::optional<ShardIndex> find(const std::string& shard);

 private:
  std::string index_dir_;
  std::map<std::filesystem::path, std::map<std::string, ShardIndex>> folders_;  // by name of the side-car
};

/// Pictures, or recordings, of a shard that were decoded or tried, also of one that is damaged behind them.
struct MediaCheck {
  int64_t num_seen = 0;
  int64_t num_bad = 0;           ///< Of them those that training refuses.
  std::vector<std::string> bad;  ///< Messages, the first kMaxBadPictures.
};

struct VerifyResult {
  std::string shard;
  std::string error;        ///< "" when whole.
  bool is_missing = false;  ///< There is no such file.
  bool has_index = false;   ///< Compared with a side-car; else only its structure was checked.
  int64_t num_samples = 0;
  uint64_t bytes = 0;
  MediaCheck pictures, recordings;

  bool is_good() const { return error.empty() && pictures.num_bad == 0 && recordings.num_bad == 0; }
};
/// Reads every shard whole, compares it with its side-car where there is one, and with `decodes` decodes its pictures
/// and recordings.
std::vector<VerifyResult> verify_shards(const IndexJob& job);

}  // namespace lockstep::data
