// Letters: B micro-batch, C channels, Y = X cells, N all cells, H heads, K head width.
#include "models/clip/fastvit.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <fmt/format.h>

#include "core/error.h"
#include "models/clip/drop_path.h"
#include "nn/attention.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kFastVitAttentionStream = 0x66766174, kFastVitMlpStream = 0x66766d6c;  // "fvat", "fvml"
constexpr int64_t kLarge = config::kFastVitLargeKernel, kSmall = config::kFastVitSmallKernel;

BiasedConv pointwise_conv(int64_t in, int64_t out, const at::TensorOptions& options) {
  return {in, out, /*kernel=*/1, /*stride=*/1, /*padding=*/0, /*is_depthwise=*/false, options};
}

at::Tensor make_channel_scale(int64_t width, const at::TensorOptions& options) {
  return nn::make_parameter({width, 1, 1}, options);
}

at::Tensor gelu_of(const at::Tensor& x) { return nn::activate(x, nn::Activation::kGelu); }

/// x + gamma y, of the samples that keep it.
at::Tensor with_branch(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& y, const at::Tensor& kept) {
  const at::Tensor branch = y.mul(gamma.to(y.scalar_type()));
  return x.add(kept.defined() ? branch.mul(kept.to(branch.scalar_type())) : branch);
}

}  // namespace

ConvNorm::ConvNorm(const config::ConvShape& shape, const FastVitParts& parts)
    : shape_(shape), weight_(nn::make_parameter(
                         {shape.out, shape.is_depthwise ? 1 : shape.in, shape.kernel, shape.kernel}, parts.options)),
      bn_(shape.out, parts.options) {
  register_parameter("conv.weight", weight_);
  register_child("bn", bn_);
  parts.norms.push_back(&bn_);
}

/// A strided convolution of single cells is one of every second cell: oneDNN, up to 3.12, writes behind its memory in
/// the backward pass of the former where channels lie side by side and are fewer than its block (its issue 6035).
at::Tensor ConvNorm::forward(const at::Tensor& x_BCYX) {
  const bool skips_cells = shape_.kernel == 1 && shape_.stride > 1;
  const at::Tensor in =
      skips_cells ? x_BCYX.slice(2, 0, std::nullopt, shape_.stride).slice(3, 0, std::nullopt, shape_.stride) : x_BCYX;
  const int64_t stride = skips_cells ? 1 : shape_.stride, padding = shape_.kernel / 2,
                groups = shape_.is_depthwise ? shape_.in : 1;
  return bn_.forward(at::conv2d(in, weight_, {}, {stride, stride}, {padding, padding}, {1, 1}, groups));
}

SqueezeExcite::SqueezeExcite(int64_t width, int64_t squeezed, const at::TensorOptions& options)
    : fc1_(pointwise_conv(width, squeezed, options)), fc2_(pointwise_conv(squeezed, width, options)) {
  register_child("fc1", fc1_);
  register_child("fc2", fc2_);
}

at::Tensor SqueezeExcite::forward(const at::Tensor& x_BCYX) const {
  const at::Tensor hidden = fc1_.forward(x_BCYX.mean({2, 3}, /*keepdim=*/true)).relu();
  return x_BCYX.mul(fc2_.forward(hidden).sigmoid());
}

MobileOneBlock::MobileOneBlock(const config::MobileOneShape& shape, const FastVitParts& parts)
    : has_activation_(shape.has_activation) {
  const config::ConvShape& conv = shape.conv;
  if (shape.squeezed > 0) register_child("se", se_.emplace(conv.out, shape.squeezed, parts.options));
  if (shape.has_identity()) {
    register_child("identity", identity_.emplace(conv.in, parts.options));
    parts.norms.push_back(&*identity_);
  }
  if (shape.has_conv) register_child("conv_kxk.0", conv_kxk_.emplace(conv, parts));
  if (!shape.has_scale_branch()) return;
  const config::ConvShape of_cells{conv.in, conv.out, /*kernel=*/1, conv.is_depthwise, conv.stride};
  register_child("conv_scale", conv_scale_.emplace(of_cells, parts));
}

at::Tensor MobileOneBlock::forward(const at::Tensor& x_BCYX) {
  at::Tensor sum;
  const auto add = [&sum](const at::Tensor& branch) { sum = sum.defined() ? sum.add_(branch) : branch; };
  if (conv_scale_) add(conv_scale_->forward(x_BCYX));
  if (identity_) add(identity_->forward(x_BCYX));
  if (conv_kxk_) add(conv_kxk_->forward(x_BCYX));
  if (se_) sum = se_->forward(sum);
  return has_activation_ ? gelu_of(sum) : sum;
}

