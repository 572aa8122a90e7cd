// Letters: B micro-batch, C = 3 colours, Y = X pixels, P patches, T tokens, D width, H heads, K head width.
#include "models/clip/timm_vit.h"

#include <ATen/core/Tensor.h>

#include <string>

#include "config/image_towers/timm_vit.h"
#include "core/error.h"
#include "models/clip/vision_transformer.h"
#include "nn/attention.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

/// [B, T, n D] -> n tensors [B, H, T, K].
std::vector<at::Tensor> parts_by_head(const at::Tensor& x, int64_t num_parts, int64_t heads) {
  return x.view({x.size(0), x.size(1), num_parts, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
}

}  // namespace

TimmMlp::TimmMlp(const config::VisionShape& shape, const at::TensorOptions& options)
    : fc1_(shape.width, shape.mlp_width(), options), fc2_(shape.mlp_width(), shape.width, options),
      activation_(shape.has_tanh_gelu ? nn::Activation::kGeluTanh : nn::Activation::kGelu) {
  register_child("fc1", fc1_);
  register_child("fc2", fc2_);
}

at::Tensor TimmMlp::forward(const at::Tensor& x) const {
  return fc2_.forward(nn::activate(fc1_.forward(x), activation_));
}

TimmBlock::TimmBlock(const config::VisionShape& shape, const at::TensorOptions& options)
    : norm1_(shape.width, options, shape.norm_epsilon), qkv_(shape.width, 3 * shape.width, options),
      proj_(shape.width, shape.width, options), norm2_(shape.width, options, shape.norm_epsilon), mlp_(shape, options),
      heads_(shape.heads()) {
  register_child("norm1", norm1_);
  register_child("attn.qkv", qkv_);
  register_child("attn.proj", proj_);
  register_child("norm2", norm2_);
  register_child("mlp", mlp_);
  declare_unit();
}

at::Tensor TimmBlock::forward(const at::Tensor& x_BTD) const {
  about_to_run();
  const auto qkv = parts_by_head(qkv_.forward(norm1_.forward(x_BTD)), 3, heads_);
  const at::Tensor y_BHTK = nn::attention(qkv[0], qkv[1], qkv[2], {}, /*is_causal=*/false);
  const at::Tensor middle = x_BTD.add(proj_.forward(y_BHTK.transpose(1, 2).reshape(x_BTD.sizes())));
  return middle.add(mlp_.forward(norm2_.forward(middle)));
}

LatentPool::LatentPool(const config::VisionShape& shape, const at::TensorOptions& options)
    : latent_(nn::make_parameter({1, 1, shape.width}, options)), q_(shape.width, shape.width, options),
      kv_(shape.width, 2 * shape.width, options), proj_(shape.width, shape.width, options),
      norm_(shape.width, options, shape.norm_epsilon), mlp_(shape, options), heads_(shape.heads()) {
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
    : shape_(shape.vision), patch_embed_(shape.vision.width, shape.vision.patch_size, options),
      patch_bias_(nn::make_parameter({shape.vision.width}, options)),
      pos_embed_(nn::make_parameter({1, shape.vision.patches(), shape.vision.width}, options)),
      norm_(shape.vision.width, options, shape.vision.norm_epsilon), attn_pool_(shape.vision, options),
      head_(shape.vision.width, shape.embed_dim, shape.vision.head, options) {
  register_child("trunk.patch_embed.proj", patch_embed_);
  register_parameter("trunk.patch_embed.proj.bias", patch_bias_);
  register_parameter("trunk.pos_embed", pos_embed_);
  for (int64_t i = 0; i < shape_.layers; ++i) {
    blocks_.push_back(std::make_unique<TimmBlock>(shape_, options));
    register_child("trunk.blocks." + std::to_string(i), *blocks_.back());
  }
  register_child("trunk.norm", norm_);
  register_child("trunk.attn_pool", attn_pool_);
  register_child("head", head_);
}

at::Tensor TimmVit::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  const int64_t batch = image_BCYX.size(0), width = shape_.width;
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  at::Tensor kept_BP, position = pos_embed_;
  if (is_training() && shape_.patch_dropout > 0.0) {
    kept_BP = kept_patches(batch, shape_.patches(), shape_.patch_dropout, context.random_key)
                  .to(image_BCYX.device(), /*non_blocking=*/true);
    position = pos_embed_.squeeze(0).index_select(0, kept_BP.flatten()).view({batch, kept_BP.size(1), width});
  }
  const at::Tensor patches_BPD = patch_embed_.forward(image_BCYX, kept_BP);
  const at::ScalarType type = patches_BPD.scalar_type();
  at::Tensor x_BTD = patches_BPD.add(patch_bias_.to(type)).add(position.to(type));
  for (const auto& block : blocks_) {
    const auto compute = [&block = *block](const at::Tensor& x) { return block.forward(x); };
    x_BTD = checkpointing_ ? nn::recomputed(*block, x_BTD, compute) : compute(x_BTD);
  }
  return head_.forward(attn_pool_.forward(norm_.forward(x_BTD)));
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::TimmVitTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::TimmVit>(shape, options.tensors);
}
