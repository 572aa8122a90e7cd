// Letters: B micro-batch, C channels, Y = X cells.
#include "models/clip/convnext.h"

#include <ATen/core/Tensor.h>

#include <numeric>
#include <string>

#include "config/image_towers/convnext.h"
#include "core/error.h"
#include "models/clip/drop_path.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kConvNextDropStream = 0x636e7864;  // "cnxd": apart from other draws under the same key

}  // namespace

ConvNextBlock::ConvNextBlock(int64_t width, double norm_epsilon, const at::TensorOptions& options)
    : gamma_(nn::make_parameter({width}, options)),
      conv_dw_(width, width, /*kernel=*/7, /*stride=*/1, /*padding=*/3, /*is_depthwise=*/true, options),
      norm_(width, options, norm_epsilon), fc1_(width, 4 * width, options), fc2_(4 * width, width, options) {
  register_parameter("gamma", gamma_);
  register_child("conv_dw", conv_dw_);
  register_child("norm", norm_);
  register_child("mlp.fc1", fc1_);
  register_child("mlp.fc2", fc2_);
  declare_unit();
}

at::Tensor ConvNextBlock::forward(const at::Tensor& x_BCYX, const at::Tensor& kept_B111) const {
  about_to_run();
  const at::Tensor y_BYXC = norm_.forward(conv_dw_.forward(x_BCYX).permute({0, 2, 3, 1}));
  const at::Tensor z_BYXC = fc2_.forward(fc1_.forward_activated(y_BYXC, nn::Activation::kGelu));
  const at::Tensor branch_BCYX = z_BYXC.mul(gamma_.to(z_BYXC.scalar_type())).permute({0, 3, 1, 2});
  return x_BCYX.add(kept_B111.defined() ? branch_BCYX.mul(kept_B111.to(branch_BCYX.scalar_type())) : branch_BCYX);
}

ConvNext::ConvNext(const config::ClipShape& shape, const at::TensorOptions& options)
    : shape_(shape.vision), stem_(3, shape.vision.width, /*kernel=*/4, /*stride=*/4, /*padding=*/0,
                                  /*is_depthwise=*/false, options),
      stem_norm_(shape.vision.width, options, shape.vision.norm_epsilon),
      head_norm_(shape.vision.feature_width(), options, shape.vision.norm_epsilon),
      head_(shape.vision.feature_width(), shape.embed_dim, shape.vision.head, options) {
  register_child("trunk.stem.0", stem_);
  register_child("trunk.stem.1", stem_norm_);
  for (int64_t i = 0; i < std::ssize(shape_.stages); ++i) add_stage(i, options);
  register_child("trunk.head.norm", head_norm_);
  register_child("head", head_);
}

void ConvNext::add_stage(int64_t index, const at::TensorOptions& options) {
  const int64_t width = shape_.width << index;
  const std::string name = "trunk.stages." + std::to_string(index);
  stages_.push_back(std::make_unique<Stage>());
  Stage& stage = *stages_.back();
  if (index > 0) {
    register_child(name + ".downsample.0", stage.downsample_norm.emplace(width / 2, options, shape_.norm_epsilon));
    register_child(name + ".downsample.1", stage.downsample.emplace(width / 2, width, /*kernel=*/2, /*stride=*/2,
                                                                    /*padding=*/0, /*is_depthwise=*/false, options));
  }
  for (int64_t i = 0; i < shape_.stages[static_cast<size_t>(index)]; ++i) {
    stage.blocks.push_back(std::make_unique<ConvNextBlock>(width, shape_.norm_epsilon, options));
    register_child(name + ".blocks." + std::to_string(i), *stage.blocks.back());
  }
}

at::Tensor ConvNext::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  const int64_t num_blocks = std::accumulate(shape_.stages.begin(), shape_.stages.end(), int64_t{0});
  int64_t number = 0;
  const auto draw_kept = [&]() -> at::Tensor {
    if (!is_training()) return {};
    return kept_branch({shape_.drop_path, number, num_blocks, kConvNextDropStream}, image_BCYX, /*dims=*/4, context);
  };
  at::Tensor x = norm_channels(stem_norm_, stem_.forward(image_BCYX));
  for (const auto& stage : stages_) {
    if (stage->downsample) x = stage->downsample->forward(norm_channels(*stage->downsample_norm, x));
    for (const auto& block : stage->blocks) {
      const auto compute = [&block = *block, kept = draw_kept()](const at::Tensor& in) {
        return block.forward(in, kept);
      };
      x = checkpointing_ ? nn::recomputed(*block, x, compute) : compute(x);
      ++number;
    }
  }
  return head_.forward(head_norm_.forward(x.mean({2, 3})));
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::ConvNextTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::ConvNext>(shape, options.tensors);
}
