#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/shards/shard_reader.h"

namespace lockstep::data {

/// Where a shard became unreadable while it was indexed, and why.
struct ShardDamage {
  uint64_t offset = 0;  ///< Of the first sample that could not be read.
  std::string reason;
};

/// What the side-car of a shard says: header line only, or with the table of samples.
struct ShardIndex {
  uint64_t bytes = 0;
  std::string xxh3_128;     ///< Of the whole shard file, 32 hex digits.
  int64_t num_samples = 0;  ///< All groups of members, usable or not.
  /// Sets of extensions (sorted) with the number of samples that have exactly this set.
  std::vector<std::pair<std::vector<std::string>, int64_t>> extension_sets;
  std::map<std::string, int64_t> skipped;  ///< Members that belong to no sample, by reason.
  struct Sample {
    uint64_t offset = 0;
    std::vector<MemberPlace> places;
  };
  std::vector<Sample> samples;  ///< Empty when only the header was read.
  /// The shard could be read up to here only. One lost sample, the last, stands for the rest among the usable ones.
  std::optional<ShardDamage> damage;

  int64_t num_usable(const SampleFilter& filter) const;  ///< From the header alone.
  /// Offsets of the usable samples, in order; needs the table.
  std::vector<uint64_t> usable_offsets(const SampleFilter& filter) const;
};

/// "<shard>.index" beside the shard, or in `index_dir` with a hash of the shard's folder in its name.
std::filesystem::path side_car_path(const std::string& shard, const std::string& index_dir);

/// What a reader of a whole shard is shown on the way: each sample with the data of its pictures and recordings.
using MediaVisitor = std::function<void(const TarSample&)>;

/// Reads the whole local shard once: hashes it and lists its samples, which `visit`, where it is set, sees one by one.
/// A damaged shard throws DataError, or with `keep_damaged` is listed up to its damage (the hash is then of what was
/// read).
ShardIndex build_shard_index(const std::string& shard, bool keep_damaged = false, const MediaVisitor& visit = {});
/// As text: one line of JSON for the header, then one JSON array per sample: [offset, [extension, offset, size], ...].
std::string format_shard_index(const std::string& shard, const ShardIndex& index);
/// The opposite; DataError (naming `where`) unless every line is well formed and the table fits the header's checksum
/// and count.
ShardIndex parse_shard_index(std::string_view text, const std::string& where);
/// One header line, also as the summary of a folder holds it, and the opposite (name, header).
std::string format_index_header(const std::string& name, const ShardIndex& index, const std::string& table_hash);
std::pair<std::string, ShardIndex> parse_index_header(std::string_view line, const std::string& where);
/// Header of an existing side-car; nothing when there is none.
std::optional<ShardIndex> read_index_header(const std::filesystem::path& side_car);

}  // namespace lockstep::data
