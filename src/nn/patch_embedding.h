#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/module.h"
#include "nn/packed_linear.h"

namespace lockstep::nn {

/// Convolution of 3 colours whose stride is its kernel, without bias: one product per patch. Parameter `weight` [D, 3,
/// p, p].
class PatchEmbedding : public Module {
 public:
  PatchEmbedding(int64_t width, int64_t patch_size, const at::TensorOptions& options);
  /// [B, 3, Y, X] -> [B, P, D], row by row. With kept_BP (int64 patch numbers) only those patches, [B, kept, D].
  at::Tensor forward(const at::Tensor& image_BCYX, const at::Tensor& kept_BP) const;
  void prepare_inference(std::optional<at::ScalarType> type) override;

 private:
  at::Tensor weight_;
  PackedLinear packed_;
  int64_t patch_size_;
};

}  // namespace lockstep::nn
