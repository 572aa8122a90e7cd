#pragma once
#include <string>

#include "core/options.h"

namespace lockstep::config {

/// Fields of the options that say how a decoded sound becomes the model's input; shared by training and inference.
struct AudioFields {
  std::string* fill;
  std::string* trunc;
  bool* int16_normalize;
};
void declare_audio_options(core::OptionSet& set, const AudioFields& fields);

}  // namespace lockstep::config
