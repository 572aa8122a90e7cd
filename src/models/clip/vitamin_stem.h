#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/biased_conv.h"
#include "models/clip/timm_stem.h"

namespace lockstep::models {

/// timm's MbConvLNBlock: norm, a convolution to four times the channels, one of each channel alone, one back, with GELU
/// between them; beside it the input, averaged where the block halves the picture.
class MobileConvBlock final : public nn::Module {
 public:
  MobileConvBlock(int64_t in, int64_t out, int64_t stride, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX) const;

 private:
  int64_t stride_;
  std::optional<BiasedConv> expand_;
  nn::LayerNorm pre_norm_;
  BiasedConv conv1_, conv2_, conv3_;
};

/// timm's MbConvStages: the first half of ViTamin, from pictures to tokens.
class VitaminStem final : public PictureStem {
 public:
  VitaminStem(const config::VisionShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX) override;

 private:
  BiasedConv conv1_;
  nn::LayerNorm norm1_;
  BiasedConv conv2_;
  std::vector<std::unique_ptr<MobileConvBlock>> blocks_;
  BiasedConv proj_;
  nn::LayerNorm norm_;
};

}  // namespace lockstep::models
