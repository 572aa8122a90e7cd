// Letters: B micro-batch, C = 3 colours, Y = X pixels, P patches, T tokens, D width, H heads, K head width.
#include "models/clip/timm_vit.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <string>

#include "config/image_towers/timm_vit.h"
#include "core/error.h"
#include "core/rng.h"
#include "models/clip/drop_path.h"
#include "models/clip/vision_transformer.h"
#include "models/clip/vitamin_stem.h"
#include "nn/attention.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kAttentionDropStream = 0x74766174, kMlpDropStream = 0x74766d6c;  // "tvat", "tvml"
constexpr uint64_t kPositionStream = 0x74767270;                                    // "tvrp"

/// [B, T, n D] -> n tensors [B, H, T, K].
std::vector<at::Tensor> parts_by_head(const at::Tensor& x, int64_t num_parts, int64_t heads) {
  return nn::split_heads(x, num_parts, heads);
}

at::Tensor scaled(const std::optional<nn::LayerScale>& scale, const at::Tensor& kept, const at::Tensor& x) {
  const at::Tensor y = scale ? scale->forward(x) : x;
  return kept.defined() ? y.mul(kept.to(y.scalar_type())) : y;
}

}  // namespace

TimmMlp::TimmMlp(const config::VisionShape& shape, int64_t mlp_width, const at::TensorOptions& options)
    : fc1_(shape.width, mlp_width, options), fc2_(mlp_width, shape.width, options),
      activation_(shape.has_tanh_gelu ? nn::Activation::kGeluTanh : nn::Activation::kGelu) {
  register_child("fc1", fc1_);
  register_child("fc2", fc2_);
}

at::Tensor TimmMlp::forward(const at::Tensor& x) const { return fc2_.forward(fc1_.forward_activated(x, activation_)); }

TimmGatedMlp::TimmGatedMlp(const config::VisionShape& shape, const at::TensorOptions& options)
    : norm_(shape.width, options, /*epsilon=*/1e-6), w0_(shape.width, shape.mlp_width(), options),
      w1_(shape.width, shape.mlp_width(), options), w2_(shape.mlp_width(), shape.width, options) {
  register_child("norm", norm_);
  register_child("w0", w0_);
  register_child("w1", w1_);
  register_child("w2", w2_);
}

at::Tensor TimmGatedMlp::forward(const at::Tensor& x) const {
  const at::Tensor y = norm_.forward(x);
  return w2_.forward(nn::activate(w0_.forward(y), nn::Activation::kGelu).mul(w1_.forward(y)));
}

TimmAttention::TimmAttention(const config::VisionShape& shape, const at::TensorOptions& options)
    : qkv_(shape.width, 3 * shape.width, options, shape.timm.qkv_bias == config::TimmVitShape::QkvBias::kAll),
      proj_(shape.width, shape.width, options), heads_(shape.heads()), num_others_(shape.has_class_token ? 1 : 0) {
  if (shape.timm.qkv_bias == config::TimmVitShape::QkvBias::kNotKeys) {
    register_parameter("q_bias", q_bias_ = nn::make_parameter({shape.width}, options));
    register_parameter("v_bias", v_bias_ = nn::make_parameter({shape.width}, options));
  }
  register_child("qkv", qkv_);
  if (shape.timm.position_mlp_width > 0)
    register_child("rel_pos", rel_pos_.emplace(shape.timm.position_mlp_width, heads_, options));
  register_child("proj", proj_);
}

at::Tensor TimmAttention::forward(const at::Tensor& x_BTD, const PatchPlaces& places,
                                  const nn::Dropout& position_dropout) const {
  at::Tensor qkv = qkv_.forward(x_BTD);
  if (q_bias_.defined()) qkv = qkv.add(at::cat({q_bias_, at::zeros_like(q_bias_), v_bias_}).to(qkv.scalar_type()));
  auto parts = parts_by_head(qkv, 3, heads_);
  if (places.rotation.sin_PK.defined())
    for (const size_t turned : {0, 1}) parts[turned] = rotated(parts[turned], places.rotation, num_others_);
  at::Tensor bias_1HTT;
  if (rel_pos_) bias_1HTT = rel_pos_->forward(places.relative, num_others_, position_dropout).to(qkv.scalar_type());
  const at::Tensor y_BHTK = nn::attention(parts[0], parts[1], parts[2], bias_1HTT, /*is_causal=*/false);
  return proj_.forward(y_BHTK.transpose(1, 2).reshape(x_BTD.sizes()));
}

