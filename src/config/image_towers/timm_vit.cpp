#include "config/image_towers/timm_vit.h"

#include <fmt/format.h>

#include <cmath>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/shape_check.h"
#include "config/timm_towers.h"

namespace lockstep::config {
namespace {

constexpr double kTimmDeviation = 0.02;

void add_timm_linear(ParamList& list, const std::string& name, int64_t in, int64_t out) {
  list.add_linear(name, in, out, normal(kTimmDeviation), zeros());
}

}  // namespace

bool TimmVitTower::is_meant(const VisionShape&) { return false; }

void TimmVitTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require_between(shape, "vision layers", vision.layers, 1, 1000);
  require_between(shape, "vision patch_size", vision.patch_size, 1, vision.image_size);
  require(
      std::isfinite(vision.mlp_ratio) && vision.mlp_ratio > 0.0 && vision.mlp_ratio <= 64.0 && vision.mlp_width() >= 1,
      shape, fmt::format("vision mlp_ratio={} is out of range, expected above 0, at most 64", vision.mlp_ratio));
  require(vision.pool == ImagePool::kAttention, shape,
          "this tower of timm pools by attention: timm_pool must be \"map\"");
  require(
      vision.head.kind != ProjectionShape::Kind::kNone || vision.width == shape.embed_dim, shape,
      fmt::format("timm_proj \"none\" needs the tower's width {} to be embed_dim {}", vision.width, shape.embed_dim));
  require(!vision.layer_scale && !vision.has_attentional_pool && !vision.has_fixed_positions, shape,
          "ls_init_value, attentional_pool and pos_embed_type belong to OpenCLIP's own vision transformer");
}

int64_t TimmVitTower::feature_width(const VisionShape& vision) { return vision.width; }

int64_t TimmVitTower::grid(const VisionShape& vision) { return vision.image_size / vision.patch_size; }

void TimmVitTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t width = vision.width, patch_inputs = 3 * vision.patch_size * vision.patch_size;
  list.add_conv("visual.trunk.patch_embed.proj", 3, width, vision.patch_size);
  list.add("visual.trunk.patch_embed.proj.bias", {width}, fan_in(patch_inputs), true);
  list.add("visual.trunk.pos_embed", {1, vision.patches(), width}, normal(kTimmDeviation), false);
  for (int64_t i = 0; i < vision.layers; ++i) {
    const std::string block = fmt::format("visual.trunk.blocks.{}", i);
    list.add_layer_norm(block + ".norm1", width);
    add_timm_linear(list, block + ".attn.qkv", width, 3 * width);
    add_timm_linear(list, block + ".attn.proj", width, width);
    list.add_layer_norm(block + ".norm2", width);
    add_timm_linear(list, block + ".mlp.fc1", width, vision.mlp_width());
    add_timm_linear(list, block + ".mlp.fc2", vision.mlp_width(), width);
  }
  list.add_layer_norm("visual.trunk.norm", width);
  const std::string pool = "visual.trunk.attn_pool";
  list.add(pool + ".latent", {1, 1, width}, normal(inverse_root(width)), false);
  add_timm_linear(list, pool + ".q", width, width);
  add_timm_linear(list, pool + ".kv", width, 2 * width);
  add_timm_linear(list, pool + ".proj", width, width);
  list.add_layer_norm(pool + ".norm", width);
  add_timm_linear(list, pool + ".mlp.fc1", width, vision.mlp_width());
  add_timm_linear(list, pool + ".mlp.fc2", vision.mlp_width(), width);
  add_timm_head(list, vision, width, embed_dim);
}

double TimmVitTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  const auto width = static_cast<double>(vision.width), mlp_width = static_cast<double>(vision.mlp_width());
  const double patch_inputs = static_cast<double>(3 * vision.patch_size * vision.patch_size);
  const double pool = cross_attention_flops(1, tokens, vision.width, vision.width) + 4.0 * width * mlp_width;
  return 2.0 * static_cast<double>(vision.patches()) * patch_inputs * width +
         static_cast<double>(vision.layers) * block_flops(tokens, vision.width, vision.mlp_width()) + pool +
         projection_forward_flops(vision.width, embed_dim, vision.head);
}

double TimmVitTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  return stack_activation_bytes(*blocks(vision), bytes);
}

std::optional<BlockDims> TimmVitTower::blocks(const VisionShape& vision) {
  return BlockDims{vision.layers, vision.tokens(), vision.width, vision.heads(), vision.mlp_width()};
}

}  // namespace lockstep::config
