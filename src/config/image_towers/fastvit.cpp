#include "config/image_towers/fastvit.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/clip_shape.h"
#include "config/shape_check.h"
#include "config/timm_towers.h"

namespace lockstep::config {
namespace {

constexpr double kFastVitDeviation = 0.02;
constexpr int64_t kFewStages = 4, kManyStages = 5;

int64_t halved(int64_t side) { return (side + 1) / 2; }

/// Lists the layers of a tower in the order of timm's modules, and sums up their work.
class FastVitLayers {
 public:
  FastVitLayers(ParamList& list, const VisionShape& vision) : list_(list), vision_(vision) {}

  void add_stem() {
    int64_t side = vision_.image_size;
    int index = 0;
    for (const MobileOneShape& block : fastvit_stem(vision_)) {
      if (block.conv.stride == 2) side = halved(side);
      mobile_one(fmt::format("visual.trunk.stem.{}", index++), block, side * side);
    }
  }

  void add_stage(const FastVitStage& stage) {
    const std::string name = fmt::format("visual.trunk.stages.{}", stage.index);
    const int64_t width = stage.width, cells = stage.cells();
    if (stage.index > 0) {
      const std::string proj = name + ".downsample.proj.";
      conv_norm(proj + "0.large_conv", {width / 2, width, kFastVitLargeKernel, true}, cells);
      conv_norm(proj + "0.small_conv", {width / 2, width, kFastVitSmallKernel, true}, cells);
      if (stage.squeezed > 0) squeeze(proj + "0.se", width, stage.squeezed);
      mobile_one(proj + "1", fastvit_pointwise(width), cells);
    }
    if (stage.attends) {
      const InitLaw law = fan_in(kFastVitLargeKernel * kFastVitLargeKernel);
      biased_conv(name + ".pos_emb.pos_enc", {width, width, kFastVitLargeKernel, true}, cells, law, law);
    }
    for (int64_t i = 0; i < stage.depth; ++i) {
      const std::string block = fmt::format("{}.blocks.{}", name, i);
      if (stage.attends)
        attention_block(block, stage);
      else
        mixer_block(block, stage);
    }
  }

  void mobile_one(const std::string& name, const MobileOneShape& block, int64_t cells) {
    const ConvShape& sizes = block.conv;
    if (block.squeezed > 0) squeeze(name + ".se", sizes.out, block.squeezed);
    if (block.has_identity()) list_.add_batch_norm(name + ".identity", sizes.in);
    if (block.has_conv) conv_norm(name + ".conv_kxk.0", sizes, cells);
    if (block.has_scale_branch()) conv_norm(name + ".conv_scale", {sizes.in, sizes.out, 1, sizes.is_depthwise}, cells);
  }

  void linear(const std::string& name, int64_t in, int64_t out, int64_t cells, bool has_bias = true) {
    weight(name, {out, in}, normal(kFastVitDeviation), cells);
    if (has_bias) list_.add(name + ".bias", {out}, zeros(), true);
  }

  double flops() const { return flops_; }

 private:
  void weight(const std::string& name, std::vector<int64_t> shape, InitLaw law, int64_t cells) {
    double products = 2.0 * static_cast<double>(cells);
    for (const int64_t size : shape) products *= static_cast<double>(size);
    flops_ += products;
    list_.add(name + ".weight", std::move(shape), law, true);
  }

  void conv(const std::string& name, const ConvShape& sizes, int64_t cells, InitLaw law) {
    weight(name, {sizes.out, sizes.is_depthwise ? 1 : sizes.in, sizes.kernel, sizes.kernel}, law, cells);
  }

  void biased_conv(const std::string& name, const ConvShape& sizes, int64_t cells, InitLaw law, InitLaw bias) {
    conv(name, sizes, cells, law);
    list_.add(name + ".bias", {sizes.out}, bias, true);
  }

  void conv_norm(const std::string& name, const ConvShape& sizes, int64_t cells) {
    conv_norm(name, sizes, cells, fan_in((sizes.is_depthwise ? 1 : sizes.in) * sizes.kernel * sizes.kernel));
  }

  void conv_norm(const std::string& name, const ConvShape& sizes, int64_t cells, InitLaw law) {
    conv(name + ".conv", sizes, cells, law);
    list_.add_batch_norm(name + ".bn", sizes.out);
  }

  void squeeze(const std::string& name, int64_t width, int64_t squeezed) {
    biased_conv(name + ".fc1", {width, squeezed, 1}, 1, fan_in(width), fan_in(width));
    biased_conv(name + ".fc2", {squeezed, width, 1}, 1, fan_in(squeezed), fan_in(squeezed));
  }

  void scale(const std::string& name, int64_t width) {
    list_.add(name + ".gamma", {width, 1, 1}, constant(*vision_.layer_scale), false);
  }

