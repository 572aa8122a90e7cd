#include "config/image_towers/swin.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/clip_shape.h"
#include "config/shape_check.h"
#include "config/timm_towers.h"

namespace lockstep::config {
namespace {

constexpr int64_t kHalvings = 8;  // of the cells along one side, from the first stage to the last

}  // namespace

std::vector<SwinStage> swin_stages(const VisionShape& vision) {
  std::vector<SwinStage> stages;
  for (int64_t i = 0; i < std::ssize(vision.stages); ++i) {
    const int64_t side = vision.image_size / vision.patch_size >> i, width = vision.width << i;
    stages.push_back({.index = i,
                      .depth = vision.stages[static_cast<size_t>(i)],
                      .side = side,
                      .block = {.width = width,
                                .heads = width / vision.head_width,
                                .window = std::min(vision.window, side),
                                .mlp_width = static_cast<int64_t>(static_cast<double>(width) * vision.mlp_ratio)}});
  }
  return stages;
}

bool SwinTower::is_meant(const VisionShape&) { return false; }

void SwinTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require(vision.stages.size() == 4, shape,
          fmt::format("vision layers has {} entries, expected 4", vision.stages.size()));
  for (const int64_t blocks : vision.stages) require_between(shape, "vision layers", blocks, 1, 1000);
  require_between(shape, "vision patch_size", vision.patch_size, 1, vision.image_size);
  require_between(shape, "vision window_size", vision.window, 1, 8192);
  const int64_t stride = vision.patch_size * kHalvings;
  require(vision.image_size % stride == 0, shape,
          fmt::format("image_size={} must be a multiple of {} for a Swin of patches of {} pixels", vision.image_size,
                      stride, vision.patch_size));
  for (const SwinStage& stage : swin_stages(vision))
    require(stage.side % stage.block.window == 0, shape,
            fmt::format("window_size={} does not divide the {} cells of stage {} along one side", vision.window,
                        stage.side, stage.index));
  require(vision.width % vision.head_width == 0, shape,
          fmt::format("vision head_width={} does not divide the width {}", vision.head_width, vision.width));
  require(vision.mlp_ratio > 0.0 && vision.mlp_ratio <= 64.0, shape,
          fmt::format("vision mlp_ratio={} is out of range, expected above 0, at most 64", vision.mlp_ratio));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout needs a vision transformer, this is a Swin");
  require(vision.pool == ImagePool::kMean, shape, "a Swin pools by averaging: timm_pool must be \"\" or \"avg\"");
  require(vision.head.kind != ProjectionShape::Kind::kNone || vision.feature_width() == shape.embed_dim, shape,
          fmt::format("timm_proj \"none\" needs the tower's width {} to be embed_dim {}", vision.feature_width(),
                      shape.embed_dim));
  require_fraction(shape, "timm_drop_path", vision.drop_path);
}

int64_t SwinTower::feature_width(const VisionShape& vision) { return vision.width * kHalvings; }

int64_t SwinTower::grid(const VisionShape& vision) { return vision.image_size / (vision.patch_size * kHalvings); }

void SwinTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t patch_inputs = 3 * vision.patch_size * vision.patch_size;
  list.add_conv("visual.trunk.patch_embed.proj", 3, vision.width, vision.patch_size);
  list.add("visual.trunk.patch_embed.proj.bias", {vision.width}, fan_in(patch_inputs), true);
  list.add_layer_norm("visual.trunk.patch_embed.norm", vision.width);
  for (const SwinStage& stage : swin_stages(vision)) {
    const std::string name = fmt::format("visual.trunk.layers.{}", stage.index);
    if (stage.index > 0) add_patch_merging(list, name + ".downsample", stage.block.width / 2);
    for (int64_t i = 0; i < stage.depth; ++i) add_swin_block(list, fmt::format("{}.blocks.{}", name, i), stage.block);
  }
  list.add_layer_norm("visual.trunk.norm", vision.feature_width());
  add_timm_head(list, vision, vision.feature_width(), embed_dim);
}

double SwinTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t) {
  double total = projection_forward_flops(vision.feature_width(), embed_dim, vision.head);
  for (const SwinStage& stage : swin_stages(vision)) {
    const int64_t inputs = stage.index == 0 ? 3 * vision.patch_size * vision.patch_size : 2 * stage.block.width;
    total += 2.0 * static_cast<double>(stage.cells() * inputs) * static_cast<double>(stage.block.width) +
             static_cast<double>(stage.depth) * swin_block_flops(stage.block, stage.cells());
  }
  return total;
}

/// Of each stage its blocks, and in front of them the merged cells and their norm. Of the probabilities of attention,
/// where they are kept, a row of a window for each cell.
double SwinTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  double total = 0.0;
  for (const SwinStage& stage : swin_stages(vision)) {
    const SwinSizes& sizes = stage.block;
    ActivationBytes without = bytes;
    without.keeps_attention = false;
    total += stack_activation_bytes({stage.depth, stage.cells(), sizes.width, sizes.heads, sizes.mlp_width}, without);
    if (bytes.keeps_attention && !bytes.grad_checkpointing)
      total +=
          static_cast<double>(stage.depth * stage.cells() * sizes.heads * sizes.window * sizes.window) * bytes.compute;
    total += static_cast<double>(stage.cells() * sizes.width) * (stage.index == 0 ? 2 : 4) * bytes.stream;
  }
  return total;
}

std::optional<BlockDims> SwinTower::blocks(const VisionShape&) { return std::nullopt; }

std::vector<NameGroup> SwinTower::layer_groups(const VisionShape& vision) {
  auto groups = timm_stage_groups("visual.trunk.layers", vision.stages, {"downsample."});
  groups.insert(groups.begin(), {"visual.trunk.patch_embed."});
  groups.back().push_back("visual.trunk.norm.");
  return groups;
}

}  // namespace lockstep::config
