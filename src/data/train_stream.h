#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/source.h"

namespace lockstep::data {

enum class DatasetType { kAuto, kWebDataset, kCsv, kSynthetic, kSyntheticAudio, kImageFolder };
enum class DataOrder { kLockstep, kOpenClip };
enum class IndexUse { kAuto, kOff, kRequire };  ///< kAuto: used where every shard has a fresh side-car.

/// "auto", "webdataset", ...; UsageError with the known names. "webdataset-audio" is WebDataset: what a sample needs is
/// said apart.
DatasetType parse_dataset_type(const std::string& name);
DataOrder parse_data_order(const std::string& name);

/// All that decides which samples a rank sees, and in which order.
struct SourceConfig {
  std::string spec;  ///< Brace list of shards, several joined with "::"; path of a CSV; class folders; "" synthetic.
  DatasetType type =
      DatasetType::kAuto;          ///< kAuto: .csv/.tsv -> CSV, .tar or "pipe:" -> WebDataset, a folder -> ImageFolder.
  std::string upsampling_factors;  ///< "::"-joined, one per source of `spec`; needs `resampled`.
  bool resampled = false;          ///< Shards are drawn with replacement.
  int64_t num_samples = 0;         ///< --train-num-samples; 0: not given.
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t global_batch = 1;  ///< Samples of one optimiser step; a multiple of world_size.
  int64_t num_lanes = 64;
  bool shuffle = true;            ///< false: shards and samples in the order given.
  int64_t shuffle_window = 5000;  ///< Samples held for shuffling over all lanes of all ranks.
  DataOrder order = DataOrder::kLockstep;
  int64_t num_workers = 4;       ///< Streams per rank; used by DataOrder::kOpenClip only.
  int64_t samples_per_rank = 0;  ///< Micro-batch; used by DataOrder::kOpenClip only.
  bool need_image = true;        ///< WebDataset samples without one of image_keys are left out and counted.
  bool need_audio = false;       ///< The same with audio_keys; class folders then hold sounds, not pictures.
  bool need_text = true;
  bool need_label = false;  ///< The label is the number in the member "cls", or in the CSV's column csv_label_key.
  std::vector<std::string> image_keys = {"jpg", "png", "jpeg", "webp"};
  std::vector<std::string> audio_keys = {"flac", "wav", "ogg"};
  std::vector<std::string> text_keys = {"txt"};
  std::string csv_separator = "\t";
  std::string csv_image_key = "filepath";
  std::string csv_caption_key = "title";
  std::string csv_label_key = "label";
  int64_t synthetic_pixels = 224;  ///< Height and width of the synthetic image.
  std::string index_dir;           ///< Folder of side-cars; "": beside the shards.
  IndexUse index = IndexUse::kAuto;
  bool allow_pipe = true;  ///< false: a "pipe:" shard is a UsageError.
};

/// What to do about a data set that does not fill one global batch.
inline constexpr const char* kTooFewSamplesHint =
    "use a smaller --batch-size, --global-batch-size or --accum-freq, or more data";

/// Length of an epoch.
struct EpochSize {
  int64_t num_batches = 0;  ///< Optimiser steps (global batches).
  int64_t num_samples = 0;  ///< num_batches * global_batch.
  int64_t num_known = 0;    ///< Samples the data set is said or known to hold.
  int64_t num_dropped = 0;  ///< Samples of the data set that an epoch leaves out (known sizes only).
  bool each_once = false;   ///< Every sample appears at most once per epoch.
  std::string origin;       ///< Where num_known comes from: "--train-num-samples", "sizes.json", "index", ...
};

/// The size of an epoch. OpenCLIP's rule: --train-num-samples, else the index, else sizes.json or __len__ beside the
/// first shard, rounded up to whole global batches. Where the exact number is known by index or by the kind of source
/// and no number was asked for, the epoch is rounded down instead, so that no sample appears twice. DataError when the
/// size cannot be found.
EpochSize epoch_size(const SourceConfig& config);

/// Endless stream of one rank for training.
std::unique_ptr<SampleSource> open_train_source(const SourceConfig& config);

/// Each sample exactly once over all ranks, in the order given, then the end: rank r gets samples r, r + world_size,
/// ... (RawSample::id is the sample's number). The numbers of samples per rank differ by one at most.
std::unique_ptr<SampleSource> open_eval_source(const SourceConfig& config);

/// Makes the missing side-cars where that is allowed without being asked (fewer than 1,000 shards, all local, folder
/// writable). One process calls it before any rank opens the source. Returns whether the data has a complete index
/// afterwards. A damaged shard throws DataError.
bool prepare_index(const SourceConfig& config, int64_t num_threads);

}  // namespace lockstep::data
