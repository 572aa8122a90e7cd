#pragma once
#include <ATen/core/TensorBody.h>

#include <optional>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "nn/patch_embedding.h"
#include "nn/transformer.h"

namespace lockstep::models {

/// OpenCLIP's VisionTransformer: patches, class token, position embedding (learned or fixed), patch dropout, norm,
/// blocks, pooling (class token, mean of the patches, or a learned query's attention), norm and projection.
class VisionTransformer final : public ImageTower {
 public:
  VisionTransformer(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  ImageFeatures forward_with_tokens(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { transformer_.set_checkpointing(checkpointing); }

 private:
  /// What goes into the blocks.
  at::Tensor embed(const at::Tensor& image_BCYX, const ForwardContext& context) const;
  /// The blocks' tokens through the attentional pooler and the norm; of the first `num_queries` queries.
  at::Tensor attentional_pool(const at::Tensor& x_BTD, int64_t num_queries) const;
  at::Tensor mean_of_patches(const at::Tensor& x_BTD) const;

  config::VisionShape shape_;
  bool exact_shortcuts_;
  nn::PatchEmbedding conv1_;
  at::Tensor class_embedding_, positional_embedding_;
  std::optional<nn::LayerNorm> ln_pre_;
  nn::Transformer transformer_;
  std::optional<nn::AttentionalPooler> attn_pool_;
  nn::LayerNorm ln_post_;
  at::Tensor proj_;
};

/// Patches that patch dropout keeps, in ascending order: [num_samples, max(1, floor(num_patches (1 - dropout)))] int64
/// on `device`, drawn on the host, which does not wait for the copy. Row b is a uniform draw without replacement that
/// depends on (random_key, b) alone.
at::Tensor kept_patches(int64_t num_samples, int64_t num_patches, double dropout, uint64_t random_key,
                        at::Device device = at::kCPU);

}  // namespace lockstep::models
