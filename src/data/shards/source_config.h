#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/shards/sample.h"

namespace lockstep::data {

/// Names of the kinds of data that code asks for by name; all kinds stand in the table of train_stream.cpp.
struct DatasetType {
  static constexpr const char *kAuto = "auto", *kWebDataset = "webdataset", *kCsv = "csv", *kSynthetic = "synthetic",
                              *kSyntheticAudio = "synthetic-audio", *kImageFolder = "imagefolder", *kLmdb = "lmdb";
};
enum class DataOrder { kLockstep, kOpenClip };
enum class IndexUse { kAuto, kOff, kRequire };  ///< kAuto: used where every shard has a fresh side-car.

/// All that decides which samples a rank sees, and in which order.
struct SourceConfig {
  std::string spec;  ///< Brace list of shards, several joined with "::"; path of a CSV; class folders; an LMDB; ""
                     ///< synthetic.
  std::string type = DatasetType::kAuto;  ///< kAuto: .csv/.tsv -> CSV, .tar or "pipe:" -> WebDataset, a folder ->
                                          ///< ImageFolder, or LMDB where data.mdb is in it.
  std::string upsampling_factors;         ///< "::"-joined, one per source of `spec`; needs `resampled`.
  bool resampled = false;                 ///< Shards are drawn with replacement.
  int64_t num_samples = 0;                ///< --train-num-samples; 0: not given.
  int64_t num_repeats = 1;  ///< Training and its epoch only: the data stand so many times in an epoch, one after the
                            ///< other where shuffle is off.
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t global_batch = 1;  ///< Samples of one optimiser step; a multiple of world_size.
  int64_t num_lanes = 64;
  bool shuffle = true;            ///< false: shards and samples in the order given.
  int64_t shuffle_window = 5000;  ///< Samples held for shuffling over all lanes of all ranks.
  DataOrder order = DataOrder::kLockstep;
  int64_t num_workers = 4;       ///< Streams per rank; used by DataOrder::kOpenClip only.
  int64_t micro_batch_size = 0;  ///< Micro-batch; used by DataOrder::kOpenClip only.
  bool need_image = true;        ///< WebDataset samples without one of image_keys are left out and counted.
  bool need_audio = false;       ///< The same with audio_keys; class folders then hold sounds, not pictures.
  bool need_text = true;
  bool need_label = false;  ///< The label is the number in the member "cls", or in the CSV's column csv_label_key.
  bool numbered_classes = false;  ///< Class folders are named by the class's number; else the n-th by name is class n.
  int64_t num_classes = 0;  ///< With need_label: a label from here on is refused; synthetic data draw theirs below. 0:
                            ///< not known (synthetic data then have no labels).
  std::vector<std::string> image_keys = default_image_keys();
  std::vector<std::string> audio_keys = default_audio_keys();
  std::vector<std::string> text_keys = {"txt"};
  std::string csv_separator = "\t";
  std::string csv_image_key = "filepath";
  std::string csv_caption_key = "title";
  std::string csv_label_key = "label";
  int64_t synthetic_pixels = 224;  ///< Height and width of the synthetic image.
  std::string index_dir;           ///< Folder of side-cars; "": beside the shards.
  IndexUse index = IndexUse::kAuto;
  bool keep_lost = false;  ///< Samples lost to damage in a shard keep their place in the stream, with
                           ///< RawSample::damage; false: DataError at the first of them.
  bool allow_pipe = true;  ///< false: a "pipe:" shard is a UsageError.
};

/// What to do about a data set that does not fill one global batch.
inline constexpr const char* kTooFewSamplesHint =
    "use a smaller --batch-size, --global-batch-size or --accum-freq, or more data";

}  // namespace lockstep::data
