#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "config/image_towers/swin.h"
#include "models/clap/swin.h"
#include "models/clip/image_tower.h"
#include "models/clip/timm_head.h"
#include "nn/patch_embedding.h"

namespace lockstep::models {

/// timm's Swin as OpenCLIP builds it: "trunk" and "head". Its blocks are those of HTSAT.
class SwinTower final : public ImageTower {
 public:
  SwinTower(const config::ClipShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }

 private:
  struct Stage {
    std::optional<PatchMerging> downsample;
    std::vector<std::unique_ptr<SwinBlock>> blocks;
    TokenPermutation before_stage;         ///< Of the stage's input.
    std::vector<TokenPermutation> before;  ///< Of each block's input.
    at::Tensor mask_WTT;                   ///< Of odd blocks; undefined where nothing is shifted.
  };
  void add_stage(const config::SwinStage& sizes, TokenOrder& order, const at::TensorOptions& options);
  at::Tensor run_block(const Stage& stage, size_t index, const at::Tensor& x_BNC, const DropPath& drop) const;

  config::VisionShape shape_;
  bool checkpointing_ = false;
  nn::PatchEmbedding patch_embed_;
  at::Tensor patch_bias_;
  nn::LayerNorm patch_norm_;
  std::vector<std::unique_ptr<Stage>> stages_;
  nn::LayerNorm norm_;
  TimmHead head_;
};

}  // namespace lockstep::models
