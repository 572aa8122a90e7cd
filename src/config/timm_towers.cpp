#include "config/timm_towers.h"

#include <fmt/format.h>

#include <array>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

/// timm's SigLIP towers: "<kind><pixels>".
struct SiglipVitRow {
  std::string_view kind;
  int64_t width, layers, head_width, patch_size;
  double mlp_ratio;
  bool has_tanh_gelu;  ///< But for large towers at 512 pixels, which alone have it.
};
constexpr double kSo400mRatio = 3.7362;
constexpr std::array kSiglipVits{
    SiglipVitRow{"vit_base_patch32_siglip_", 768, 12, 64, 32, 4.0, true},
    SiglipVitRow{"vit_base_patch16_siglip_", 768, 12, 64, 16, 4.0, false},
    SiglipVitRow{"vit_large_patch16_siglip_", 1024, 24, 64, 16, 4.0, false},
    SiglipVitRow{"vit_so400m_patch14_siglip_", 1152, 27, 72, 14, kSo400mRatio, false},
    SiglipVitRow{"vit_so400m_patch16_siglip_", 1152, 27, 72, 16, kSo400mRatio, true},
    SiglipVitRow{"vit_giantopt_patch16_siglip_", 1536, 40, 96, 16, 4.0, true},
};
constexpr std::string_view kLarge512 = "vit_large_patch16_siglip_512";

bool set_siglip_vit(VisionShape& vision, std::string_view name) {
  for (const SiglipVitRow& row : kSiglipVits) {
    if (!core::starts_with(name, row.kind)) continue;
    const auto pixels = core::parse_int(name.substr(row.kind.size()));
    if (!pixels) return false;
    vision = {.tower = "timm_vit",
              .image_size = *pixels,
              .layers = row.layers,
              .width = row.width,
              .head_width = row.head_width,
              .patch_size = row.patch_size,
              .mlp_ratio = row.mlp_ratio,
              .norm_epsilon = 1e-6,
              .has_tanh_gelu = row.has_tanh_gelu || name == kLarge512,
              .has_class_token = false,
              .pool = ImagePool::kAttention};
    return true;
  }
  return false;
}

struct ConvNextRow {
  std::string_view name;
  std::array<int64_t, 4> stages;
  int64_t width;
  double norm_epsilon = 1e-6;
};
constexpr std::array kConvNexts{
    ConvNextRow{"convnext_tiny", {3, 3, 9, 3}, 96},     ConvNextRow{"convnext_small", {3, 3, 27, 3}, 96},
    ConvNextRow{"convnext_base", {3, 3, 27, 3}, 128},   ConvNextRow{"convnext_large", {3, 3, 27, 3}, 192},
    ConvNextRow{"convnext_xlarge", {3, 3, 27, 3}, 256}, ConvNextRow{"convnext_xxlarge", {3, 4, 30, 3}, 384, 1e-5},
};

bool set_convnext(VisionShape& vision, std::string_view name) {
  for (const ConvNextRow& row : kConvNexts) {
    if (row.name != name) continue;
    vision = {.tower = "convnext",
              .stages = {row.stages.begin(), row.stages.end()},
              .layers = 0,
              .width = row.width,
              .layer_scale = kConvNextLayerScale,
              .norm_epsilon = row.norm_epsilon,
              .has_class_token = false,
              .pool = ImagePool::kMean};
    return true;
  }
  return false;
}

struct Eva02Row {
  std::string_view name;
  int64_t image_size, patch_size, width, layers;
};
constexpr std::array kEva02s{
    Eva02Row{"eva02_base_patch16_clip_224", 224, 16, 768, 12},
    Eva02Row{"eva02_large_patch14_clip_224", 224, 14, 1024, 24},
    Eva02Row{"eva02_large_patch14_clip_336", 336, 14, 1024, 24},
};

bool set_eva02(VisionShape& vision, std::string_view name) {
  for (const Eva02Row& row : kEva02s) {
    if (row.name != name) continue;
    vision = {.tower = "eva02",
              .image_size = row.image_size,
              .layers = row.layers,
              .width = row.width,
              .patch_size = row.patch_size,
              .mlp_ratio = 4.0 * 2.0 / 3.0,
              .norm_epsilon = 1e-6};
    return true;
  }
  return false;
}

/// The tag of the weights that timm 1.0 takes for a tower by default.
std::string_view default_weights(std::string_view name) {
  if (name == "convnext_tiny" || name == "convnext_small") return "in12k_ft_in1k";
  if (name == "convnext_xxlarge") return "clip_laion2b_soup_ft_in1k";
  if (core::starts_with(name, "convnext_")) return "fb_in22k_ft_in1k";
  if (core::starts_with(name, "eva02_")) return "merged2b";
  return name == "vit_so400m_patch14_siglip_384" ? "webli" : "v2_webli";
}

}  // namespace

void set_timm_tower(VisionShape& vision, std::string_view name, const std::string& where) {
  if (set_siglip_vit(vision, name) || set_convnext(vision, name) || set_eva02(vision, name)) {
    vision.timm_weights = fmt::format("timm/{}.{}", name, default_weights(name));
    return;
  }
  throw UsageError(
      fmt::format("clip: '{}': 'vision_cfg.timm_model_name' is \"{}\", which is not supported", where, name),
      "towers of timm that are here: vit_*_siglip_*, convnext_*, eva02_{base,large}_*_clip_*");
}

void add_timm_head(ParamList& list, const VisionShape& vision, int64_t width, int64_t embed_dim) {
  const ProjectionShape& head = vision.head;
  const auto add_layer = [&](const std::string& name, int64_t in, int64_t out, bool has_bias) {
    list.add(name + ".weight", {out, in}, fan_in(in), true);
    if (has_bias) list.add(name + ".bias", {out}, fan_in(in), true);
  };
  if (head.kind == ProjectionShape::Kind::kLinear) add_layer("visual.head.proj", width, embed_dim, head.has_bias);
  if (head.kind != ProjectionShape::Kind::kMlp) return;
  add_layer("visual.head.mlp.fc1", width, head.hidden, true);
  add_layer("visual.head.mlp.fc2", head.hidden, embed_dim, head.has_bias);
}

}  // namespace lockstep::config
