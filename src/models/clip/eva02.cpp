// Letters: B micro-batch, C = 3 colours, Y = X pixels, P patches, T = P + 1 tokens, D width, H heads, K head width.
#include "models/clip/eva02.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>

#include <string>

#include "config/image_towers/eva02.h"
#include "core/error.h"
#include "nn/attention.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

/// The pictures that EVA02 was first trained with have 16 cells a side.
constexpr config::RotaryCells kEva02Rotary{.reference_cells = 16};
constexpr int64_t kNumClassTokens = 1;

}  // namespace

Eva02Block::Eva02Block(const config::VisionShape& shape, const at::TensorOptions& options)
    : norm1_(shape.width, options, shape.norm_epsilon), q_proj_(shape.width, shape.width, options),
      k_proj_(shape.width, shape.width, options, /*with_bias=*/false), v_proj_(shape.width, shape.width, options),
      attn_norm_(shape.width, options, shape.norm_epsilon), proj_(shape.width, shape.width, options),
      norm2_(shape.width, options, shape.norm_epsilon), gate_(shape.width, shape.mlp_width(), options),
      value_(shape.width, shape.mlp_width(), options), mlp_norm_(shape.mlp_width(), options, shape.norm_epsilon),
      fc2_(shape.mlp_width(), shape.width, options), heads_(shape.heads()) {
  register_child("norm1", norm1_);
  register_child("attn.q_proj", q_proj_);
  register_child("attn.k_proj", k_proj_);
  register_child("attn.v_proj", v_proj_);
  register_child("attn.norm", attn_norm_);
  register_child("attn.proj", proj_);
  register_child("norm2", norm2_);
  register_child("mlp.fc1_g", gate_);
  register_child("mlp.fc1_x", value_);
  register_child("mlp.norm", mlp_norm_);
  register_child("mlp.fc2", fc2_);
  declare_unit();
}

at::Tensor Eva02Block::attend(const at::Tensor& x_BTD, const PatchRotation& rotation) const {
  const auto heads_first = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
  };
  const at::Tensor y_BHTK = nn::attention(rotated(heads_first(q_proj_.forward(x_BTD)), rotation, kNumClassTokens),
                                          rotated(heads_first(k_proj_.forward(x_BTD)), rotation, kNumClassTokens),
                                          heads_first(v_proj_.forward(x_BTD)), {}, /*is_causal=*/false);
  return proj_.forward(attn_norm_.forward(y_BHTK.transpose(1, 2).reshape(x_BTD.sizes())));
}

at::Tensor Eva02Block::forward(const at::Tensor& x_BTD, const PatchRotation& rotation) const {
  about_to_run();
  const at::Tensor middle = x_BTD.add(attend(norm1_.forward(x_BTD), rotation));
  const at::Tensor y_BTD = norm2_.forward(middle);
  const at::Tensor gated = at::silu(gate_.forward(y_BTD)).mul(value_.forward(y_BTD));
  return middle.add(fc2_.forward(mlp_norm_.forward(gated)));
}

Eva02::Eva02(const config::ClipShape& shape, const at::TensorOptions& options)
    : shape_(shape.vision),
      rotation_(make_rotation(kEva02Rotary, shape.vision.grid(), shape.vision.head_width, options)),
      patch_embed_(shape.vision.width, shape.vision.patch_size, options),
      patch_bias_(nn::make_parameter({shape.vision.width}, options)),
      cls_token_(nn::make_parameter({1, 1, shape.vision.width}, options)),
      pos_embed_(nn::make_parameter({1, shape.vision.tokens(), shape.vision.width}, options)),
      norm_(shape.vision.width, options, shape.vision.norm_epsilon),
      head_(shape.vision.width, shape.embed_dim, options) {
  register_child("trunk.patch_embed.proj", patch_embed_);
  register_parameter("trunk.patch_embed.proj.bias", patch_bias_);
  register_parameter("trunk.cls_token", cls_token_);
  register_parameter("trunk.pos_embed", pos_embed_);
  for (int64_t i = 0; i < shape_.layers; ++i) {
    blocks_.push_back(std::make_unique<Eva02Block>(shape_, options));
    register_child("trunk.blocks." + std::to_string(i), *blocks_.back());
  }
  register_child("trunk.norm", norm_);
  register_child("trunk.head", head_);
}

at::Tensor Eva02::forward(const at::Tensor& image_BCYX, const ForwardContext&) {
  const int64_t batch = image_BCYX.size(0), width = shape_.width;
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  const at::Tensor patches_BPD = patch_embed_.forward(image_BCYX, {});
  const at::ScalarType type = patches_BPD.scalar_type();
  const at::Tensor class_B1D = cls_token_.to(type).expand({batch, 1, width});
  at::Tensor x_BTD = at::cat({class_B1D, patches_BPD.add(patch_bias_.to(type))}, 1).add(pos_embed_.to(type));
  for (const auto& block : blocks_) {
    const auto compute = [&block = *block, this](const at::Tensor& x) { return block.forward(x, rotation_); };
    x_BTD = checkpointing_ ? nn::recomputed(*block, x_BTD, compute) : compute(x_BTD);
  }
  return head_.forward(norm_.forward(x_BTD.select(1, 0)));
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::Eva02Tower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::Eva02>(shape, options.tensors);
}
