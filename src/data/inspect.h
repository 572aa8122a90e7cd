#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/shards/sample.h"

namespace lockstep::data {

struct InspectConfig {
  std::vector<std::string> shards;
  int64_t max_shards = 8;    ///< Read from the front of the list; 0: all.
  int64_t max_shown = 5;     ///< Captions shown.
  int64_t max_decoded = 64;  ///< Pictures decoded for their sizes, and recordings for their lengths.
  std::vector<std::string> image_keys = default_image_keys();
  std::vector<std::string> audio_keys = default_audio_keys();
  /// Empty: those of training, {"txt"} beside pictures, {"json", "txt"} beside recordings.
  std::vector<std::string> text_keys = {};
};

/// What some shards hold.
struct InspectReport {
  int64_t num_shards = 0;                   ///< In the list.
  int64_t num_read = 0;                     ///< To their end.
  std::vector<std::string> damaged_shards;  ///< Messages of those that could not be; samples before the damage count.
  int64_t num_samples = 0;                  ///< In the shards read.
  /// With a picture or a recording and a caption, as training asks for; of these none was found bad below.
  int64_t num_usable = 0;
  struct Extension {
    int64_t count = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Extension> extensions;
  std::map<std::string, int64_t> skipped;  ///< Members and samples that training leaves out, by reason.
  struct Caption {
    std::string key, text;
  };
  std::vector<Caption> captions;                                     ///< As training reads them.
  int64_t num_bad_captions = 0;                                      ///< Every caption is read.
  std::vector<std::string> bad_captions;                             ///< Messages, the first 100.
  int64_t num_pictures = 0, num_decoded = 0;                         ///< In complete samples, and of these decoded.
  int min_width = 0, max_width = 0, min_height = 0, max_height = 0;  ///< Pixels; of the pictures decoded.
  std::vector<std::string> bad_pictures;                             ///< Messages.

  /// The recordings decoded.
  struct Sounds {
    int64_t num_recordings = 0;  ///< In complete samples.
    int64_t num_decoded = 0;
    int64_t num_silent = 0;  ///< All values zero.
    double min_seconds = 0, max_seconds = 0;
    std::map<int64_t, int64_t> rates, channels;  ///< Hz or channels -> recordings.
    std::vector<std::string> bad;                ///< Messages.
  } sounds;

  /// Nothing was found that training refuses.
  bool is_clean() const {
    return damaged_shards.empty() && num_bad_captions == 0 && bad_pictures.empty() && sounds.bad.empty();
  }
  core::Json to_json() const;
};

/// Judges samples by the rules of training with sounds where shards hold recordings and no pictures, else by those with
/// pictures. Reads shards in order; DataError where not one of them can be read.
InspectReport inspect_shards(const InspectConfig& config);

}  // namespace lockstep::data
