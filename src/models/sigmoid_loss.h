#pragma once
#include "models/contrastive_loss.h"

namespace lockstep::models {

/// Sigmoid loss of SigLIP (Zhai et al. 2023) over the pairs of all data ranks, in fp32:
///   1/N sum_ij softplus(-y_ij l_ij),   l_ij = s <I_i, T_j> + b,   y_ij = 1 where i = j, else -1.
///
/// image_BE, text_BE: L2-normalised features, equal B on all ranks. logit_scale: s itself, logit_bias: b, one element
/// each. Every pair counts by itself, so gradients are computed together with the loss where one is asked for, tile by
/// tile: `logit_bytes` of logits at a time, and two all-gathers forward (features; losses), none backward. OpenCLIP's
/// four ways to exchange texts (bidir, shift, reduce, gather) are this one sum.
ContrastiveLoss sigmoid_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                             const at::Tensor& logit_bias, comm::Comm& data_axis, int64_t logit_bytes);

}  // namespace lockstep::models
