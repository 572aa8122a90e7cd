#include "config/image_towers/timm_vit.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/shape_check.h"
#include "config/timm_towers.h"

namespace lockstep::config {
namespace {

constexpr double kTimmDeviation = 0.02;
constexpr double kClassDeviation = 1e-6;   // of VisionTransformer; Eva's is that of its matrices
constexpr double kEvaHeadScale = 0.001;    // timm's head_init_scale
constexpr int64_t kStemChannelsShare = 4;  // of the width, between the stem's convolutions

const char* name_of(ImagePool pool) {
  switch (pool) {
    case ImagePool::kMean: return "avg";
    case ImagePool::kClassToken: return "token";
    case ImagePool::kAttention: break;
  }
  return "map";
}

/// timm's towers with relative positions begin as PyTorch's layers do.
bool begins_as_torch(const VisionShape& vision) { return vision.timm.position_mlp_width > 0; }

InitLaw matrix_law(const VisionShape& vision, int64_t in, double scale = 1) {
  return begins_as_torch(vision) ? fan_in(in) : normal(scale * kTimmDeviation);
}

void add_timm_linear(ParamList& list, const VisionShape& vision, const std::string& name, int64_t in, int64_t out,
                     double scale = 1) {
  list.add_linear(name, in, out, matrix_law(vision, in, scale), begins_as_torch(vision) ? fan_in(in) : zeros());
}

void add_attention(ParamList& list, const std::string& name, const VisionShape& vision, double scale) {
  using Bias = TimmVitShape::QkvBias;
  const int64_t width = vision.width;
  if (vision.timm.qkv_bias == Bias::kNotKeys)
    for (const char* bias : {".q_bias", ".v_bias"}) list.add(name + bias, {width}, zeros(), false);
  list.add(name + ".qkv.weight", {3 * width, width}, matrix_law(vision, width), true);
  if (vision.timm.qkv_bias == Bias::kAll) list.add(name + ".qkv.bias", {3 * width}, zeros(), true);
  if (const int64_t hidden = vision.timm.position_mlp_width; hidden > 0) {
    add_timm_linear(list, vision, name + ".rel_pos.mlp.fc1", 2, hidden);
    add_timm_linear(list, vision, name + ".rel_pos.mlp.fc2", hidden, vision.heads());
  }
  add_timm_linear(list, vision, name + ".proj", width, width, scale);
}

void add_mlp(ParamList& list, const VisionShape& vision, const std::string& name, int64_t mlp_width, double scale = 1) {
  add_timm_linear(list, vision, name + ".fc1", vision.width, mlp_width);
  add_timm_linear(list, vision, name + ".fc2", mlp_width, vision.width, scale);
}

/// timm's GeGluMlp.
void add_gated_mlp(ParamList& list, const VisionShape& vision, const std::string& name) {
  const int64_t width = vision.width, mlp_width = vision.mlp_width();
  list.add_layer_norm(name + ".norm", width);
  add_timm_linear(list, vision, name + ".w0", width, mlp_width);
  add_timm_linear(list, vision, name + ".w1", width, mlp_width);
  add_timm_linear(list, vision, name + ".w2", mlp_width, width);
}

void add_timm_block(ParamList& list, int64_t index, const VisionShape& vision) {
  const std::string block = fmt::format("visual.trunk.blocks.{}", index);
  // Eva makes what a block adds smaller the deeper it is.
  const double scale = vision.timm.begins_as_eva ? 1 / std::sqrt(2.0 * static_cast<double>(index + 1)) : 1.0;
  const auto add_scale = [&](const char* name) {
    if (vision.layer_scale) list.add(block + name, {vision.width}, constant(*vision.layer_scale), false);
  };
  if (!vision.timm.norms_follow) list.add_layer_norm(block + ".norm1", vision.width);
  add_attention(list, block + ".attn", vision, scale);
  if (vision.timm.norms_follow) list.add_layer_norm(block + ".norm1", vision.width);
  add_scale(".ls1.gamma");
  if (!vision.timm.norms_follow) list.add_layer_norm(block + ".norm2", vision.width);
  if (vision.timm.has_gated_mlp)
    add_gated_mlp(list, vision, block + ".mlp");
  else
    add_mlp(list, vision, block + ".mlp", vision.mlp_width(), scale);
  if (vision.timm.norms_follow) list.add_layer_norm(block + ".norm2", vision.width);
  add_scale(".ls2.gamma");
}

void add_pool(ParamList& list, const VisionShape& vision) {
  const std::string pool = "visual.trunk.attn_pool";
  const int64_t width = vision.width;
  list.add(pool + ".latent", {1, 1, width}, normal(inverse_root(width)), false);
  add_timm_linear(list, vision, pool + ".q", width, width);
  add_timm_linear(list, vision, pool + ".kv", width, 2 * width);
  add_timm_linear(list, vision, pool + ".proj", width, width);
  list.add_layer_norm(pool + ".norm", width);
  add_mlp(list, vision, pool + ".mlp", vision.pool_mlp_width());
}

void add_patch_embedding(ParamList& list, const VisionShape& vision) {
  const int64_t width = vision.width;
  list.add_conv("visual.trunk.patch_embed.proj", 3, width, vision.patch_size);
  // A norm in front of the blocks takes the place of the bias.
  if (!vision.has_ln_pre)
    list.add("visual.trunk.patch_embed.proj.bias", {width}, fan_in(3 * vision.patch_size * vision.patch_size), true);
}

void add_stem(ParamList& list, const VisionShape& vision) {
  int index = 0;
  for (const StemConv& conv : stem_convs(vision.width)) {
    const std::string name = fmt::format("visual.trunk.patch_embed.backbone.{}", index++);
    list.add_conv(name + ".conv", conv.in, conv.out, conv.kernel);
    if (conv.is_last)
      list.add(name + ".conv.bias", {conv.out}, fan_in(conv.in * conv.kernel * conv.kernel), true);
    else
      list.add_batch_norm(name + ".bn", conv.out);
  }
}

void add_positions(ParamList& list, const VisionShape& vision) {
  const int64_t width = vision.width;
  if (vision.has_class_token)
    list.add("visual.trunk.cls_token", {1, 1, width},
             normal(vision.timm.begins_as_eva ? kTimmDeviation : kClassDeviation), false);
  if (!vision.timm.has_positions) return;
  const int64_t positions = vision.timm.has_class_position ? vision.tokens() : vision.patches();
  list.add("visual.trunk.pos_embed", {1, positions, width}, normal(kTimmDeviation), false);
}

void add_rest(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t width = vision.width;
  if (vision.has_ln_pre) list.add_layer_norm("visual.trunk.norm_pre", width);
  for (int64_t i = 0; i < vision.layers; ++i) add_timm_block(list, i, vision);
  list.add_layer_norm(vision.norms_after_pool ? "visual.trunk.fc_norm" : "visual.trunk.norm", width);
  if (vision.pool == ImagePool::kAttention) add_pool(list, vision);
  if (vision.timm.has_own_head)
    add_timm_linear(list, vision, "visual.trunk.head", width, embed_dim,
                    vision.timm.begins_as_eva ? kEvaHeadScale : 1.0);
  add_timm_head(list, vision, width, embed_dim);
}

/// Behind the patches' embedding. The MLP of relative positions, which runs once for all pictures, is left out.
double flops_of_rest(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  const auto width = static_cast<double>(vision.width);
  const double pool = vision.pool == ImagePool::kAttention
                          ? cross_attention_flops(1, tokens, vision.width, vision.width) +
                                4.0 * width * static_cast<double>(vision.pool_mlp_width())
                          : 0.0;
  const double head = vision.timm.has_own_head ? 2.0 * width * static_cast<double>(embed_dim)
                                               : projection_forward_flops(vision.width, embed_dim, vision.head);
  double block = block_flops(tokens, vision.width, vision.mlp_width());
  if (vision.timm.has_gated_mlp) block += 2.0 * static_cast<double>(tokens * vision.mlp_width()) * width;
  return static_cast<double>(vision.layers) * block + pool + head;
}

/// A convolution or (kernel 0) a norm of ViTamin's stem; `side`: cells along one side of its result.
struct VitaminPart {
  std::string name;
  int64_t in = 0, out = 0, kernel = 0, side = 0;
  bool is_depthwise = false, begins_by_default = false;
};

std::vector<VitaminPart> vitamin_parts(const VisionShape& vision) {
  constexpr int64_t kExpansion = 4;
  int64_t side = vision.image_size / 2, in = vision.timm.stem_widths[0];
  std::vector<VitaminPart> parts{
      {"stem.conv1", 3, in, 3, side}, {"stem.norm1", in, in, 0, side}, {"stem.conv2", in, in, 3, side}};
  for (size_t stage = 0; stage < vision.timm.stem_widths.size(); ++stage)
    for (int64_t i = 0; i < vision.timm.stem_depths[stage]; ++i) {
      const int64_t out = vision.timm.stem_widths[stage], side_before = side;
      const std::string name = fmt::format("stages.{}.{}", stage, i);
      if (i == 0) side /= 2;
      if (in != out) parts.push_back({name + ".shortcut.expand", in, out, 1, side});
      parts.push_back({name + ".pre_norm", in, in, 0, side_before});
      parts.push_back({name + ".conv1_1x1", in, kExpansion * out, 1, side_before});
      parts.push_back({name + ".conv2_kxk", kExpansion * out, kExpansion * out, 3, side, /*is_depthwise=*/true});
      parts.push_back({name + ".conv3_1x1", kExpansion * out, out, 1, side});
      in = out;
    }
  parts.push_back({"pool.proj", in, vision.width, 3, side / 2, false, /*begins_by_default=*/true});
  parts.push_back({"pool.norm", in, in, 0, side});
  return parts;
}

void check_sizes(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require_between(shape, "vision layers", vision.layers, 1, 1000);
  require_between(shape, "vision patch_size", vision.patch_size, 1, vision.image_size);
  for (const double ratio : {vision.mlp_ratio, vision.timm.pool_mlp_ratio > 0.0 ? vision.timm.pool_mlp_ratio : 1.0})
    require(std::isfinite(ratio) && ratio > 0.0 && ratio <= 64.0 && static_cast<double>(vision.width) * ratio >= 1.0,
            shape, fmt::format("vision mlp_ratio={} is out of range, expected above 0, at most 64", ratio));
  require(!vision.norms_after_pool || vision.pool == ImagePool::kMean, shape,
          "a norm behind the pool needs timm_pool \"avg\"");
  require(vision.width % vision.attention_pool_heads() == 0, shape,
          fmt::format("vision attn_pool_num_heads={} does not divide the width {}", vision.attention_pool_heads(),
                      vision.width));
  require(vision.drop_path >= 0.0 && vision.drop_path < 1.0, shape,
          fmt::format("timm_drop_path={} is out of range, expected 0 <= value < 1", vision.drop_path));
}

}  // namespace

std::array<StemConv, 3> stem_convs(int64_t width) {
  const int64_t narrow = width / kStemChannelsShare;
  return {StemConv{3, narrow, 4, false}, StemConv{narrow, narrow, 2, false}, StemConv{narrow, width, 2, true}};
}

bool TimmVitTower::is_meant(const VisionShape&) { return false; }

void TimmVitTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  check_sizes(shape);
  require(vision.pool == vision.timm.pool, shape,
          fmt::format("this tower of timm has another pool: timm_pool must be \"{}\"", name_of(vision.timm.pool)));
  require(vision.pool != ImagePool::kClassToken || vision.has_class_token, shape,
          "timm_pool \"token\" needs a class token");
  const bool has_head = vision.timm.has_own_head || vision.head.kind != ProjectionShape::Kind::kNone;
  require(
      has_head || vision.width == shape.embed_dim, shape,
      fmt::format("timm_proj \"none\" needs the tower's width {} to be embed_dim {}", vision.width, shape.embed_dim));
  require(!vision.has_attentional_pool && !vision.has_fixed_positions, shape,
          "attentional_pool and pos_embed_type belong to OpenCLIP's own vision transformer");
  if (vision.timm.position_mlp_width != 0) {
    require_between(shape, "vision rel_pos_dim", vision.timm.position_mlp_width, 1, 65536);
    require(vision.timm.position_dropout >= 0.0 && vision.timm.position_dropout < 1.0, shape,
            fmt::format("rel_pos_drop={} is out of range, expected 0 <= value < 1", vision.timm.position_dropout));
    require(vision.patch_dropout == 0.0, shape, "patch_dropout of a tower with relative positions is not supported");
  }
  if (!vision.timm.rotary) return;
  require(vision.head_width % 4 == 0, shape,
          fmt::format("vision head_width={} must be a multiple of 4 for rotary positions", vision.head_width));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout of a tower with rotary positions is not supported");
}

