#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/pictures/picture_check.h"
#include "data/shards/source_config.h"

namespace lockstep::data {

struct ToLmdbConfig {
  SourceConfig source;  ///< Pictures with labels, in any form; num_classes = 0: as many as there are.
  std::filesystem::path output = {};
  int64_t num_threads = 2;                                 ///< That read; one writes.
  uint64_t map_bytes = uint64_t{1} << 30;                  ///< First size of the map; doubled as often as needed.
  bool decodes = false;                                    ///< Every picture, not only its first bytes.
  bool skips_bad = false;                                  ///< Leaves out pictures that cannot be used, and lists them.
  int64_t max_bad = 1000;                                  ///< With it: more than these end the conversion.
  std::function<void(int64_t num_done)> on_progress = {};  ///< Called after each commit.
};

struct ToLmdbResult {
  int64_t num_pictures = 0;
  int64_t num_classes = 0;  ///< Names of classes, or the largest label and one.
  int64_t num_resumed = 0;  ///< Pictures that an earlier call had written.
  int64_t num_grown = 0;    ///< How often the map was too small.
  uint64_t num_bytes = 0;   ///< Of the data file.
  bool was_there = false;   ///< Found complete; nothing was written.
  int64_t num_skipped = 0;
  std::vector<std::string> skipped = {};  ///< Messages, the first kMaxBadPictures.
};

/// Writes `output`/data.mdb in the layout of the folder2lmdb scripts: keys "0", "1", ... in the order of the source,
/// each value the pickle of (encoded picture, label), which Python's pickle.loads reads; __len__ and __keys__ as
/// pickles. Beside them __lockstep__ (JSON) and hashes of the values (verify_lmdb).
///
/// It grows in "`output`.partial" and is renamed when it is complete. A call that was killed goes on behind its last
/// commit, which is never torn. DataError: a picture that cannot be read (with `decodes`: decoded) or is none, unless
/// such are skipped; one without a label, an unfinished conversion of other data. UsageError: `output` is something
/// else, or lies in a folder that is read. EnvironmentError: another process converts to it, or the disk is full.
ToLmdbResult to_lmdb(const ToLmdbConfig& config);

struct LmdbCheck {
  int64_t num_pictures = 0;
  uint64_t num_bytes = 0;   ///< Of the file.
  bool has_hashes = false;  ///< false: of another program, which wrote none.
  int64_t num_bad = 0;
  std::vector<std::string> bad = {};  ///< Messages, the first kMaxBadPictures.
};
/// Reads every picture of an LMDB, compares it with its hash where there is one, and decodes it, or looks at its first
/// bytes alone. DataError where the whole cannot be read.
LmdbCheck verify_lmdb(const std::filesystem::path& path, int64_t num_threads, PictureDepth depth);

}  // namespace lockstep::data
