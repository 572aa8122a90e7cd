#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/biased_conv.h"
#include "models/clip/image_tower.h"
#include "models/clip/timm_head.h"

namespace lockstep::models {

/// timm's ConvNeXtBlock: x + gamma mlp(norm(depthwise x)).
class ConvNextBlock final : public nn::Module {
 public:
  ConvNextBlock(int64_t width, double norm_epsilon, const at::TensorOptions& options);
  /// `kept_B111`: which samples keep the branch (0, or 1 / what is left of 1); undefined: all do.
  at::Tensor forward(const at::Tensor& x_BCYX, const at::Tensor& kept_B111) const;

 private:
  at::Tensor gamma_;
  BiasedConv conv_dw_;
  nn::LayerNorm norm_;
  nn::Linear fc1_, fc2_;
};

/// The ConvNeXt tower as OpenCLIP builds it from timm: "trunk" and "head".
class ConvNext final : public ImageTower {
 public:
  ConvNext(const config::ClipShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }

 private:
  struct Stage {
    std::optional<nn::LayerNorm> downsample_norm;
    std::optional<BiasedConv> downsample;
    std::vector<std::unique_ptr<ConvNextBlock>> blocks;
  };
  void add_stage(int64_t index, const at::TensorOptions& options);

  config::VisionShape shape_;
  bool checkpointing_ = false;
  BiasedConv stem_;
  nn::LayerNorm stem_norm_;
  std::vector<std::unique_ptr<Stage>> stages_;
  nn::LayerNorm head_norm_;
  TimmHead head_;
};

}  // namespace lockstep::models
