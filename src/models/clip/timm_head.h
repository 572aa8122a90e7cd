#pragma once
#include <ATen/core/TensorBody.h>

#include <optional>

#include "config/roberta_shape.h"
#include "nn/layers.h"

namespace lockstep::models {

/// What OpenCLIP's TimmModel puts behind a tower of timm: nothing, "proj", or "mlp" (fc1, GELU, fc2).
class TimmHead final : public nn::Module {
 public:
  TimmHead(int64_t in, int64_t out, const config::ProjectionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  std::optional<nn::Linear> proj_, fc1_, fc2_;
};

}  // namespace lockstep::models