  void mlp(const std::string& name, const FastVitStage& stage) {
    const InitLaw law = normal(kFastVitDeviation);
    conv_norm(name + ".conv", {stage.width, stage.width, kFastVitLargeKernel, true}, stage.cells(), law);
    biased_conv(name + ".fc1", {stage.width, stage.mlp_width, 1}, stage.cells(), law, zeros());
    biased_conv(name + ".fc2", {stage.mlp_width, stage.width, 1}, stage.cells(), law, zeros());
  }

  void mixer_block(const std::string& name, const FastVitStage& stage) {
    mobile_one(name + ".token_mixer.norm", fastvit_mixer_norm(stage.width), stage.cells());
    mobile_one(name + ".token_mixer.mixer", fastvit_mixer(stage.width), stage.cells());
    scale(name + ".token_mixer.layer_scale", stage.width);
    mlp(name + ".mlp", stage);
    scale(name + ".layer_scale", stage.width);
  }

  void attention_block(const std::string& name, const FastVitStage& stage) {
    const int64_t width = stage.width, cells = stage.cells();
    if (is_large_fastvit(vision_))
      list_.add_layer_norm(name + ".norm", width);
    else
      list_.add_batch_norm(name + ".norm", width);
    linear(name + ".token_mixer.qkv", width, 3 * width, cells, /*has_bias=*/false);
    linear(name + ".token_mixer.proj", width, width, cells);
    flops_ += 4.0 * static_cast<double>(cells * cells) * static_cast<double>(width);
    scale(name + ".layer_scale_1", width);
    mlp(name + ".mlp", stage);
    scale(name + ".layer_scale_2", width);
  }

  ParamList& list_;
  const VisionShape& vision_;
  double flops_ = 0.0;
};

/// All layers but those that OpenCLIP puts behind the trunk. Returns their work.
double list_trunk(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  FastVitLayers layers(list, vision);
  layers.add_stem();
  for (const FastVitStage& stage : fastvit_stages(vision)) layers.add_stage(stage);
  layers.mobile_one("visual.trunk.final_conv", fastvit_last_block(vision), vision.patches());
  if (vision.timm.has_own_head) layers.linear("visual.trunk.head.fc", vision.feature_width(), embed_dim, 1);
  return layers.flops();
}

/// Numbers of a MobileOne block that are kept, in widths of its result: what each batch norm behind a convolution
/// reads, the sum, and the result of the activation.
double kept_widths(const MobileOneShape& block) {
  return (block.has_conv ? 1.0 : 0.0) + (block.has_scale_branch() ? 1.0 : 0.0) + (block.squeezed > 0 ? 1.0 : 0.0) +
         (block.has_activation ? 2.0 : 1.0);
}

/// Numbers that a block of the stage keeps for each cell. A mixer: results of its two convolutions, of the difference,
/// and the sum. Attention: the norm, queries, keys and values and their copies by head, its result, that of the matrix
/// behind it, the sum. The MLP: results of convolution and batch norm, both sides of the activation, the last matrix,
/// the sum.
double kept_of_block(const FastVitStage& stage, const VisionShape& vision, bool keeps_attention) {
  const auto width = static_cast<double>(stage.width);
  const double mlp = 4.0 * width + 2.0 * static_cast<double>(stage.mlp_width);
  if (!stage.attends) return 4.0 * width + mlp;
  const int64_t heads = stage.width / vision.head_width;
  const double probabilities = keeps_attention ? static_cast<double>(heads * stage.cells()) : 0.0;
  return 10.0 * width + probabilities + mlp;
}

}  // namespace

bool is_large_fastvit(const VisionShape& vision) { return vision.stages.size() == kManyStages; }

std::vector<MobileOneShape> fastvit_stem(const VisionShape& vision) {
  const int64_t width = vision.width;
  const bool has_scale = !is_large_fastvit(vision);
  return {{.conv = {3, width, 3, /*is_depthwise=*/false, /*stride=*/2}, .has_scale = has_scale},
          {.conv = {width, width, 3, /*is_depthwise=*/true, /*stride=*/2}, .has_scale = has_scale},
          fastvit_pointwise(width)};
}

MobileOneShape fastvit_last_block(const VisionShape& vision) {
  const int64_t width = vision.feature_width();
  return {.conv = {width / 2, width, 3, /*is_depthwise=*/true}, .squeezed = std::max<int64_t>(1, (width + 8) / 16)};
}

MobileOneShape fastvit_pointwise(int64_t width) { return {.conv = {width, width, 1}}; }

MobileOneShape fastvit_mixer(int64_t width) {
  return {.conv = {width, width, kFastVitSmallKernel, /*is_depthwise=*/true}, .has_activation = false};
}

MobileOneShape fastvit_mixer_norm(int64_t width) {
  MobileOneShape shape = fastvit_mixer(width);
  shape.has_conv = shape.has_scale = false;
  return shape;
}

std::vector<FastVitStage> fastvit_stages(const VisionShape& vision) {
  constexpr int64_t kFirstAttention = 3, kFirstSqueezed = 2, kSqueezedMultiple = 8;
  std::vector<FastVitStage> stages;
  int64_t side = halved(halved(vision.image_size));
  for (int64_t i = 0; i < std::ssize(vision.stages); ++i) {
    if (i > 0) side = halved(side);
    const int64_t width = vision.width << i;
    // A quarter, rounded to eights.
    const int64_t squeezed =
        std::max(kSqueezedMultiple, (width / 4 + kSqueezedMultiple / 2) / kSqueezedMultiple * kSqueezedMultiple);
    stages.push_back({.index = i,
                      .depth = vision.stages[static_cast<size_t>(i)],
                      .width = width,
                      .side = side,
                      .mlp_width = static_cast<int64_t>(static_cast<double>(width) * vision.mlp_ratio),
                      .attends = i >= kFirstAttention,
                      .squeezed = i >= kFirstSqueezed && !is_large_fastvit(vision) ? squeezed : 0});
  }
  return stages;
}

bool FastVitTower::is_meant(const VisionShape&) { return false; }

void FastVitTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require(vision.stages.size() == kFewStages || vision.stages.size() == kManyStages, shape,
          fmt::format("vision layers has {} entries, expected 4 or 5", vision.stages.size()));
  for (const int64_t blocks : vision.stages) require_between(shape, "vision layers", blocks, 1, 1000);
  require(vision.mlp_ratio > 0.0 && vision.mlp_ratio <= 64.0, shape,
          fmt::format("vision mlp_ratio={} is out of range, expected above 0, at most 64", vision.mlp_ratio));
  for (const FastVitStage& stage : fastvit_stages(vision))
    require(!stage.attends || stage.width % vision.head_width == 0, shape,
            fmt::format("vision head_width={} does not divide the width {} of stage {}", vision.head_width, stage.width,
                        stage.index));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout needs a vision transformer, this is a FastViT");
  require(vision.pool == ImagePool::kMean, shape, "a FastViT pools by averaging: timm_pool must be \"avg\"");
  const bool has_head = vision.timm.has_own_head || vision.head.kind != ProjectionShape::Kind::kNone;
  require(has_head || vision.feature_width() == shape.embed_dim, shape,
          fmt::format("timm_proj \"none\" needs the tower's width {} to be embed_dim {}", vision.feature_width(),
                      shape.embed_dim));
  require_fraction(shape, "timm_drop_path", vision.drop_path);
}

