#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/json.h"

namespace lockstep::data {

/// A demo data set: pictures of one shape of one colour each (28 classes: 4 shapes, 7 colours), with captions.
struct MakeShapesConfig {
  std::filesystem::path output = {};  ///< Folder; made when missing.
  int64_t num_train = 20000;          ///< Samples in train-*.tar.
  int64_t num_val = 1500;             ///< Samples in val-*.tar, and again as many other pictures in heldout/.
  int64_t samples_per_shard = 1000;
  int image_pixels = 32;
  uint64_t seed = 0;
  int num_workers = 2;  ///< Threads; the files do not depend on it.
};

/// What lies in the folder afterwards.
struct MakeShapesResult {
  int64_t num_classes = 0;
  int64_t num_train = 0, num_val = 0, num_heldout = 0;  ///< Samples.
  int64_t num_train_shards = 0, num_val_shards = 0;
  int64_t num_bytes = 0;   ///< Of all shards.
  bool was_there = false;  ///< Found complete from an earlier call with the same settings; nothing was written.
  std::string train_shards = {}, val_shards = {};  ///< Paths with {first..last}, as --train-data and --val-data take them.
  std::filesystem::path heldout = {}, class_names = {}, templates = {};  ///< For --imagenet-val, --classnames, --templates.
};

core::Json to_json(const MakeShapesResult& result);

/// Writes train-NNNNNN.tar and val-NNNNNN.tar (WebDataset: KEY.jpg, KEY.txt, KEY.cls, KEY.json), sizes.json (samples of each
/// shard), heldout/<class>/KEY.jpg, classnames.txt, templates.txt, and dataset.json, which tells a finished data set from a
/// broken-off one. Every byte is a function of the settings without num_workers. Settings out of range, and a folder that holds
/// anything else, throw UsageError; a broken-off earlier call with the same folder is cleaned up and begun again.
MakeShapesResult make_shapes(const MakeShapesConfig& config);

}  // namespace lockstep::data
