#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "config/imagenet_models.h"
#include "models/imagenet/classifier.h"
#include "nn/attention.h"
#include "nn/layers.h"
#include "nn/norm.h"
#include "nn/patch_embedding.h"

namespace lockstep::models {

/// Pre-norm block: x + attention(ln_1 x), then + mlp(ln_2 x).
class EncoderBlock : public nn::Module {
 public:
  EncoderBlock(const config::ClassifierShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BTD) const;
  /// forward() at the first position alone: [B, D].
  at::Tensor forward_first(const at::Tensor& x_BTD) const;

 private:
  at::Tensor finish(const at::Tensor& x, const at::Tensor& attended) const;

  nn::Norm ln_1_;
  nn::MultiHeadAttention self_attention_;
  nn::Norm ln_2_;
  nn::Linear mlp_0_, mlp_3_;
};

/// torchvision's VisionTransformer without dropout: patches, class token, position embedding, blocks, norm and linear
/// layer of the class token.
class VisionClassifier final : public Classifier {
 public:
  VisionClassifier(const config::ClassifierShape& shape, const ClassifierOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX) override;

 private:
  int64_t image_pixels_, width_;
  at::Tensor class_token_;
  nn::PatchEmbedding conv_proj_;
  at::Tensor conv_proj_bias_, pos_embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  nn::Norm ln_;
  nn::Linear head_;
};

}  // namespace lockstep::models
