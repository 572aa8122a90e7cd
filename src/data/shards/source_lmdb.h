#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/shards/lmdb_reader.h"
#include "data/shards/source_rows.h"

namespace lockstep::data {

/// Keys of an LMDB that hold no picture.
struct LmdbKeys {
  static constexpr const char *
      kLength = "__len__",
     *kKeys = "__keys__",                // pickles, as folder2lmdb.py leaves them
         *kLockstep = "__lockstep__",    // JSON: how far a conversion of ours got
             *kHashes = "__xxh3_128__";  // with a number behind it: hashes of kLmdbHashedTogether values, 16 bytes each
};
/// Values whose hashes lie in one value, and that are committed together.
inline constexpr int64_t kLmdbHashedTogether = 256;

/// What kLockstep says.
struct LmdbProgress {
  int64_t num_done = 0;  ///< Pictures committed.
  bool is_complete = false;
  std::string source;                    ///< Fingerprint of the data that is converted.
  std::vector<std::string> class_names;  ///< Empty where the source has no names.
  int64_t num_classes = 0;               ///< Of those, or the largest label so far and one.
  /// Where reading goes on: behind so many samples of the source, and so many more that were read with others.
  /// Nothing: of a conversion by a release that left out none; behind num_done.
  std::optional<int64_t> num_read = {};
  int64_t num_over = 0;
  int64_t num_skipped = 0;                ///< Of all those samples, the ones that were left out.
  std::vector<std::string> skipped = {};  ///< Messages, the first kMaxBadPictures.
  core::Json to_json() const;
};
/// Nothing in an LMDB that is none of ours; DataError for one that says something else.
std::optional<LmdbProgress> read_lmdb_progress(const LmdbReader& reader);

/// The names of the pictures of an LMDB, in the order of the data set.
struct LmdbPictures {
  int64_t num_pictures = 0;
  std::vector<std::string> keys;  ///< Empty: "0", "1", ...
  std::string key(int64_t picture) const {
    return keys.empty() ? fmt::to_string(picture) : keys[static_cast<size_t>(picture)];
  }
};
/// By __lockstep__ (DataError for a conversion that is not complete), by __keys__ (DataError where __len__ counts
/// something else), or else all keys that do not begin with "__": by number where all are numbers, by bytes else.
LmdbPictures list_lmdb_pictures(const LmdbReader& reader);

/// The classes in the order of their numbers: those that __lockstep__ names, else the folders of the keys where values
/// are pictures without labels. Empty where labels are numbers without names.
std::vector<std::string> lmdb_class_names(const LmdbReader& reader);

/// config.spec as an LMDB of pictures with their labels (lmdb_value.h lists the forms). Keys are read late, by the
/// workers. A picture without a label takes it from the folder that its key begins with (sorted by name); keys without
/// a folder are bad samples where a label is needed.
RowTable open_lmdb(const SourceConfig& config);

}  // namespace lockstep::data
