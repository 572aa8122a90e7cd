#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "models/clip/patch_rotation.h"
#include "nn/layers.h"
#include "nn/patch_embedding.h"

namespace lockstep::models {

/// timm's EvaBlock with scale_attn_inner and a gated MLP: x + proj(norm(attn(norm1 x))), then
/// + fc2(norm(silu(gate) * value)) of norm2.
class Eva02Block final : public nn::Module {
 public:
  Eva02Block(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD, const PatchRotation& rotation) const;

 private:
  at::Tensor attend(const at::Tensor& x_BTD, const PatchRotation& rotation) const;

  nn::LayerNorm norm1_;
  nn::Linear q_proj_, k_proj_, v_proj_;
  nn::LayerNorm attn_norm_;
  nn::Linear proj_;
  nn::LayerNorm norm2_;
  nn::Linear gate_, value_;
  nn::LayerNorm mlp_norm_;
  nn::Linear fc2_;
  int64_t heads_;
};

/// The image tower of EVA02-CLIP (B, L) as OpenCLIP takes it from timm: "trunk" with its own head.
class Eva02 final : public ImageTower {
 public:
  Eva02(const config::ClipShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }

 private:
  config::VisionShape shape_;
  bool checkpointing_ = false;
  PatchRotation rotation_;
  nn::PatchEmbedding patch_embed_;
  at::Tensor patch_bias_, cls_token_, pos_embed_;
  std::vector<std::unique_ptr<Eva02Block>> blocks_;
  nn::LayerNorm norm_;
  nn::Linear head_;
};

}  // namespace lockstep::models