FastVitDownsample::FastVitDownsample(const config::FastVitStage& stage, const FastVitParts& parts)
    : large_conv_({stage.width / 2, stage.width, kLarge, /*is_depthwise=*/true, /*stride=*/2}, parts),
      small_conv_({stage.width / 2, stage.width, kSmall, /*is_depthwise=*/true, /*stride=*/2}, parts),
      pointwise_(config::fastvit_pointwise(stage.width), parts) {
  register_child("proj.0.large_conv", large_conv_);
  register_child("proj.0.small_conv", small_conv_);
  if (stage.squeezed > 0) register_child("proj.0.se", se_.emplace(stage.width, stage.squeezed, parts.options));
  register_child("proj.1", pointwise_);
}

at::Tensor FastVitDownsample::forward(const at::Tensor& x_BCYX) {
  const at::Tensor y = large_conv_.forward(x_BCYX).add(small_conv_.forward(x_BCYX));
  return pointwise_.forward(gelu_of(se_ ? se_->forward(y) : y));
}

FastVitMlp::FastVitMlp(const config::FastVitStage& stage, const FastVitParts& parts)
    : conv_({stage.width, stage.width, kLarge, /*is_depthwise=*/true}, parts),
      fc1_(pointwise_conv(stage.width, stage.mlp_width, parts.options)),
      fc2_(pointwise_conv(stage.mlp_width, stage.width, parts.options)) {
  register_child("conv", conv_);
  register_child("fc1", fc1_);
  register_child("fc2", fc2_);
}

at::Tensor FastVitMlp::forward(const at::Tensor& x_BCYX) {
  return fc2_.forward(gelu_of(fc1_.forward(conv_.forward(x_BCYX))));
}

RepMixerBlock::RepMixerBlock(const config::FastVitStage& stage, const FastVitParts& parts)
    : norm_(config::fastvit_mixer_norm(stage.width), parts), mixer_(config::fastvit_mixer(stage.width), parts),
      mixer_gamma_(make_channel_scale(stage.width, parts.options)), mlp_(stage, parts),
      gamma_(make_channel_scale(stage.width, parts.options)) {
  register_child("token_mixer.norm", norm_);
  register_child("token_mixer.mixer", mixer_);
  register_parameter("token_mixer.layer_scale.gamma", mixer_gamma_);
  register_child("mlp", mlp_);
  register_parameter("layer_scale.gamma", gamma_);
  declare_unit();
}

at::Tensor RepMixerBlock::forward(const at::Tensor& x_BCYX, const std::array<at::Tensor, 2>& kept) {
  about_to_run();
  const at::Tensor mixed = with_branch(x_BCYX, mixer_gamma_, mixer_.forward(x_BCYX).sub(norm_.forward(x_BCYX)), {});
  return with_branch(mixed, gamma_, mlp_.forward(mixed), kept[1]);
}

FastVitAttentionBlock::FastVitAttentionBlock(const config::VisionShape& shape, const config::FastVitStage& stage,
                                             const FastVitParts& parts)
    : heads_(stage.width / shape.head_width), qkv_(stage.width, 3 * stage.width, parts.options, /*with_bias=*/false),
      proj_(stage.width, stage.width, parts.options), gamma_1_(make_channel_scale(stage.width, parts.options)),
      mlp_(stage, parts), gamma_2_(make_channel_scale(stage.width, parts.options)) {
  if (config::is_large_fastvit(shape)) {
    register_child("norm", layer_norm_.emplace(stage.width, parts.options, shape.norm_epsilon));
  } else {
    register_child("norm", batch_norm_.emplace(stage.width, parts.options));
    parts.norms.push_back(&*batch_norm_);
  }
  register_child("token_mixer.qkv", qkv_);
  register_child("token_mixer.proj", proj_);
  register_parameter("layer_scale_1.gamma", gamma_1_);
  register_child("mlp", mlp_);
  register_parameter("layer_scale_2.gamma", gamma_2_);
  declare_unit();
}

at::Tensor FastVitAttentionBlock::attend(const at::Tensor& x_BCYX) const {
  const at::Tensor x_BNC = x_BCYX.flatten(2).transpose(1, 2);
  const auto parts = nn::split_heads(qkv_.forward(x_BNC), 3, heads_);
  const at::Tensor y_BHNK = nn::attention(parts[0], parts[1], parts[2], {}, /*is_causal=*/false);
  return proj_.forward(y_BHNK.transpose(1, 2).reshape(x_BNC.sizes())).transpose(1, 2).reshape(x_BCYX.sizes());
}

