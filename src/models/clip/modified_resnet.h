#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "nn/conv.h"
#include "nn/layers.h"

namespace lockstep::models {

/// Bottleneck whose stride is an average pool in front of the third convolution (and of the shortcut's).
class Bottleneck : public nn::Module {
 public:
  Bottleneck(int64_t inputs, int64_t planes, int64_t stride, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX);
  std::vector<nn::BatchNorm2d*> batch_norms();

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNorm2d bn3_;
  std::optional<nn::Conv2d> shortcut_conv_;
  std::optional<nn::BatchNorm2d> shortcut_norm_;
  int64_t stride_;
};

/// Pools a feature map by attention of its mean over all its cells.
class AttentionPool : public nn::Module {
 public:
  AttentionPool(int64_t tokens, int64_t width, int64_t heads, int64_t embed_dim, bool exact_shortcuts,
                const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX) const;  ///< [B, E]

 private:
  at::Tensor positional_embedding_;
  nn::Linear k_proj_, q_proj_, v_proj_, c_proj_;
  int64_t heads_;
  bool exact_shortcuts_;
};

/// OpenCLIP's ModifiedResNet: three-convolution stem, four stages of bottlenecks, attention pool.
class ModifiedResNet final : public ImageTower {
 public:
  ModifiedResNet(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void synchronize_batch_norm(comm::Comm* comm) override;
  void freeze_batch_norm() override;

 private:
  at::Tensor stem(const at::Tensor& image_BCYX);
  std::vector<nn::BatchNorm2d*> batch_norms();

  int64_t image_size_;
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNorm2d bn3_;
  std::vector<std::unique_ptr<Bottleneck>> blocks_;
  AttentionPool attnpool_;
};

}  // namespace lockstep::models
