#pragma once
#include "nn/transformer.h"

namespace lockstep::models {

/// The blocks of a tower of CLIP (config::VisionShape or config::TextShape).
template <typename Tower> nn::BlockShape block_shape(const Tower& tower, int64_t heads, bool has_quick_gelu) {
  return {.width = tower.width,
          .heads = heads,
          .mlp_width = tower.mlp_width(),
          .activation = has_quick_gelu        ? nn::Activation::kQuickGelu
                        : tower.has_tanh_gelu ? nn::Activation::kGeluTanh
                                              : nn::Activation::kGelu,
          .has_layer_scale = tower.layer_scale.has_value(),
          .norm_epsilon = tower.norm_epsilon};
}

}  // namespace lockstep::models
