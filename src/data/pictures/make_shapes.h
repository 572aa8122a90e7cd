#pragma once
#include <cstdint>

#include "data/demo_set.h"

namespace lockstep::data {

/// A demo data set: pictures of one shape of one colour each (28 classes: 4 shapes, 7 colours), with captions.
struct MakeShapesConfig {
  DemoSetOptions set = {.num_train = 20000, .num_val = 1500};
  int64_t image_pixels = 64;  ///< Height and width, 16 to 4096.
};

/// make_demo_set with members KEY.jpg, KEY.txt, KEY.cls, KEY.json and held-out pictures KEY.jpg.
DemoSetResult make_shapes(const MakeShapesConfig& config);

}  // namespace lockstep::data
