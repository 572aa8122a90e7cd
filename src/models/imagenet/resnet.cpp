// Letters: B micro-batch, C channels, Y, X pixels or cells, D features.
#include "models/imagenet/resnet.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/max_pool2d.h>

namespace lockstep::models {

ResnetBlock::ResnetBlock(const config::ResidualBlockShape& block, const config::ClassifierShape& shape,
                         const at::TensorOptions& options)
    : conv1_(block.inputs, block.planes, shape.is_bottleneck ? 1 : 3, options, shape.is_bottleneck ? 1 : block.stride,
             shape.is_bottleneck ? 0 : 1),
      bn1_(block.planes, options),
      conv2_(block.planes, block.planes, 3, options, shape.is_bottleneck ? block.stride : 1, /*padding=*/1),
      bn2_(block.planes, options) {
  const int64_t outputs = block.planes * shape.expansion();
  register_child("conv1", conv1_);
  register_child("bn1", bn1_);
  register_child("conv2", conv2_);
  register_child("bn2", bn2_);
  if (shape.is_bottleneck) {
    register_child("conv3", conv3_.emplace(block.planes, outputs, 1, options));
    register_child("bn3", bn3_.emplace(outputs, options));
  }
  declare_unit();
  if (!block.has_projection) return;
  register_child("downsample.0", projection_.emplace(block.inputs, outputs, 1, options, block.stride));
  register_child("downsample.1", projection_norm_.emplace(outputs, options));
}

at::Tensor ResnetBlock::forward(const at::Tensor& x_BCYX) {
  about_to_run();
  if (projection_) {
    const auto [projected, x] = projection_->forward_and_input(x_BCYX);
    return forward_behind_first(conv1_.forward(x), projection_norm_->forward(projected));
  }
  const auto [first, x] = conv1_.forward_and_input(x_BCYX);
  return forward_behind_first(first, x);
}

at::Tensor ResnetBlock::forward_behind_first(const at::Tensor& first_BCYX, const at::Tensor& shortcut_BCYX) {
  const at::Tensor y = conv2_.forward(bn1_.forward_relu(first_BCYX));
  return conv3_ ? bn3_->forward_add_relu(conv3_->forward(bn2_.forward_relu(y)), shortcut_BCYX)
                : bn2_.forward_add_relu(y, shortcut_BCYX);
}

std::vector<nn::BatchNorm2d*> ResnetBlock::batch_norms() {
  std::vector<nn::BatchNorm2d*> norms{&bn1_, &bn2_};
  if (bn3_) norms.push_back(&*bn3_);
  if (projection_norm_) norms.push_back(&*projection_norm_);
  return norms;
}

Resnet::Resnet(const config::ClassifierShape& shape, const ClassifierOptions& options)
    : conv1_(3, shape.width, 7, options.tensors, /*stride=*/2, /*padding=*/3), bn1_(shape.width, options.tensors),
      fc_(shape.feature_width(), shape.num_classes, options.tensors) {
  register_child("conv1", conv1_);
  register_child("bn1", bn1_);
  for (const config::ResidualBlockShape& block : config::residual_blocks(shape)) {
    blocks_.push_back(std::make_unique<ResnetBlock>(block, shape, options.tensors));
    register_child(block.name, *blocks_.back());
  }
  register_child("fc", fc_);
  for (nn::BatchNorm2d* norm : batch_norms()) {
    norm->synchronize(options.batch_norm_ranks);
    if (options.freezes_statistics) norm->freeze_statistics();
  }
}

at::Tensor Resnet::forward(const at::Tensor& image_BCYX) {
  at::Tensor x = bn1_.forward_relu(conv1_.forward(image_BCYX));
  x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
  for (const auto& block : blocks_) x = block->forward(x);
  return fc_.forward(x.mean(at::IntArrayRef{2, 3}));
}

std::vector<nn::BatchNorm2d*> Resnet::batch_norms() {
  std::vector<nn::BatchNorm2d*> norms{&bn1_};
  for (const auto& block : blocks_)
    for (nn::BatchNorm2d* norm : block->batch_norms()) norms.push_back(norm);
  return norms;
}

}  // namespace lockstep::models