int64_t FastVitTower::feature_width(const VisionShape& vision) { return vision.width << vision.stages.size(); }

int64_t FastVitTower::grid(const VisionShape& vision) { return fastvit_stages(vision).back().side; }

void FastVitTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  list_trunk(list, vision, embed_dim);
  add_timm_head(list, vision, vision.feature_width(), embed_dim);
}

double FastVitTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t) {
  ParamList unused;
  const double head =
      vision.timm.has_own_head ? 0.0 : projection_forward_flops(vision.feature_width(), embed_dim, vision.head);
  return list_trunk(unused, vision, embed_dim) + head;
}

/// Blocks that are computed again keep their inputs; stem, halvings and what is behind the stages are kept as a whole.
double FastVitTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  double elements = 0.0, largest_block = 0.0;
  int64_t side = vision.image_size;
  for (const MobileOneShape& block : fastvit_stem(vision)) {
    if (block.conv.stride == 2) side = halved(side);
    elements += kept_widths(block) * static_cast<double>(block.conv.out * side * side);
  }
  for (const FastVitStage& stage : fastvit_stages(vision)) {
    const auto cells = static_cast<double>(stage.cells()), width = static_cast<double>(stage.width);
    // The large and the small convolution, what is squeezed, both sides of the activation; then of single cells.
    if (stage.index > 0)
      elements += cells * width * ((stage.squeezed > 0 ? 5.0 : 4.0) + kept_widths(fastvit_pointwise(stage.width)));
    if (stage.attends) elements += cells * width;
    const double block = cells * kept_of_block(stage, vision, bytes.keeps_attention);
    elements += static_cast<double>(stage.depth) * (bytes.grad_checkpointing ? cells * width : block);
    largest_block = std::max(largest_block, block);
  }
  elements += kept_widths(fastvit_last_block(vision)) * static_cast<double>(vision.feature_width() * vision.patches());
  return (elements + (bytes.grad_checkpointing ? largest_block : 0.0)) * bytes.compute;
}

std::optional<BlockDims> FastVitTower::blocks(const VisionShape&) { return std::nullopt; }

std::vector<NameGroup> FastVitTower::layer_groups(const VisionShape& vision) {
  auto groups = timm_stage_groups("visual.trunk.stages", vision.stages, {"downsample.", "pos_emb."});
  groups.insert(groups.begin(), {"visual.trunk.stem."});
  groups.push_back({"visual.trunk.final_conv.", "visual.trunk.head."});
  return groups;
}

}  // namespace lockstep::config
