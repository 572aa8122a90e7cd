#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/pictures/picture_check.h"

namespace lockstep::data {

/// Is it data of pictures with classes that are no shards: a folder of class folders, or an LMDB?
bool is_labelled_set(const std::string& path);

/// What looking at every picture, or recording, of class folders found.
struct FolderCheck {
  bool is_of_sounds = false;  ///< The folders hold recordings; what is said of pictures holds for these.
  int64_t num_pictures = 0, num_classes = 0;
  uint64_t num_bytes = 0;  ///< Of the files that could be read.
  int64_t num_bad = 0;
  std::vector<std::string> bad = {};  ///< Messages, the first kMaxBadPictures.
};

/// Reads every picture, or recording, of a folder of class folders, several at a time. DataError where the folders are
/// none, or a class has neither. `on_progress` is called from any thread, one call at a time.
FolderCheck check_class_folders(const std::string& folder, int64_t num_threads, PictureDepth depth,
                                const std::function<void(int64_t num_done)>& on_progress = {});

/// What class folders or an LMDB hold.
struct LabelledReport {
  bool is_lmdb = false;
  bool is_of_sounds = false;  ///< Class folders of recordings; what is said of pictures holds for these.
  int64_t num_pictures = 0;
  int64_t num_classes = 0;               ///< By name, or of an LMDB of ours by number; 0: not known.
  std::vector<std::string> class_names;  ///< In the order of their numbers; empty where classes are numbers alone.
  uint64_t num_bytes = 0;                ///< Of an LMDB's file; of class folders the files that were decoded.
  /// Of class folders: the fewest and the most pictures of a class.
  int64_t fewest_of_class = 0, most_of_class = 0;
  std::string smallest_class, largest_class;
  int64_t num_decoded = 0;                                           ///< Of pictures spread over all of them.
  int min_width = 0, max_width = 0, min_height = 0, max_height = 0;  ///< Pixels; of those decoded.
  double min_seconds = 0, max_seconds = 0;                           ///< Of recordings decoded.
  std::vector<std::string> bad;                                      ///< Messages of those that cannot be decoded.

  core::Json to_json() const;
};

/// Decodes `num_decoded` pictures at even distances. DataError where the set as a whole cannot be read.
LabelledReport inspect_labelled_set(const std::string& path, int64_t num_decoded);

}  // namespace lockstep::data
