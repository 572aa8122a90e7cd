#pragma once
#include <cstdint>
#include <filesystem>

#include "data/demo_set.h"

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

/// make_demo_set with members KEY.jpg, KEY.txt, KEY.cls, KEY.json and held-out pictures KEY.jpg.
DemoSetResult make_shapes(const MakeShapesConfig& config);

}  // namespace lockstep::data
