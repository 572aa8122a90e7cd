#include "config/timm_towers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

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
              .has_ln_pre = false,
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

constexpr std::string_view kSwinBase = "swin_base_patch4_window7_224";

bool set_swin(VisionShape& vision, std::string_view name) {
  if (name != kSwinBase) return false;
  vision = {.tower = "swin",
            .image_size = 224,
            .stages = {2, 2, 18, 2},
            .layers = 0,
            .width = 128,
            .head_width = 32,
            .patch_size = 4,
            .window = 7,
            .has_class_token = false,
            .pool = ImagePool::kMean,
            .drop_path = 0.1};  // timm's own default
  return true;
}

/// MobileCLIP's FastViTs, with where timm has weights for them.
struct FastVitRow {
  std::string_view name, weights;
  std::array<int64_t, 5> stages;  ///< 0: there is no fifth.
  int64_t width;
  double mlp_ratio;
};
constexpr std::array kFastVits{
    FastVitRow{"fastvit_mci0", "apple/mobileclip_s0_timm", {2, 6, 10, 2}, 64, 3.0},
    FastVitRow{"fastvit_mci1", "apple/mobileclip_s1_timm", {4, 12, 20, 4}, 64, 3.0},
    FastVitRow{"fastvit_mci2", "apple/mobileclip_s2_timm", {4, 12, 24, 4}, 80, 3.0},
    FastVitRow{"fastvit_mci3", "timm/fastvit_mci3.apple_mclip2_dfndr2b", {2, 12, 24, 4, 2}, 96, 4.0},
    FastVitRow{"fastvit_mci4", "timm/fastvit_mci4.apple_mclip2_dfndr2b", {2, 12, 24, 4, 4}, 128, 4.0},
};

const FastVitRow* find_fastvit(std::string_view name) {
  const auto found =
      std::find_if(kFastVits.begin(), kFastVits.end(), [&](const FastVitRow& row) { return row.name == name; });
  return found == kFastVits.end() ? nullptr : &*found;
}

