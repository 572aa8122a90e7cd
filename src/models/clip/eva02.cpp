// Letters: B micro-batch, C = 3 colours, Y = X pixels, P patches, T = P + 1 tokens, D width, H heads, K head width.
#include "models/clip/eva02.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>

#include <string>

#include "config/image_towers/eva02.h"
#include "core/error.h"
#include "nn/attention.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

/// Cells per side of the pictures that EVA02 was first trained with: other sizes are stretched to them.
constexpr double kReferenceCells = 16.0;

PatchRotation make_rotation(int64_t cells, int64_t head_width, const at::TensorOptions& options) {
  const int64_t num_bands = head_width / 4;
  const auto fp32 = at::TensorOptions(at::kFloat);
  const at::Tensor bands =
      at::pow(10000.0, at::arange(num_bands, fp32).div(static_cast<double>(num_bands))).reciprocal();
  const at::Tensor place = at::arange(cells, fp32).div(static_cast<double>(cells)).mul(kReferenceCells);
  const at::Tensor angle = place.unsqueeze(1).mul(bands.unsqueeze(0));  // [cells, bands]
  const at::Tensor row = angle.unsqueeze(1).expand({cells, cells, num_bands}),
                   column = angle.unsqueeze(0).expand({cells, cells, num_bands});
  const at::Tensor angle_PK = at::cat({row, column}, 2).reshape({cells * cells, 2 * num_bands}).repeat_interleave(2, 1);
  return {angle_PK.sin().to(options.device()), angle_PK.cos().to(options.device())};
}

/// Turns neighbours (2 i, 2 i + 1) of each patch's row by its angles; the class token stays.
at::Tensor rotated(const at::Tensor& x_BHTK, const PatchRotation& rotation) {
  const at::Tensor patch = x_BHTK.narrow(2, 1, x_BHTK.size(2) - 1);
  const at::Tensor pairs = patch.unflatten(3, {-1, 2});
  const at::Tensor turned = at::stack({pairs.select(4, 1).neg(), pairs.select(4, 0)}, 4).flatten(3);
  const at::Tensor sum = patch.mul(rotation.cos_PK).add(turned.mul(rotation.sin_PK));
  return at::cat({x_BHTK.narrow(2, 0, 1), sum.to(x_BHTK.scalar_type())}, 2);
}

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
  const at::Tensor y_BHTK = nn::attention(rotated(heads_first(q_proj_.forward(x_BTD)), rotation),
                                          rotated(heads_first(k_proj_.forward(x_BTD)), rotation),
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
    : shape_(shape.vision), rotation_(make_rotation(shape.vision.grid(), shape.vision.head_width, options)),
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
