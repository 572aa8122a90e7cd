#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/source.h"
#include "data/shards/source_config.h"

namespace lockstep::data {

/// Samples that can be had in any order: row i of num_rows. `row` is a pure, thread-safe function.
struct RowTable {
  int64_t num_rows = 0;
  std::string fingerprint;
  std::string format = {};  ///< DatasetType of the data, which positions tell; "": not told.
  std::function<RawSample(int64_t row)> row;
};

/// config.spec as a CSV: the caption is member "txt" (where config.need_text), the label is the number in its column
/// (where config.need_label), the picture or recording is read from its file later. Relative paths count from the
/// working folder, or from the CSV's folder where the first row's file is only there.
RowTable open_csv(const SourceConfig& config);
/// config.spec as a folder with one folder per class; classes by name, files by folder and name (torchvision's order).
/// Pictures, or recordings where config.need_audio. Folders whose name begins with a dot are left out, in class folders
/// too, which a warning tells once.
RowTable open_class_folders(const SourceConfig& config);
/// Names of the class folders in label order, without hidden ones. DataError when there are none, and where `folder` is
/// one too high: its folders are named like parts of a data set (train, val, test), or hold nothing but folders.
std::vector<std::string> image_folder_classes(const std::string& folder);
/// num_samples JPEGs of synthetic_pixels square with the caption "Dummy caption": all black, or where labels are needed
/// 2 to 16 different ones in turn, each with a label below num_classes.
RowTable open_synthetic(const SourceConfig& config);
/// num_samples times noise, 65,536 different ones in turn, with the caption "Dummy caption". A row holds a key only
/// (member kNoiseExtension); the decoder makes the noise.
RowTable open_synthetic_audio(const SourceConfig& config);

/// Training: every row once per epoch in an order keyed by (seed, epoch), rounded down to whole global batches. Exact
/// O(1) seek on any world size.
std::unique_ptr<SampleSource> make_row_train_source(RowTable table, const SourceConfig& config);
/// Evaluation: rows rank, rank + world_size, ... once.
std::unique_ptr<SampleSource> make_row_eval_source(RowTable table, const SourceConfig& config);

}  // namespace lockstep::data