bool set_fastvit(VisionShape& vision, std::string_view name) {
  const FastVitRow* row = find_fastvit(name);
  if (row == nullptr) return false;
  vision = {.tower = "fastvit",
            .image_size = 256,
            .stages = {row->stages.begin(), row->stages.end() - (row->stages.back() == 0 ? 1 : 0)},
            .layers = 0,
            .width = row->width,
            .head_width = 32,
            .mlp_ratio = row->mlp_ratio,
            .layer_scale = kFastVitLayerScale,
            .has_class_token = false,
            .pool = ImagePool::kMean};
  return true;
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

/// Vision transformers of timm but for SigLIP's.
struct TimmVitRow {
  std::string_view name;
  int64_t image_size, patch_size, width, layers, heads, mlp_width;
};
using VitRows = std::span<const TimmVitRow>;

VisionShape shape_of(const TimmVitRow& row) {
  return {.tower = "timm_vit",
          .image_size = row.image_size,
          .layers = row.layers,
          .width = row.width,
          .head_width = row.width / row.heads,
          .patch_size = row.patch_size,
          .mlp_ratio = static_cast<double>(row.mlp_width) / static_cast<double>(row.width),
          .norm_epsilon = 1e-6,
          .has_ln_pre = false};
}

const TimmVitRow* row_named(VitRows rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const TimmVitRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

constexpr std::array kEvas{
    TimmVitRow{"eva_giant_patch14_224", 224, 14, 1408, 40, 16, 6144},
    TimmVitRow{"eva02_enormous_patch14_clip_224", 224, 14, 1792, 64, 16, 15360},
};

/// The first EVA (Fang et al. 2022), and EVA02-E, which is that with norms behind what they norm.
bool set_eva(VisionShape& vision, std::string_view name) {
  const TimmVitRow* row = row_named(kEvas, name);
  if (row == nullptr) return false;
  vision = shape_of(*row);
  vision.pool = vision.timm.pool = ImagePool::kClassToken;
  vision.timm.qkv_bias = TimmVitShape::QkvBias::kNotKeys;
  vision.timm.begins_as_eva = true;
  vision.timm.norms_follow = core::starts_with(name, "eva02");
  return true;
}

constexpr std::array kPerceptionEncoders{
    TimmVitRow{"vit_pe_core_tiny_patch16_384", 384, 16, 192, 12, 3, 768},
    TimmVitRow{"vit_pe_core_small_patch16_384", 384, 16, 384, 12, 6, 1536},
    TimmVitRow{"vit_pe_core_base_patch16_224", 224, 16, 768, 12, 12, 3072},
    TimmVitRow{"vit_pe_core_large_patch14_336", 336, 14, 1024, 24, 16, 4096},
    TimmVitRow{"vit_pe_core_gigantic_patch14_448", 448, 14, 1536, 50, 16, 8960},
};

/// The Perception Encoder (Bolya et al. 2025): rotary positions beside the learned ones, pooled by attention.
bool set_perception_encoder(VisionShape& vision, std::string_view name) {
  const TimmVitRow* row = row_named(kPerceptionEncoders, name);
  if (row == nullptr) return false;
  const bool is_largest = row == &kPerceptionEncoders.back();
  vision = shape_of(*row);
  vision.norm_epsilon = 1e-5;
  vision.has_ln_pre = true;
  vision.has_class_token = !is_largest;
  vision.pool = ImagePool::kAttention;
  vision.timm.rotary = RotaryCells{
      .reference_cells = row->image_size / row->patch_size, .offset = is_largest ? 0.0 : 1.0, .columns_first = true};
  vision.timm.pool_heads = 8;
  vision.timm.pool_mlp_ratio = 4.0;
  vision.timm.begins_as_eva = true;
  return true;
}

constexpr TimmVitRow kClipLarge{"vit_large_patch14_clip_224", 224, 14, 1024, 24, 16, 4096};
constexpr TimmVitRow kMeanMedium{"vit_medium_patch16_gap_256", 256, 16, 512, 12, 8, 2048};
constexpr TimmVitRow kRelativeMedium{"vit_relpos_medium_patch16_cls_224", 224, 16, 512, 12, 8, 2048};
constexpr TimmVitRow kMobileBase{"vit_base_mci_224", 224, 16, 768, 12, 12, 3072};

bool set_plain_vit(VisionShape& vision, std::string_view name) {
  for (const TimmVitRow& row : {kClipLarge, kMeanMedium, kRelativeMedium, kMobileBase}) {
    if (row.name != name) continue;
    vision = shape_of(row);
    vision.pool = vision.timm.pool = ImagePool::kClassToken;
  }
  if (name == kClipLarge.name) {
    vision.norm_epsilon = 1e-5;
    vision.has_ln_pre = true;
  } else if (name == kMeanMedium.name) {
    vision.layer_scale = 1e-6;
    vision.has_class_token = false;
    vision.pool = vision.timm.pool = ImagePool::kMean;
    vision.timm.qkv_bias = TimmVitShape::QkvBias::kNone;
  } else if (name == kRelativeMedium.name) {
    vision.layer_scale = 1e-6;
    vision.timm.qkv_bias = TimmVitShape::QkvBias::kNone;
    vision.timm.has_positions = false;
    vision.timm.position_mlp_width = 256;
  } else if (name == kMobileBase.name) {
    vision.tower = "timm_stem_vit";
    vision.timm.has_class_position = false;
  } else {
    return false;
  }
  return true;
}

/// ViTamin: kinds of one size, behind which the pixels stand.
struct VitaminRow {
  std::string_view kind;
  std::array<int64_t, 2> stem_widths;
  int64_t width, layers, heads;
};
constexpr std::array kVitamins{
    VitaminRow{"vitamin_small_", {64, 128}, 384, 14, 6},     VitaminRow{"vitamin_base_", {128, 256}, 768, 14, 12},
    VitaminRow{"vitamin_large_", {160, 320}, 1024, 31, 16},  VitaminRow{"vitamin_large2_", {160, 320}, 1024, 31, 16},
    VitaminRow{"vitamin_xlarge_", {192, 384}, 1152, 32, 16},
};

bool set_vitamin(VisionShape& vision, std::string_view name) {
  for (const VitaminRow& row : kVitamins) {
    if (!core::starts_with(name, row.kind)) continue;
    const auto pixels = core::parse_int(name.substr(row.kind.size()));
    if (!pixels) return false;
    vision = shape_of({name, *pixels, 16, row.width, row.layers, row.heads, 2 * row.width});
    vision.tower = "vitamin";
    vision.has_class_token = false;
    vision.norms_after_pool = true;
    vision.pool = vision.timm.pool = ImagePool::kMean;
    vision.timm.has_gated_mlp = true;
    vision.timm.has_positions = row.kind != kVitamins.back().kind;
    vision.timm.stem_widths = row.stem_widths;
    vision.timm.stem_depths = {2, 4};
    return true;
  }
  return false;
}

/// The repository of ViTamin's weights: of "vitamin_large2_256" "ViTamin-L2-256px", of S and B without pixels.
std::string vitamin_weights(std::string_view name) {
  const size_t last = name.find_last_of('_');
  const std::string_view kind = name.substr(0, last), pixels = name.substr(last + 1);
  if (kind == "vitamin_small") return "jienengchen/ViTamin-S-LTT";
  if (kind == "vitamin_base") return "jienengchen/ViTamin-B-LTT";
  const std::string_view size = kind == "vitamin_large" ? "L" : kind == "vitamin_large2" ? "L2" : "XL";
  return fmt::format("jienengchen/ViTamin-{}-{}px", size, pixels);
}

/// The tag of the weights that timm 1.0 takes for a tower by default.
std::string_view default_weights(std::string_view name) {
  if (name == "eva_giant_patch14_224") return "clip_ft_in1k";
  if (name == "eva02_enormous_patch14_clip_224") return "laion2b";
  if (core::starts_with(name, "vit_pe_core_")) return "fb";
  if (name == kMeanMedium.name) return "sw_in12k_ft_in1k";
  if (name == kRelativeMedium.name) return "sw_in1k";
  if (name == kSwinBase) return "ms_in22k_ft_in1k";
  if (name == kClipLarge.name) return "laion2b_ft_in12k_in1k";
  if (name == "convnext_tiny" || name == "convnext_small") return "in12k_ft_in1k";
  if (name == "convnext_xxlarge") return "clip_laion2b_soup_ft_in1k";
  if (core::starts_with(name, "convnext_")) return "fb_in22k_ft_in1k";
  if (core::starts_with(name, "eva02_")) return "merged2b";
  return name == "vit_so400m_patch14_siglip_384" ? "webli" : "v2_webli";
}

}  // namespace

void set_timm_tower(VisionShape& vision, std::string_view name, const std::string& where) {
  if (set_siglip_vit(vision, name) || set_convnext(vision, name) || set_swin(vision, name) ||
      set_fastvit(vision, name) || set_eva02(vision, name) || set_eva(vision, name) ||
      set_perception_encoder(vision, name) || set_plain_vit(vision, name) || set_vitamin(vision, name)) {
    const FastVitRow* fastvit = find_fastvit(name);
    vision.timm_weights = core::starts_with(name, "vitamin_") ? vitamin_weights(name)
                          : fastvit != nullptr                ? std::string(fastvit->weights)
                          : name == kMobileBase.name          ? "apple/mobileclip_b_lt_timm"
                                                              : fmt::format("timm/{}.{}", name, default_weights(name));
    return;
  }
  std::vector<std::string_view> convnexts;
  for (const ConvNextRow& row : kConvNexts) convnexts.push_back(row.name);
  throw UsageError(
      fmt::format("clip: '{}': 'vision_cfg.timm_model_name' is \"{}\", which is not supported", where, name),
      fmt::format("towers of timm that are here are those of OpenCLIP's models: {}, swin_base_patch4_window7_224, "
                  "fastvit_mci*, eva02_*_clip_*, eva_giant_patch14_224, vit_*_siglip_*, vit_pe_core_*, vitamin_*, "
                  "vit_large_patch14_clip_224, vit_medium_patch16_gap_256, vit_relpos_medium_patch16_cls_224, "
                  "vit_base_mci_224",
                  fmt::join(convnexts, ", ")));
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

std::vector<NameGroup> timm_block_groups(int64_t num_blocks) {
  std::vector<NameGroup> groups = {
      {"visual.trunk.cls_token", "visual.trunk.pos_embed", "visual.trunk.patch_embed.", "visual.trunk.norm_pre."}};
  for (int64_t block = 0; block < num_blocks; ++block)
    groups.push_back({fmt::format("visual.trunk.blocks.{}.", block)});
  groups.back().push_back("visual.trunk.norm.");
  return groups;
}

std::vector<NameGroup> timm_stage_groups(const std::string& prefix, const std::vector<int64_t>& depths,
                                         const std::vector<std::string>& in_front) {
  std::vector<NameGroup> groups;
  for (size_t stage = 0; stage < depths.size(); ++stage)
    for (int64_t block = 0; block < depths[stage]; ++block) {
      groups.push_back({fmt::format("{}.{}.blocks.{}.", prefix, stage, block)});
      if (block > 0) continue;
      for (const std::string& part : in_front) groups.back().push_back(fmt::format("{}.{}.{}", prefix, stage, part));
    }
  return groups;
}

}  // namespace lockstep::config
