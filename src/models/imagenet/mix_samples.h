#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

#include "core/rng.h"

namespace lockstep::models {

/// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019) of a micro-batch with itself, as torchvision's reference
/// recipes do it. 0: without; with both one of them is drawn for each micro-batch.
struct MixOptions {
  double mixup_alpha = 0, cutmix_alpha = 0;
};

/// Pictures of two samples in one.
struct MixedSamples {
  at::Tensor image_BCYX;
  at::Tensor other_label_B = {};  ///< Of the sample before each one (of the last for the first); undefined: not mixed.
  double own_share = 1;           ///< Of its own label in the target.
};

/// Where a sample is replaced: columns [x_begin, x_end) of rows [y_begin, y_end).
struct CutBox {
  int64_t x_begin = 0, x_end = 0, y_begin = 0, y_end = 0;
};

/// The draws are a function of `random_key` alone.
MixedSamples mix_samples(const at::Tensor& image_BCYX, const at::Tensor& label_B, const MixOptions& options,
                         uint64_t random_key);

/// A box of the share 1 - `own_share` of the picture around a random cell, cut at the edges.
CutBox draw_cut_box(int64_t width, int64_t height, double own_share, core::CounterRng& rng);

/// One draw of Beta(alpha, alpha), alpha > 0.
double draw_beta(double alpha, core::CounterRng& rng);

}  // namespace lockstep::models
