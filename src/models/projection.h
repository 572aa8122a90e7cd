#pragma once
#include <ATen/core/TensorBody.h>

#include <optional>

#include "config/roberta_shape.h"
#include "nn/layers.h"

namespace lockstep::models {

/// Features to the shared space, under the names that torch.nn.Sequential gives ("0", "2").
class Projection : public nn::Module {
 public:
  Projection(int64_t in, int64_t out, const config::ProjectionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  config::ProjectionShape shape_;
  std::optional<nn::Linear> first_, second_;
};

}  // namespace lockstep::models
