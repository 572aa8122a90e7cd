#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

namespace lockstep::models {

/// SpecAugment (Park et al. 2019) as HTSAT trains with it: 1 outside, 0 inside of two stripes of less than 64 frames
/// and two of less than 8 mel bins, drawn for each clip as a function of (random_key, clip). [B, M, frames], fp32, on
/// the CPU.
at::Tensor spec_augment_mask(int64_t num_clips, int64_t mel_bins, int64_t frames, uint64_t random_key);

}  // namespace lockstep::models
