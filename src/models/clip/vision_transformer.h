#pragma once
#include <ATen/core/TensorBody.h>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "nn/patch_embedding.h"
#include "nn/transformer.h"

namespace lockstep::models {

/// OpenCLIP's VisionTransformer: patches, class token, position embedding, patch dropout, norm, blocks, norm of the
/// class token, projection.
class VisionTransformer final : public ImageTower {
 public:
  VisionTransformer(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { transformer_.set_checkpointing(checkpointing); }

 private:
  config::VisionShape shape_;
  bool exact_shortcuts_;
  nn::PatchEmbedding conv1_;
  at::Tensor class_embedding_, positional_embedding_;
  nn::LayerNorm ln_pre_;
  nn::Transformer transformer_;
  nn::LayerNorm ln_post_;
  at::Tensor proj_;
};

/// Patches that patch dropout keeps, in ascending order: [num_samples, max(1, floor(num_patches (1 - dropout)))] int64
/// on the CPU. Row b is a uniform draw without replacement that depends on (random_key, b) alone.
at::Tensor kept_patches(int64_t num_samples, int64_t num_patches, double dropout, uint64_t random_key);

}  // namespace lockstep::models