TimmBlock::TimmBlock(const config::VisionShape& shape, const at::TensorOptions& options)
    : norms_follow_(shape.timm.norms_follow), norm1_(shape.width, options, shape.norm_epsilon), attn_(shape, options),
      norm2_(shape.width, options, shape.norm_epsilon) {
  if (!norms_follow_) register_child("norm1", norm1_);
  register_child("attn", attn_);
  if (norms_follow_) register_child("norm1", norm1_);
  if (shape.layer_scale) register_child("ls1", ls1_.emplace(shape.width, options));
  if (!norms_follow_) register_child("norm2", norm2_);
  if (shape.timm.has_gated_mlp)
    register_child("mlp", gated_mlp_.emplace(shape, options));
  else
    register_child("mlp", mlp_.emplace(shape, shape.mlp_width(), options));
  if (norms_follow_) register_child("norm2", norm2_);
  if (shape.layer_scale) register_child("ls2", ls2_.emplace(shape.width, options));
  declare_unit();
}

at::Tensor TimmBlock::forward(const at::Tensor& x_BTD, const PatchPlaces& places, const BlockDraws& draws) const {
  about_to_run();
  const at::Tensor attended = norms_follow_ ? norm1_.forward(attn_.forward(x_BTD, places, draws.positions))
                                            : attn_.forward(norm1_.forward(x_BTD), places, draws.positions);
  const at::Tensor middle = x_BTD.add(scaled(ls1_, draws.kept_attention, attended));
  const at::Tensor y_BTD = norms_follow_ ? norm2_.forward(mlp(middle)) : mlp(norm2_.forward(middle));
  return middle.add(scaled(ls2_, draws.kept_mlp, y_BTD));
}

LatentPool::LatentPool(const config::VisionShape& shape, const at::TensorOptions& options)
    : latent_(nn::make_parameter({1, 1, shape.width}, options)), q_(shape.width, shape.width, options),
      kv_(shape.width, 2 * shape.width, options), proj_(shape.width, shape.width, options),
      norm_(shape.width, options, shape.norm_epsilon), mlp_(shape, shape.pool_mlp_width(), options),
      heads_(shape.attention_pool_heads()) {
  register_parameter("latent", latent_);
  register_child("q", q_);
  register_child("kv", kv_);
  register_child("proj", proj_);
  register_child("norm", norm_);
  register_child("mlp", mlp_);
}

at::Tensor LatentPool::forward(const at::Tensor& x_BTD) const {
  const int64_t batch = x_BTD.size(0), width = x_BTD.size(2);
  const at::Tensor q_11D = q_.forward(latent_.to(x_BTD.scalar_type()));
  const at::Tensor q_BH1K = parts_by_head(q_11D.expand({batch, 1, width}).contiguous(), 1, heads_)[0];
  const auto kv = parts_by_head(kv_.forward(x_BTD), 2, heads_);
  const at::Tensor y_BH1K = nn::attention(q_BH1K, kv[0], kv[1], {}, /*is_causal=*/false);
  const at::Tensor y_BD = proj_.forward(y_BH1K.transpose(1, 2).reshape({batch, width}));
  return y_BD.add(mlp_.forward(norm_.forward(y_BD)));
}

TimmVit::TimmVit(const config::ClipShape& shape, const at::TensorOptions& options)
    : shape_(shape.vision), norm_(shape.vision.width, options, shape.vision.norm_epsilon) {
  const int64_t width = shape_.width;
  if (shape_.timm.rotary)
    places_.rotation = make_rotation(*shape_.timm.rotary, shape_.grid(), shape_.head_width, options);
  if (shape_.timm.position_mlp_width > 0) places_.relative = make_relative_places(shape_.grid(), options);
  if (shape_.has_class_token)
    register_parameter("trunk.cls_token", cls_token_ = nn::make_parameter({1, 1, width}, options));
  if (shape_.timm.has_positions) {
    const int64_t positions = shape_.timm.has_class_position ? shape_.tokens() : shape_.patches();
    register_parameter("trunk.pos_embed", pos_embed_ = nn::make_parameter({1, positions, width}, options));
  }
  if (shape_.tower == config::TimmStemVitTower::kName) stem_ = std::make_unique<TimmStem>(width, options);
  if (shape_.tower == config::VitaminTower::kName) stem_ = std::make_unique<VitaminStem>(shape_, options);
  if (stem_) {
    register_child("trunk.patch_embed.backbone", *stem_);
  } else {
    register_child("trunk.patch_embed.proj", patch_embed_.emplace(width, shape_.patch_size, options));
    if (!shape_.has_ln_pre)
      register_parameter("trunk.patch_embed.proj.bias", patch_bias_ = nn::make_parameter({width}, options));
  }
  if (shape_.has_ln_pre) register_child("trunk.norm_pre", norm_pre_.emplace(width, options, shape_.norm_epsilon));
  for (int64_t i = 0; i < shape_.layers; ++i) {
    blocks_.push_back(std::make_unique<TimmBlock>(shape_, options));
    register_child("trunk.blocks." + std::to_string(i), *blocks_.back());
  }
  register_child(shape_.norms_after_pool ? "trunk.fc_norm" : "trunk.norm", norm_);
  if (shape_.pool == config::ImagePool::kAttention)
    register_child("trunk.attn_pool", attn_pool_.emplace(shape_, options));
  if (shape_.timm.has_own_head)
    register_child("trunk.head", own_head_.emplace(width, shape.embed_dim, options));
  else
    register_child("head", head_.emplace(width, shape.embed_dim, shape_.head, options));
}

