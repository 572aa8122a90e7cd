#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/layers.h"

namespace lockstep::models {

/// Convolution with bias whose groups are one, or as many as channels.
class BiasedConv final : public nn::Module {
 public:
  BiasedConv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool is_depthwise,
             const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX) const;

 private:
  at::Tensor weight_, bias_;
  int64_t stride_, padding_, groups_;
};

/// Norm over the channels of each cell.
at::Tensor norm_channels(const nn::LayerNorm& norm, const at::Tensor& x_BCYX);

}  // namespace lockstep::models