int64_t TimmVitTower::feature_width(const VisionShape& vision) { return vision.width; }

int64_t TimmVitTower::grid(const VisionShape& vision) { return vision.image_size / vision.patch_size; }

void TimmVitTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  add_positions(list, vision);
  add_patch_embedding(list, vision);
  add_rest(list, vision, embed_dim);
}

double TimmVitTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  const double patch_inputs = static_cast<double>(3 * vision.patch_size * vision.patch_size);
  return 2.0 * static_cast<double>(vision.patches()) * patch_inputs * static_cast<double>(vision.width) +
         flops_of_rest(vision, embed_dim, tokens);
}

double TimmVitTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  BlockDims dims = *blocks(vision);
  if (vision.timm.has_gated_mlp) dims.mlp_width *= 2;
  ActivationBytes kept = bytes;
  // A bias with a gradient takes CPUs' fused kernel away; elsewhere its gradient is as large as the probabilities.
  kept.keeps_attention = kept.keeps_attention || vision.timm.position_mlp_width > 0;
  return stack_activation_bytes(dims, kept);
}

std::optional<BlockDims> TimmVitTower::blocks(const VisionShape& vision) {
  return BlockDims{vision.layers, vision.tokens(), vision.width, vision.heads(), vision.mlp_width()};
}

void TimmStemVitTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  TimmVitTower::check(shape);
  int64_t stride = 1;
  for (const StemConv& conv : stem_convs(vision.width)) stride *= conv.kernel;
  require(vision.patch_size == stride && vision.image_size % stride == 0, shape,
          fmt::format("image_size={} and patch_size={} must be a multiple of the stem's stride, and that: {}",
                      vision.image_size, vision.patch_size, stride));
  require(vision.width % kStemChannelsShare == 0, shape, fmt::format("vision width={} is odd", vision.width));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout behind a stem of convolutions is not supported");
  require(!vision.has_ln_pre, shape, "a tower with a stem of convolutions has no norm in front of the blocks");
}

void TimmStemVitTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  add_positions(list, vision);
  add_stem(list, vision);
  add_rest(list, vision, embed_dim);
}

double TimmStemVitTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  double total = flops_of_rest(vision, embed_dim, tokens);
  int64_t side = vision.image_size;
  for (const StemConv& conv : stem_convs(vision.width)) {
    side /= conv.kernel;
    total +=
        2.0 * static_cast<double>(conv.in * conv.kernel * conv.kernel * conv.out) * static_cast<double>(side * side);
  }
  return total;
}

/// Of the stem: each convolution's result, and those of batch norm and GELU.
double TimmStemVitTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  double elements = 0;
  int64_t side = vision.image_size;
  for (const StemConv& conv : stem_convs(vision.width)) {
    side /= conv.kernel;
    elements += static_cast<double>(conv.out * side * side) * (conv.is_last ? 1.0 : 3.0);
  }
  return TimmVitTower::activation_bytes(vision, bytes) + elements * bytes.compute;
}

