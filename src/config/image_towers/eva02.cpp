#include "config/image_towers/eva02.h"

#include <fmt/format.h>

#include <cmath>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/shape_check.h"
#include "config/timm_towers.h"

namespace lockstep::config {
namespace {

constexpr double kEvaDeviation = 0.02;
constexpr double kHeadScale = 0.001;  ///< timm's head_init_scale

void add_eva_matrix(ParamList& list, const std::string& name, int64_t in, int64_t out, double scale = 1) {
  list.add(name + ".weight", {out, in}, normal(scale * kEvaDeviation), true);
  list.add(name + ".bias", {out}, zeros(), true);
}

}  // namespace

bool Eva02Tower::is_meant(const VisionShape&) { return false; }

void Eva02Tower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require_between(shape, "vision layers", vision.layers, 1, 1000);
  require_between(shape, "vision patch_size", vision.patch_size, 1, vision.image_size);
  require(
      std::isfinite(vision.mlp_ratio) && vision.mlp_ratio > 0.0 && vision.mlp_ratio <= 64.0 && vision.mlp_width() >= 1,
      shape, fmt::format("vision mlp_ratio={} is out of range, expected above 0, at most 64", vision.mlp_ratio));
  require(vision.head_width % 4 == 0, shape,
          fmt::format("vision head_width={} must be a multiple of 4 for rotary positions", vision.head_width));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout of an EVA02 tower is not supported");
  require(vision.pool == ImagePool::kClassToken, shape, "an EVA02 tower pools at its class token: timm_pool \"token\"");
}

int64_t Eva02Tower::feature_width(const VisionShape& vision) { return vision.width; }

int64_t Eva02Tower::grid(const VisionShape& vision) { return vision.image_size / vision.patch_size; }

void Eva02Tower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t width = vision.width, mlp_width = vision.mlp_width();
  list.add_conv("visual.trunk.patch_embed.proj", 3, width, vision.patch_size);
  list.add("visual.trunk.patch_embed.proj.bias", {width}, fan_in(3 * vision.patch_size * vision.patch_size), true);
  list.add("visual.trunk.cls_token", {1, 1, width}, normal(kEvaDeviation), false);
  list.add("visual.trunk.pos_embed", {1, vision.tokens(), width}, normal(kEvaDeviation), false);
  for (int64_t i = 0; i < vision.layers; ++i) {
    const std::string block = fmt::format("visual.trunk.blocks.{}", i);
    list.add_layer_norm(block + ".norm1", width);
    add_eva_matrix(list, block + ".attn.q_proj", width, width);
    list.add(block + ".attn.k_proj.weight", {width, width}, normal(kEvaDeviation), true);
    add_eva_matrix(list, block + ".attn.v_proj", width, width);
    list.add_layer_norm(block + ".attn.norm", width);
    const double depth_scale = 1 / std::sqrt(2.0 * static_cast<double>(i + 1));  // of what a block adds (timm)
    add_eva_matrix(list, block + ".attn.proj", width, width, depth_scale);
    list.add_layer_norm(block + ".norm2", width);
    add_eva_matrix(list, block + ".mlp.fc1_g", width, mlp_width);
    add_eva_matrix(list, block + ".mlp.fc1_x", width, mlp_width);
    list.add_layer_norm(block + ".mlp.norm", mlp_width);
    add_eva_matrix(list, block + ".mlp.fc2", mlp_width, width, depth_scale);
  }
  list.add_layer_norm("visual.trunk.norm", width);
  add_eva_matrix(list, "visual.trunk.head", width, embed_dim, kHeadScale);
}

double Eva02Tower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  const auto t = static_cast<double>(tokens), width = static_cast<double>(vision.width),
             mlp_width = static_cast<double>(vision.mlp_width());
  const double patch_inputs = static_cast<double>(3 * vision.patch_size * vision.patch_size);
  const double block =
      block_flops(tokens, vision.width, vision.mlp_width()) + 2.0 * t * width * mlp_width;  // the gates
  return 2.0 * static_cast<double>(vision.patches()) * patch_inputs * width +
         static_cast<double>(vision.layers) * block + 2.0 * width * static_cast<double>(embed_dim);
}

/// Two more rows of the MLP's width than a plain block: gates and their product.
double Eva02Tower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  BlockDims dims = *blocks(vision);
  dims.mlp_width *= 2;
  return stack_activation_bytes(dims, bytes);
}

std::optional<BlockDims> Eva02Tower::blocks(const VisionShape& vision) {
  return BlockDims{vision.layers, vision.tokens(), vision.width, vision.heads(), vision.mlp_width()};
}

std::vector<NameGroup> Eva02Tower::layer_groups(const VisionShape& vision) {
  auto groups = timm_block_groups(vision.layers);
  groups.push_back({"visual.trunk.head."});
  return groups;
}

}  // namespace lockstep::config