at::Tensor FastVitAttentionBlock::forward(const at::Tensor& x_BCYX, const std::array<at::Tensor, 2>& kept) {
  about_to_run();
  const at::Tensor normed = batch_norm_ ? batch_norm_->forward(x_BCYX) : norm_channels(*layer_norm_, x_BCYX);
  const at::Tensor attended = with_branch(x_BCYX, gamma_1_, attend(normed), kept[0]);
  return with_branch(attended, gamma_2_, mlp_.forward(attended), kept[1]);
}

FastVit::FastVit(const config::ClipShape& shape, const at::TensorOptions& options) : shape_(shape.vision) {
  const FastVitParts parts{options, norms_};
  for (const config::MobileOneShape& block : config::fastvit_stem(shape_)) {
    stem_.push_back(std::make_unique<MobileOneBlock>(block, parts));
    register_child(fmt::format("trunk.stem.{}", stem_.size() - 1), *stem_.back());
  }
  for (const config::FastVitStage& stage : config::fastvit_stages(shape_)) add_stage(stage, parts);
  register_child("trunk.final_conv", final_conv_.emplace(config::fastvit_last_block(shape_), parts));
  if (shape_.timm.has_own_head)
    register_child("trunk.head.fc", own_head_.emplace(shape_.feature_width(), shape.embed_dim, options));
  else
    register_child("head", head_.emplace(shape_.feature_width(), shape.embed_dim, shape_.head, options));
}

void FastVit::add_stage(const config::FastVitStage& sizes, const FastVitParts& parts) {
  const std::string name = fmt::format("trunk.stages.{}", sizes.index);
  stages_.push_back(std::make_unique<Stage>());
  Stage& stage = *stages_.back();
  if (sizes.index > 0) register_child(name + ".downsample", stage.downsample.emplace(sizes, parts));
  if (sizes.attends)
    register_child(name + ".pos_emb.pos_enc",
                   stage.pos_enc.emplace(sizes.width, sizes.width, kLarge, /*stride=*/1,
                                         /*padding=*/kLarge / 2, /*is_depthwise=*/true, parts.options));
  for (int64_t i = 0; i < sizes.depth; ++i, ++num_blocks_) {
    if (sizes.attends)
      stage.blocks.push_back(std::make_unique<FastVitAttentionBlock>(shape_, sizes, parts));
    else
      stage.blocks.push_back(std::make_unique<RepMixerBlock>(sizes, parts));
    register_child(fmt::format("{}.blocks.{}", name, i), *stage.blocks.back());
  }
}

/// A block that is computed again has counted in the running statistics before.
at::Tensor FastVit::run_block(FastVitBlock& block, int64_t number, const at::Tensor& x_BCYX,
                              const ForwardContext& context) {
  std::array<at::Tensor, 2> kept;
  if (is_training()) {
    DroppedBranch branch{shape_.drop_path, number, num_blocks_, kFastVitAttentionStream};
    kept[0] = kept_branch(branch, x_BCYX, /*dims=*/4, context);
    branch.stream = kFastVitMlpStream;
    kept[1] = kept_branch(branch, x_BCYX, /*dims=*/4, context);
  }
  if (!checkpointing_) return block.forward(x_BCYX, kept);
  return nn::recomputed(block, x_BCYX, [&block, this, kept, ran = std::make_shared<bool>(false)](const at::Tensor& x) {
    if (*ran) set_updates_statistics(false);
    *ran = true;
    return block.forward(x, kept);
  });
}

at::Tensor FastVit::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  set_updates_statistics(context.updates_statistics);
  at::Tensor x = image_BCYX;
  for (const auto& block : stem_) x = block->forward(x);
  int64_t number = 0;
  for (const auto& stage : stages_) {
    if (stage->downsample) x = stage->downsample->forward(x);
    if (stage->pos_enc) x = stage->pos_enc->forward(x).add(x);
    for (const auto& block : stage->blocks) x = run_block(*block, number++, x, context);
  }
  const at::Tensor mean_BC = final_conv_->forward(x).mean({2, 3});
  return own_head_ ? own_head_->forward(mean_BC) : head_->forward(mean_BC);
}

void FastVit::set_updates_statistics(bool updates) {
  for (nn::BatchNorm2d* norm : norms_) norm->set_updates_statistics(updates);
}

void FastVit::synchronize_batch_norm(comm::Comm* comm) {
  for (nn::BatchNorm2d* norm : norms_) norm->synchronize(comm);
}

void FastVit::freeze_batch_norm() {
  for (nn::BatchNorm2d* norm : norms_) norm->freeze_statistics();
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::FastVitTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::FastVit>(shape, options.tensors);
}