at::Tensor TimmVit::patch_positions(const at::Tensor& kept_BP) const {
  const bool has_first = shape_.has_class_token && shape_.timm.has_class_position;
  const at::Tensor all_1PD = has_first ? pos_embed_.narrow(1, 1, shape_.patches()) : pos_embed_;
  if (!kept_BP.defined()) return all_1PD;
  return all_1PD.squeeze(0).index_select(0, kept_BP.flatten()).view({kept_BP.size(0), kept_BP.size(1), shape_.width});
}

at::Tensor TimmVit::embed(const at::Tensor& image_BCYX, const ForwardContext& context) {
  const int64_t batch = image_BCYX.size(0);
  at::Tensor kept_BP;
  if (is_training() && shape_.patch_dropout > 0.0)
    kept_BP = kept_patches(batch, shape_.patches(), shape_.patch_dropout, context.random_key, image_BCYX.device());
  at::Tensor x_BTD = stem_ ? stem_->forward(image_BCYX) : patch_embed_->forward(image_BCYX, kept_BP);
  const at::ScalarType type = x_BTD.scalar_type();
  if (patch_bias_.defined()) x_BTD = x_BTD.add(patch_bias_.to(type));
  if (pos_embed_.defined()) x_BTD = x_BTD.add(patch_positions(kept_BP).to(type));
  if (shape_.has_class_token) {
    const at::Tensor class_11D = pos_embed_.defined() && shape_.timm.has_class_position
                                     ? cls_token_.to(type).add(pos_embed_.narrow(1, 0, 1).to(type))
                                     : cls_token_.to(type);
    x_BTD = at::cat({class_11D.expand({batch, 1, shape_.width}), x_BTD}, 1);
  }
  return norm_pre_ ? norm_pre_->forward(x_BTD) : x_BTD;
}

BlockDraws TimmVit::draw(int64_t block, const at::Tensor& x_BTD, const ForwardContext& context) const {
  if (!is_training()) return {};
  DroppedBranch branch{shape_.drop_path, block, shape_.layers, kAttentionDropStream};
  BlockDraws draws;
  draws.kept_attention = kept_branch(branch, x_BTD, /*dims=*/3, context);
  branch.stream = kMlpDropStream;
  draws.kept_mlp = kept_branch(branch, x_BTD, /*dims=*/3, context);
  draws.positions = {shape_.timm.position_dropout,
                     core::stream_key({context.random_key, kPositionStream, static_cast<uint64_t>(block)})};
  return draws;
}

at::Tensor TimmVit::pooled(const at::Tensor& x_BTD) const {
  if (shape_.pool == config::ImagePool::kClassToken) return norm_.forward(x_BTD.select(1, 0));
  const at::Tensor y_BTD = shape_.norms_after_pool ? x_BTD : norm_.forward(x_BTD);
  if (attn_pool_) return attn_pool_->forward(y_BTD);
  const int64_t num_others = shape_.has_class_token ? 1 : 0;
  const at::Tensor mean_BD = y_BTD.narrow(1, num_others, y_BTD.size(1) - num_others).mean(1);
  return shape_.norms_after_pool ? norm_.forward(mean_BD) : mean_BD;
}

at::Tensor TimmVit::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  if (stem_)
    for (nn::BatchNorm2d* norm : stem_->batch_norms()) norm->set_updates_statistics(context.updates_statistics);
  at::Tensor x_BTD = embed(image_BCYX, context);
  int64_t number = 0;
  for (const auto& block : blocks_) {
    const auto compute = [&block = *block, this, draws = draw(number++, x_BTD, context)](const at::Tensor& x) {
      return block.forward(x, places_, draws);
    };
    x_BTD = checkpointing_ ? nn::recomputed(*block, x_BTD, compute) : compute(x_BTD);
  }
  return own_head_ ? own_head_->forward(pooled(x_BTD)) : head_->forward(pooled(x_BTD));
}

void TimmVit::synchronize_batch_norm(comm::Comm* comm) {
  if (stem_)
    for (nn::BatchNorm2d* norm : stem_->batch_norms()) norm->synchronize(comm);
}

void TimmVit::freeze_batch_norm() {
  if (stem_)
    for (nn::BatchNorm2d* norm : stem_->batch_norms()) norm->freeze_statistics();
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::TimmVitTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::TimmVit>(shape, options.tensors);
}
