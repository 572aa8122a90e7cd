#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "models/clip/timm_head.h"
#include "nn/patch_embedding.h"

namespace lockstep::models {

/// timm's Mlp: fc1, GELU, fc2.
class TimmMlp final : public nn::Module {
 public:
  TimmMlp(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear fc1_, fc2_;
  nn::Activation activation_;
};

/// timm's pre-norm block: x + attn(norm1 x), then + mlp(norm2 x).
class TimmBlock final : public nn::Module {
 public:
  TimmBlock(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD) const;

 private:
  nn::LayerNorm norm1_;
  nn::Linear qkv_, proj_;
  nn::LayerNorm norm2_;
  TimmMlp mlp_;
  int64_t heads_;
};

/// timm's AttentionPoolLatent with one query: y = attn(latent, x), then y + mlp(norm y).
class LatentPool final : public nn::Module {
 public:
  LatentPool(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD) const;  ///< [B, D]

 private:
  at::Tensor latent_;
  nn::Linear q_, kv_, proj_;
  nn::LayerNorm norm_;
  TimmMlp mlp_;
  int64_t heads_;
};

/// The image tower of SigLIP as OpenCLIP builds it from timm: "trunk" and "head".
class TimmVit final : public ImageTower {
 public:
  TimmVit(const config::ClipShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }

 private:
  config::VisionShape shape_;
  bool checkpointing_ = false;
  nn::PatchEmbedding patch_embed_;
  at::Tensor patch_bias_, pos_embed_;
  std::vector<std::unique_ptr<TimmBlock>> blocks_;
  nn::LayerNorm norm_;
  LatentPool attn_pool_;
  TimmHead head_;
};

}  // namespace lockstep::models
