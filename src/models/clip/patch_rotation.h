#pragma once
#include <ATen/core/TensorBody.h>

#include "config/clip_shape.h"

namespace lockstep::models {

/// Sines and cosines of the rotation of each patch's queries and keys, [P, K].
struct PatchRotation {
  at::Tensor sin_PK, cos_PK;
};

PatchRotation make_rotation(const config::RotaryCells& rotary, int64_t cells, int64_t head_width,
                            const at::TensorOptions& options);

/// Turns neighbours (2 i, 2 i + 1) of each patch's row by its angles; the `num_others` tokens in front of them stay.
at::Tensor rotated(const at::Tensor& x_BHTK, const PatchRotation& rotation, int64_t num_others);

}  // namespace lockstep::models
