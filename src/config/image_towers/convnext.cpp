#include "config/image_towers/convnext.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/clip_shape.h"
#include "config/shape_check.h"
#include "config/timm_towers.h"

namespace lockstep::config {
namespace {

constexpr double kConvNextDeviation = 0.02;
constexpr int64_t kStride = 32, kStemPatch = 4, kKernel = 7;

struct ConvNextStage {
  int64_t index, depth, width, side;  ///< Blocks, channels, cells per side.
};

std::vector<ConvNextStage> stages_of(const VisionShape& vision) {
  std::vector<ConvNextStage> stages;
  for (int64_t i = 0; i < std::ssize(vision.stages); ++i)
    stages.push_back(
        {i, vision.stages[static_cast<size_t>(i)], vision.width << i, (vision.image_size / kStemPatch) >> i});
  return stages;
}

void add_drawn(ParamList& list, const std::string& name, std::vector<int64_t> shape) {
  const int64_t out = shape.front();
  list.add(name + ".weight", std::move(shape), normal(kConvNextDeviation), true);
  list.add(name + ".bias", {out}, zeros(), true);
}

}  // namespace

bool ConvNextTower::is_meant(const VisionShape&) { return false; }

void ConvNextTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require(vision.stages.size() == 4, shape,
          fmt::format("vision layers has {} entries, expected 4", vision.stages.size()));
  for (const int64_t blocks : vision.stages) require_between(shape, "vision layers", blocks, 1, 1000);
  require(vision.image_size % kStride == 0, shape,
          fmt::format("image_size={} must be a multiple of 32 for a ConvNeXt, nearest are {} and {}", vision.image_size,
                      std::max<int64_t>(1, vision.image_size / kStride) * kStride,
                      (vision.image_size / kStride + 1) * kStride));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout needs a vision transformer, this is a ConvNeXt");
  require(vision.pool == ImagePool::kMean, shape, "a ConvNeXt pools by averaging: timm_pool must be \"\" or \"avg\"");
  require(vision.head.kind != ProjectionShape::Kind::kNone || vision.feature_width() == shape.embed_dim, shape,
          fmt::format("timm_proj \"none\" needs the tower's width {} to be embed_dim {}", vision.feature_width(),
                      shape.embed_dim));
  require_fraction(shape, "timm_drop_path", vision.drop_path);
}

int64_t ConvNextTower::feature_width(const VisionShape& vision) { return vision.width * 8; }

int64_t ConvNextTower::grid(const VisionShape& vision) { return vision.image_size / kStride; }

void ConvNextTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  add_drawn(list, "visual.trunk.stem.0", {vision.width, 3, kStemPatch, kStemPatch});
  list.add_layer_norm("visual.trunk.stem.1", vision.width);
  for (const ConvNextStage& stage : stages_of(vision)) {
    const std::string name = fmt::format("visual.trunk.stages.{}", stage.index);
    const int64_t width = stage.width;
    if (stage.index > 0) {
      list.add_layer_norm(name + ".downsample.0", width / 2);
      add_drawn(list, name + ".downsample.1", {width, width / 2, 2, 2});
    }
    for (int64_t i = 0; i < stage.depth; ++i) {
      const std::string block = fmt::format("{}.blocks.{}", name, i);
      list.add(block + ".gamma", {width}, constant(*vision.layer_scale), false);
      add_drawn(list, block + ".conv_dw", {width, 1, kKernel, kKernel});
      list.add_layer_norm(block + ".norm", width);
      add_drawn(list, block + ".mlp.fc1", {4 * width, width});
      add_drawn(list, block + ".mlp.fc2", {width, 4 * width});
    }
  }
  list.add_layer_norm("visual.trunk.head.norm", vision.feature_width());
  add_timm_head(list, vision, vision.feature_width(), embed_dim);
}

double ConvNextTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t) {
  double total = 0.0;
  const auto add = [&](int64_t cells, int64_t inputs, int64_t outputs, int64_t repeats) {
    total += 2.0 * static_cast<double>(cells) * static_cast<double>(inputs) * static_cast<double>(outputs) *
             static_cast<double>(repeats);
  };
  for (const ConvNextStage& stage : stages_of(vision)) {
    const int64_t cells = stage.side * stage.side, width = stage.width;
    add(cells, stage.index == 0 ? 3 * kStemPatch * kStemPatch : 4 * width / 2, width, 1);
    add(cells, kKernel * kKernel, width, stage.depth);
    add(cells, 8 * width, width, stage.depth);
  }
  return total + projection_forward_flops(vision.feature_width(), embed_dim, vision.head);
}

/// Of each block its input, the results of convolution, norm, both sides of the GELU, and of the last matrix.
double ConvNextTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  double total = 0.0, largest_block = 0.0;
  for (const ConvNextStage& stage : stages_of(vision)) {
    const double cells = static_cast<double>(stage.side * stage.side), width = static_cast<double>(stage.width),
                 depth = static_cast<double>(stage.depth);
    const double block = cells * width * (bytes.stream + 11 * bytes.compute);
    total += bytes.grad_checkpointing ? depth * cells * width * bytes.stream : depth * block;
    largest_block = std::max(largest_block, block);
    total += 2 * cells * width * bytes.stream;  // between stages: normalised, convolved
  }
  return total + (bytes.grad_checkpointing ? largest_block : 0.0);
}

std::optional<BlockDims> ConvNextTower::blocks(const VisionShape&) { return std::nullopt; }

std::vector<NameGroup> ConvNextTower::layer_groups(const VisionShape& vision) {
  auto groups = timm_stage_groups("visual.trunk.stages", vision.stages, {"downsample."});
  groups.insert(groups.begin(), {"visual.trunk.stem."});
  groups.push_back({"visual.trunk.head."});  // its norm
  return groups;
}

}  // namespace lockstep::config
