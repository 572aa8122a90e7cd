// Letters: B clips, S samples, M mel bins, F frames, Y = X pixels of the square image, N tokens, C token width, D = C
// of the last stage.
#include "models/clap/htsat.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "models/clap/spec_augment.h"
#include "nn/product.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

TokenOrder row_major(int64_t side) {
  TokenOrder order(static_cast<size_t>(side * side));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Tokens per side of a window, and by how much odd blocks roll: a stage that is one window does not.
int64_t window_of(const config::AudioShape& shape, int64_t stage) {
  return std::min(shape.window, shape.stage_side(stage));
}
int64_t shift_of(const config::AudioShape& shape, int64_t stage, size_t block) {
  return block % 2 == 1 && shape.stage_side(stage) > shape.window ? shape.window / 2 : 0;
}

}  // namespace

HtsatTower::HtsatTower(const config::AudioShape& shape, const at::TensorOptions& options)
    : shape_(shape), log_mel_(shape, options.device()), stretch_(shape.image_frames(), options.device()),
      bn0_(shape.mel_bins, options),
      patch_weight_(nn::make_parameter({shape.width, 1, shape.patch_size, shape.patch_size}, options)),
      patch_bias_(nn::make_parameter({shape.width}, options)), patch_norm_(shape.width, options),
      patch_order_(row_major(shape.stage_side(0)), window_order(shape.stage_side(0), window_of(shape, 0), 0),
                   options.device()),
      norm_(shape.feature_width(), options) {
  register_child("bn0", bn0_);
  register_parameter("patch_embed.proj.weight", patch_weight_);
  register_parameter("patch_embed.proj.bias", patch_bias_);
  register_child("patch_embed.norm", patch_norm_);
  for (int64_t stage = 0; stage < shape.stages(); ++stage) add_stage(stage, options);
  register_child("norm", norm_);
  add_carried_head(options);
}

void HtsatTower::add_stage(int64_t stage, const at::TensorOptions& options) {
  const int64_t side = shape_.stage_side(stage), window = window_of(shape_, stage);
  Stage added;
  TokenOrder order = window_order(side, window, 0);
  for (size_t block = 0; block < static_cast<size_t>(shape_.depths[static_cast<size_t>(stage)]); ++block) {
    const TokenOrder wanted = window_order(side, window, shift_of(shape_, stage, block));
    added.before.emplace_back(order, wanted, options.device());
    order = wanted;
    added.blocks.push_back(
        std::make_unique<SwinBlock>(config::SwinSizes{.width = shape_.stage_width(stage),
                                                      .heads = shape_.heads[static_cast<size_t>(stage)],
                                                      .window = window,
                                                      .mlp_width = shape_.mlp_width(stage)},
                                    options));
    register_child("layers." + std::to_string(stage) + ".blocks." + std::to_string(block), *added.blocks.back());
  }
  added.mask_WTT = shift_mask(side, window, shift_of(shape_, stage, 1));
  if (added.mask_WTT.defined()) added.mask_WTT = added.mask_WTT.to(options.device());
  if (stage + 1 < shape_.stages()) {
    const TokenOrder next = window_order(side / 2, window_of(shape_, stage + 1), 0);
    added.before_downsample = TokenPermutation(order, merging_order(side, next), options.device());
    added.downsample = std::make_unique<PatchMerging>(shape_.stage_width(stage), options);
    register_child("layers." + std::to_string(stage) + ".downsample", *added.downsample);
  }
  stages_.push_back(std::move(added));
}

void HtsatTower::add_carried_head(const at::TensorOptions& options) {
  const int64_t rows = shape_.stage_side(shape_.stages() - 1) / shape_.time_pieces(), classes = shape_.num_classes;
  tscam_weight_ = at::empty({classes, shape_.feature_width(), rows, 3}, options);
  tscam_bias_ = at::empty({classes}, options);
  head_weight_ = at::empty({classes, classes}, options);
  head_bias_ = at::empty({classes}, options);
  register_buffer("tscam_conv.weight", tscam_weight_);
  register_buffer("tscam_conv.bias", tscam_bias_);
  register_buffer("head.weight", head_weight_);
  register_buffer("head.bias", head_bias_);
}

/// Frames are stretched to the width of all pieces; the pieces of the time axis are stacked.
at::Tensor HtsatTower::to_image(const at::Tensor& mel_BMF) {
  return stretch_(mel_BMF).unflatten(2, {shape_.time_pieces(), shape_.image_size}).transpose(1, 2).flatten(1, 2);
}

at::Tensor HtsatTower::embed_patches(const at::Tensor& image_BYX) const {
  const int64_t side = shape_.stage_side(0), patch = shape_.patch_size;
  const at::Tensor patches_BNP = image_BYX.view({image_BYX.size(0), side, patch, side, patch})
                                     .transpose(2, 3)
                                     .reshape({image_BYX.size(0), side * side, patch * patch});
  return patch_norm_.forward(
      nn::linear_layer(permute_tokens(patches_BNP, patch_order_), patch_weight_.flatten(1), patch_bias_));
}

at::Tensor HtsatTower::run_block(const Stage& stage, size_t index, const at::Tensor& x_BNC,
                                 const DropPath& drop) const {
  SwinBlock& block = *stage.blocks[index];
  const at::Tensor mask_WTT = index % 2 == 1 ? stage.mask_WTT : at::Tensor();
  const auto compute = [&block, mask_WTT, drop](const at::Tensor& x) { return block.forward(x, mask_WTT, drop); };
  const at::Tensor ordered_BNC = permute_tokens(x_BNC, stage.before[index]);
  return checkpointing_ ? nn::recomputed(block, ordered_BNC, compute) : compute(ordered_BNC);
}

at::Tensor HtsatTower::forward(const at::Tensor& audio_BS, const ForwardContext& context) {
  LOCKSTEP_CHECK(audio_BS.dim() == 2, "dims={}", audio_BS.dim());
  return forward_log_mel(log_mel_(audio_BS), context);
}

at::Tensor HtsatTower::forward_log_mel(const at::Tensor& mel_BMF, const ForwardContext& context) {
  LOCKSTEP_CHECK(mel_BMF.size(1) == shape_.mel_bins && mel_BMF.size(2) <= shape_.image_frames(),
                 "{} x {}, expected {} x at most {}", mel_BMF.size(1), mel_BMF.size(2), shape_.mel_bins,
                 shape_.image_frames());
  bn0_.set_updates_statistics(context.updates_statistics);
  at::Tensor mel = bn0_.forward(mel_BMF.to(bn0_.parameter_type()).unsqueeze(3)).squeeze(3);
  if (is_training() && shape_.spec_augment)
    mel = mel.masked_fill(spec_augment_blanks(mel.size(0), mel.size(1), mel.size(2), context.random_key, mel.device()),
                          0);
  at::Tensor x = embed_patches(to_image(mel).to(patch_weight_.scalar_type()));
  const int64_t num_blocks = std::accumulate(shape_.depths.begin(), shape_.depths.end(), int64_t{0});
  int64_t block = 0;
  for (const Stage& stage : stages_) {
    for (size_t i = 0; i < stage.blocks.size(); ++i, ++block) {
      const double rate = is_training() && num_blocks > 1
                              ? shape_.drop_path * static_cast<double>(block) / static_cast<double>(num_blocks - 1)
                              : 0.0;
      x = run_block(stage, i, x, draw_drop_path(rate, x.size(0), context.random_key, block, x.options()));
    }
    if (stage.downsample) x = stage.downsample->forward(permute_tokens(x, stage.before_downsample));
  }
  return norm_.forward(x).mean(1);
}

}  // namespace lockstep::models
