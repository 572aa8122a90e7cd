#include "config/image_towers/vision_transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/residual_stack.h"
#include "config/shape_check.h"

namespace lockstep::config {

bool VisionTransformerTower::is_meant(const VisionShape& vision) { return vision.stages.empty(); }

void VisionTransformerTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require_between(shape, "vision layers", vision.layers, 1, 1000);
  require_between(shape, "vision patch_size", vision.patch_size, 1, vision.image_size);
  require(vision.pool != ImagePool::kAttention, shape,
          "this vision transformer has no pool by attention of timm's kind");
  require(!vision.has_fixed_positions || vision.width % 4 == 0, shape,
          fmt::format("vision width={} must be a multiple of 4 for pos_embed_type sin_cos_2d", vision.width));
  if (vision.has_attentional_pool) {
    require_between(shape, "vision attn_pooler_queries", vision.pooler_queries, 1, 65536);
    require(
        vision.pooler_heads > 0 && shape.embed_dim % vision.pooler_heads == 0, shape,
        fmt::format("vision attn_pooler_heads={} does not divide embed_dim {}", vision.pooler_heads, shape.embed_dim));
  }
  require(
      std::isfinite(vision.mlp_ratio) && vision.mlp_ratio > 0.0 && vision.mlp_ratio <= 64.0 && vision.mlp_width() >= 1,
      shape, fmt::format("vision mlp_ratio={} is out of range, expected above 0, at most 64", vision.mlp_ratio));
}

int64_t VisionTransformerTower::feature_width(const VisionShape& vision) { return vision.width; }

int64_t VisionTransformerTower::grid(const VisionShape& vision) { return vision.image_size / vision.patch_size; }

void VisionTransformerTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t width = vision.width;
  const InitLaw scaled = normal(inverse_root(width));
  list.add_conv("visual.conv1", 3, width, vision.patch_size);
  list.add("visual.class_embedding", {width}, scaled, false);
  if (vision.has_fixed_positions)
    list.add_buffer("visual.positional_embedding", {vision.tokens(), width}, sin_cos_2d(vision.grid(), width));
  else
    list.add("visual.positional_embedding", {vision.tokens(), width}, scaled, false);
  if (vision.has_ln_pre) list.add_layer_norm("visual.ln_pre", width);
  const BlockLaws laws{uniform(std::sqrt(6.0 / static_cast<double>(4 * width))), fan_in(width), fan_in(width),
                       fan_in(vision.mlp_width())};
  for (int64_t i = 0; i < vision.layers; ++i)
    add_block(list, fmt::format("visual.transformer.resblocks.{}", i), width, vision.mlp_width(), laws,
              vision.layer_scale);
  const int64_t pooled_width = vision.has_attentional_pool ? embed_dim : width;
  if (vision.has_attentional_pool)
    add_attentional_pooler(list, "visual.attn_pool", vision.pooler_queries, embed_dim, width);
  list.add_layer_norm("visual.ln_post", pooled_width);
  list.add("visual.proj", {pooled_width, embed_dim}, scaled, true);
}

double VisionTransformerTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  const auto width = static_cast<double>(vision.width);
  const double patch_inputs = static_cast<double>(3 * vision.patch_size * vision.patch_size);
  const double pooled_width = vision.has_attentional_pool ? static_cast<double>(embed_dim) : width;
  const double pooler =
      vision.has_attentional_pool ? cross_attention_flops(vision.pooler_queries, tokens, embed_dim, vision.width) : 0.0;
  return 2.0 * static_cast<double>(vision.patches()) * patch_inputs * width +
         static_cast<double>(vision.layers) * block_flops(tokens, vision.width, vision.mlp_width()) + pooler +
         2.0 * pooled_width * static_cast<double>(embed_dim);
}

double VisionTransformerTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  const bool last_is_pooled = vision.pool != ImagePool::kMean && !vision.has_attentional_pool;
  return residual_stack_activation_bytes(*blocks(vision), bytes, last_is_pooled);
}

std::optional<BlockDims> VisionTransformerTower::blocks(const VisionShape& vision) {
  return BlockDims{vision.layers, vision.tokens(), vision.width, vision.heads(), vision.mlp_width()};
}

std::vector<NameGroup> VisionTransformerTower::layer_groups(const VisionShape& vision) {
  std::vector<NameGroup> groups = {
      {"visual.conv1.", "visual.class_embedding", "visual.positional_embedding", "visual.ln_pre."}};
  for (int64_t block = 0; block < vision.layers; ++block)
    groups.push_back({fmt::format("visual.transformer.resblocks.{}.", block)});
  groups.back().push_back("visual.ln_post.");
  groups.push_back({"visual.proj"});
  return groups;
}

}  // namespace lockstep::config
