// Letters: B micro-batch, C width, Y = X pixels, N cells, W windows, T cells of a window.
#include "models/clip/swin_tower.h"

#include <ATen/core/Tensor.h>

#include <numeric>
#include <string>

#include "core/error.h"
#include "nn/recompute.h"

namespace lockstep::models {

SwinTower::SwinTower(const config::ClipShape& shape, const at::TensorOptions& options)
    : shape_(shape.vision), patch_embed_(shape_.width, shape_.patch_size, options),
      patch_bias_(nn::make_parameter({shape_.width}, options)), patch_norm_(shape_.width, options),
      norm_(shape_.feature_width(), options), head_(shape_.feature_width(), shape.embed_dim, shape_.head, options) {
  register_child("trunk.patch_embed.proj", patch_embed_);
  register_parameter("trunk.patch_embed.proj.bias", patch_bias_);
  register_child("trunk.patch_embed.norm", patch_norm_);
  const auto stages = config::swin_stages(shape_);
  TokenOrder order(static_cast<size_t>(stages.front().side * stages.front().side));
  std::iota(order.begin(), order.end(), 0);
  for (const config::SwinStage& stage : stages) add_stage(stage, order, options);
  register_child("trunk.norm", norm_);
  register_child("head", head_);
}

/// `order`: of the cells in front of the stage; behind it that of its last block.
void SwinTower::add_stage(const config::SwinStage& sizes, TokenOrder& order, const at::TensorOptions& options) {
  const std::string name = "trunk.layers." + std::to_string(sizes.index);
  stages_.push_back(std::make_unique<Stage>());
  Stage& stage = *stages_.back();
  const TokenOrder first = window_order(sizes.side, sizes.block.window, 0);
  if (sizes.index > 0) {
    stage.before_stage = TokenPermutation(order, merging_order(2 * sizes.side, first), options.device());
    register_child(name + ".downsample", stage.downsample.emplace(sizes.block.width / 2, options));
    order = first;
  }
  for (int64_t i = 0; i < sizes.depth; ++i) {
    const TokenOrder wanted = window_order(sizes.side, sizes.block.window, i % 2 == 1 ? sizes.shift() : 0);
    stage.before.emplace_back(order, wanted, options.device());
    order = wanted;
    stage.blocks.push_back(std::make_unique<SwinBlock>(sizes.block, options));
    register_child(name + ".blocks." + std::to_string(i), *stage.blocks.back());
  }
  stage.mask_WTT = shift_mask(sizes.side, sizes.block.window, sizes.shift());
  if (stage.mask_WTT.defined()) stage.mask_WTT = stage.mask_WTT.to(options.device());
}

at::Tensor SwinTower::run_block(const Stage& stage, size_t index, const at::Tensor& x_BNC, const DropPath& drop) const {
  SwinBlock& block = *stage.blocks[index];
  const at::Tensor mask_WTT = index % 2 == 1 ? stage.mask_WTT : at::Tensor();
  const auto compute = [&block, mask_WTT, drop](const at::Tensor& x) { return block.forward(x, mask_WTT, drop); };
  const at::Tensor ordered_BNC = permute_tokens(x_BNC, stage.before[index]);
  return checkpointing_ ? nn::recomputed(block, ordered_BNC, compute) : compute(ordered_BNC);
}

at::Tensor SwinTower::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  const int64_t num_blocks = std::accumulate(shape_.stages.begin(), shape_.stages.end(), int64_t{0});
  const at::Tensor patches_BNC = patch_embed_.forward(image_BCYX, {});
  at::Tensor x_BNC = patch_norm_.forward(patches_BNC.add(patch_bias_.to(patches_BNC.scalar_type())));
  int64_t number = 0;
  for (const auto& stage : stages_) {
    if (stage->downsample) x_BNC = stage->downsample->forward(permute_tokens(x_BNC, stage->before_stage));
    for (size_t i = 0; i < stage->blocks.size(); ++i, ++number) {
      const double rate = is_training() && num_blocks > 1
                              ? shape_.drop_path * static_cast<double>(number) / static_cast<double>(num_blocks - 1)
                              : 0.0;
      x_BNC =
          run_block(*stage, i, x_BNC, draw_drop_path(rate, x_BNC.size(0), context.random_key, number, x_BNC.options()));
    }
  }
  return head_.forward(norm_.forward(x_BNC).mean(1));
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::SwinTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::SwinTower>(shape, options.tensors);
}
