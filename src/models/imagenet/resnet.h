#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/imagenet_models.h"
#include "models/imagenet/classifier.h"
#include "nn/conv.h"
#include "nn/layers.h"

namespace lockstep::models {

/// A residual block: of two 3x3 convolutions, or of 1x1, 3x3 and 1x1 (v1.5: the 3x3 has the stride).
class ResnetBlock : public nn::Module {
 public:
  ResnetBlock(const config::ResidualBlockShape& block, const config::ClassifierShape& shape,
              const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX);
  std::vector<nn::BatchNorm2d*> batch_norms();

 private:
  /// What follows the first convolution, with what is added at the end.
  at::Tensor forward_behind_first(const at::Tensor& first_BCYX, const at::Tensor& shortcut_BCYX);

  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  std::optional<nn::Conv2d> conv3_;
  std::optional<nn::BatchNorm2d> bn3_;
  std::optional<nn::Conv2d> projection_;
  std::optional<nn::BatchNorm2d> projection_norm_;
};

/// torchvision's ResNet: 7x7 convolution, max pool, four stages of blocks, mean over all cells, linear layer.
class Resnet final : public Classifier {
 public:
  Resnet(const config::ClassifierShape& shape, const ClassifierOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX) override;

 private:
  std::vector<nn::BatchNorm2d*> batch_norms();

  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  std::vector<std::unique_ptr<ResnetBlock>> blocks_;
  nn::Linear fc_;
};

}  // namespace lockstep::models