void VitaminTower::check(const ClipShape& shape) {
  constexpr int64_t kStride = 16;
  const VisionShape& vision = shape.vision;
  TimmVitTower::check(shape);
  for (const auto* sizes : {&vision.timm.stem_widths, &vision.timm.stem_depths})
    for (const int64_t size : *sizes) require_between(shape, "vision embed_dim and depths of the stem", size, 1, 65536);
  require(vision.patch_size == kStride && vision.image_size % kStride == 0, shape,
          fmt::format("image_size={} and patch_size={} must be a multiple of ViTamin's stride, and that: {}",
                      vision.image_size, vision.patch_size, kStride));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout behind a stem of convolutions is not supported");
  require(!vision.has_ln_pre, shape, "a tower with a stem of convolutions has no norm in front of the blocks");
}

void VitaminTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  add_positions(list, vision);
  for (const VitaminPart& part : vitamin_parts(vision)) {
    const std::string name = "visual.trunk.patch_embed.backbone." + part.name;
    if (part.kernel == 0) {
      list.add_layer_norm(name, part.in);
      continue;
    }
    const int64_t inputs = part.is_depthwise ? 1 : part.in, area = part.kernel * part.kernel;
    const int64_t fan_out = area * (part.is_depthwise ? 1 : part.out);
    list.add(name + ".weight", {part.out, inputs, part.kernel, part.kernel},
             part.begins_by_default ? fan_in(inputs * area) : normal(std::sqrt(2.0 / static_cast<double>(fan_out))),
             true);
    list.add(name + ".bias", {part.out}, part.begins_by_default ? fan_in(inputs * area) : zeros(), true);
  }
  add_rest(list, vision, embed_dim);
}

double VitaminTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens) {
  double total = flops_of_rest(vision, embed_dim, tokens);
  for (const VitaminPart& part : vitamin_parts(vision))
    total += 2.0 * static_cast<double>((part.is_depthwise ? 1 : part.in) * part.kernel * part.kernel * part.out) *
             static_cast<double>(part.side * part.side);
  return total;
}

/// Of the stem: each part's result, twice where GELU is behind it.
double VitaminTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  double elements = 0;
  for (const VitaminPart& part : vitamin_parts(vision)) {
    const bool has_gelu = part.name == "stem.norm1" || part.name.find(".conv1_") != std::string::npos ||
                          part.name.find(".conv2_") != std::string::npos;
    elements += static_cast<double>(part.out * part.side * part.side) * (has_gelu ? 2.0 : 1.0);
  }
  return TimmVitTower::activation_bytes(vision, bytes) + elements * bytes.compute;
}

std::vector<NameGroup> TimmVitTower::layer_groups(const VisionShape& vision) {
  auto groups = timm_block_groups(vision.layers);
  if (vision.norms_after_pool || vision.pool == ImagePool::kAttention || vision.timm.has_own_head)
    groups.push_back({"visual.trunk.fc_norm.", "visual.trunk.attn_pool.", "visual.trunk.head."});
  return groups;
}

}  // namespace lockstep::config
