#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::models {

/// Stretches spectrograms along their frames by bicubic interpolation with aligned corners: at::upsample_bicubic2d() as
/// one product in fp32 with a fixed matrix, forward and backward. LibTorch's own gradient adds in no fixed order on
/// GPUs, and ends a run that is to be deterministic.
class FrameStretch {
 public:
  FrameStretch(int64_t num_out, const at::Device& device) : num_out_(num_out), device_(device) {}
  /// [B, M, frames] -> [B, M, num_out] of the same type, frames at most num_out.
  at::Tensor operator()(const at::Tensor& x_BMF);

 private:
  int64_t num_out_;
  at::Device device_;
  at::Tensor share_FO_;  ///< Of each frame in each of the result, for the number of frames that came last.
};

}  // namespace lockstep::models
