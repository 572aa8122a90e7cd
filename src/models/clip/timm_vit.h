#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "models/clip/patch_rotation.h"
#include "models/clip/relative_bias.h"
#include "models/clip/timm_head.h"
#include "models/clip/timm_stem.h"
#include "nn/patch_embedding.h"

namespace lockstep::models {

/// timm's Mlp: fc1, GELU, fc2.
class TimmMlp final : public nn::Module {
 public:
  TimmMlp(const config::VisionShape& shape, int64_t mlp_width, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear fc1_, fc2_;
  nn::Activation activation_;
};

/// timm's GeGluMlp: w2(GELU(w0 y) w1 y) of a norm y.
class TimmGatedMlp final : public nn::Module {
 public:
  TimmGatedMlp(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::LayerNorm norm_;
  nn::Linear w0_, w1_, w2_;
};

/// Where patches lie, as attention reads it; undefined where the shape does not have it.
struct PatchPlaces {
  PatchRotation rotation;
  RelativePlaces relative;
};

/// What a block draws at random.
struct BlockDraws {
  at::Tensor kept_attention, kept_mlp;  ///< Factors of its branches, [B, 1, 1]; undefined: 1.
  nn::Dropout positions;                ///< Of the MLP of relative positions.
};

/// timm's attention of a block, with rotary or relative positions where the shape has them.
class TimmAttention final : public nn::Module {
 public:
  TimmAttention(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD, const PatchPlaces& places, const nn::Dropout& position_dropout) const;

 private:
  at::Tensor q_bias_, v_bias_;  ///< Defined where keys have no bias.
  nn::Linear qkv_, proj_;
  std::optional<RelativeBias> rel_pos_;
  int64_t heads_, num_others_;  ///< Tokens that are no patches.
};

/// timm's block: x + ls1(attn(norm1 x)), then + ls2(mlp(norm2 x)); or with each norm behind its branch. Scales are
/// where the shape has them.
class TimmBlock final : public nn::Module {
 public:
  TimmBlock(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD, const PatchPlaces& places, const BlockDraws& draws) const;

 private:
  at::Tensor mlp(const at::Tensor& x) const { return mlp_ ? mlp_->forward(x) : gated_mlp_->forward(x); }

  bool norms_follow_;
  nn::LayerNorm norm1_;
  TimmAttention attn_;
  std::optional<nn::LayerScale> ls1_;
  nn::LayerNorm norm2_;
  std::optional<TimmMlp> mlp_;
  std::optional<TimmGatedMlp> gated_mlp_;
  std::optional<nn::LayerScale> ls2_;
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

/// A vision transformer of timm as OpenCLIP builds it: "trunk", and "head" where that is not the trunk's own.
class TimmVit final : public ImageTower {
 public:
  TimmVit(const config::ClipShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }
  void synchronize_batch_norm(comm::Comm* comm) override;
  void freeze_batch_norm() override;

 private:
  /// What goes into the blocks.
  at::Tensor embed(const at::Tensor& image_BCYX, const ForwardContext& context);
  /// Position embeddings of the patches, [1, P, D], or [B, P, D] of the kept ones.
  at::Tensor patch_positions(const at::Tensor& kept_BP) const;
  BlockDraws draw(int64_t block, const at::Tensor& x_BTD, const ForwardContext& context) const;
  at::Tensor pooled(const at::Tensor& x_BTD) const;

  config::VisionShape shape_;
  bool checkpointing_ = false;
  PatchPlaces places_;
  at::Tensor cls_token_, pos_embed_;
  std::optional<nn::PatchEmbedding> patch_embed_;
  at::Tensor patch_bias_;
  std::unique_ptr<PictureStem> stem_;
  std::optional<nn::LayerNorm> norm_pre_;
  std::vector<std::unique_ptr<TimmBlock>> blocks_;
  nn::LayerNorm norm_;
  std::optional<LatentPool> attn_pool_;
  std::optional<nn::Linear> own_head_;
  std::optional<TimmHead> head_;
};

}  // namespace lockstep::models
