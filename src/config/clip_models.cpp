#include "config/clip_shape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "config/clip_families.h"
#include "config/image_towers.h"
#include "config/pretrained_weights.h"
#include "config/residual_stack.h"
#include "config/shape_check.h"
#include "config/text_towers.h"
#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

struct TextRow {
  int64_t width, heads, layers;
};
struct ClipRow {
  std::string_view name;
  int64_t embed_dim, image_size;
  int64_t layers, width, patch_size;  // ViT
  TextRow text;
  bool has_quickgelu_twin = false;  // "<name>-quickgelu" exists as well
  int64_t head_width = 64;
  double mlp_ratio = 4.0;
  std::optional<double> layer_scale = std::nullopt;
};
struct ResnetRow {
  std::string_view name;
  int64_t embed_dim, image_size;
  std::array<int64_t, 4> stages;
  int64_t width;
  TextRow text;
};

constexpr TextRow kTextS{384, 6, 12}, kTextM{512, 8, 12}, kTextPlus{640, 10, 12}, kTextL{768, 12, 12},
    kTextH{1024, 16, 24};

// The sizes are those of the JSON files in OpenCLIP 3.3.0's model_configs; a test compares parameter counts of all of
// them.
constexpr std::array kViTs{
    ClipRow{"ViT-S-32", 384, 224, 12, 384, 32, kTextS},
    ClipRow{"ViT-S-32-alt", 256, 224, 12, 384, 32, {256, 4, 10}},
    ClipRow{"ViT-S-16", 384, 224, 12, 384, 16, kTextS},
    ClipRow{"ViT-S-16-alt", 256, 224, 12, 384, 16, {256, 4, 10}},
    ClipRow{"ViT-M-32", 512, 224, 12, 512, 32, kTextM},
    ClipRow{"ViT-M-32-alt", 384, 224, 12, 512, 32, kTextS},
    ClipRow{"ViT-M-16", 512, 224, 12, 512, 16, kTextM},
    ClipRow{"ViT-M-16-alt", 384, 224, 12, 512, 16, kTextS, false, 64, 4.0, 1e-4},
    ClipRow{"ViT-B-32", 512, 224, 12, 768, 32, kTextM, true},
    ClipRow{"ViT-B-32-256", 512, 256, 12, 768, 32, kTextM},
    ClipRow{"ViT-B-32-plus-256", 640, 256, 12, 896, 32, kTextPlus},
    ClipRow{"ViT-B-16", 512, 224, 12, 768, 16, kTextM, true},
    ClipRow{"ViT-B-16-plus", 640, 224, 12, 896, 16, kTextPlus},
    ClipRow{"ViT-B-16-plus-240", 640, 240, 12, 896, 16, kTextPlus},
    ClipRow{"ViT-L-16", 768, 224, 24, 1024, 16, kTextL},
    ClipRow{"ViT-L-16-320", 768, 320, 24, 1024, 16, kTextL},
    ClipRow{"ViT-L-14", 768, 224, 24, 1024, 14, kTextL, true},
    ClipRow{"ViT-L-14-280", 768, 280, 24, 1024, 14, kTextL},
    ClipRow{"ViT-L-14-336", 768, 336, 24, 1024, 14, kTextL, true},
    ClipRow{"ViT-H-16", 1024, 224, 32, 1280, 16, kTextH, false, 80},
    ClipRow{"ViT-H-14", 1024, 224, 32, 1280, 14, kTextH, true, 80},
    ClipRow{"ViT-H-14-378", 1024, 378, 32, 1280, 14, kTextH, true, 80},
    ClipRow{"ViT-g-14", 1024, 224, 40, 1408, 14, kTextH, false, 88, 4.3637},
    ClipRow{"ViT-bigG-14", 1280, 224, 48, 1664, 14, {1280, 20, 32}, true, 104, 4.9231},
    ClipRow{"ViT-e-14", 1280, 224, 56, 1792, 14, {1280, 20, 36}, false, 112, 8.5715},
};
// Each of these has a "-quickgelu" twin.
constexpr std::array kResnets{
    ResnetRow{"RN50", 1024, 224, {3, 4, 6, 3}, 64, kTextM},
    ResnetRow{"RN101", 512, 224, {3, 4, 23, 3}, 64, kTextM},
    ResnetRow{"RN50x4", 640, 288, {4, 6, 10, 6}, 80, kTextPlus},
    ResnetRow{"RN50x16", 768, 384, {6, 8, 18, 8}, 96, kTextL},
    ResnetRow{"RN50x64", 1024, 448, {3, 15, 36, 10}, 128, {1024, 16, 12}},
};

constexpr std::string_view kQuick = "-quickgelu";

TextShape text_shape(const TextRow& row) {
  return TextShape{.width = row.width, .heads = row.heads, .layers = row.layers};
}

std::optional<ClipShape> find_plain_clip(std::string_view name) {
  const bool quick = core::ends_with(name, kQuick);
  const std::string_view base = quick ? name.substr(0, name.size() - kQuick.size()) : name;
  for (const ClipRow& row : kViTs) {
    if (row.name != base || (quick && !row.has_quickgelu_twin)) continue;
    const VisionShape vision{.image_size = row.image_size,
                             .layers = row.layers,
                             .width = row.width,
                             .head_width = row.head_width,
                             .patch_size = row.patch_size,
                             .mlp_ratio = row.mlp_ratio,
                             .layer_scale = row.layer_scale};
    return ClipShape{.name = std::string(name),
                     .embed_dim = row.embed_dim,
                     .vision = vision,
                     .text = text_shape(row.text),
                     .quick_gelu = quick};
  }
  for (const ResnetRow& row : kResnets) {
    if (row.name != base) continue;
    const VisionShape vision{.tower = "resnet",
                             .image_size = row.image_size,
                             .stages = {row.stages.begin(), row.stages.end()},
                             .layers = 0,
                             .width = row.width};
    return ClipShape{.name = std::string(name),
                     .embed_dim = row.embed_dim,
                     .vision = vision,
                     .text = text_shape(row.text),
                     .quick_gelu = quick};
  }
  return std::nullopt;
}

std::optional<ClipShape> find_named_clip(std::string_view name) {
  if (auto plain = find_plain_clip(name)) return plain;
  return find_clip_of_family(name, [](std::string_view base) { return find_plain_clip(base).value(); });
}

[[noreturn]] void throw_unknown_clip(std::string_view model) {
  const std::vector<std::string> names = clip_model_names();
  const auto nearest = core::nearest_name(model, names);
  throw UsageError(fmt::format("clip: unknown model '{}'", model),
                   nearest ? fmt::format("did you mean '{}'?", *nearest)
                           : "`lockstep train clip --list-models` lists all; or give a path that ends in .json");
}

void check_vision(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  require_between(shape, "vision image_size", vision.image_size, 1, 8192);
  require_between(shape, "vision width", vision.width, 1, 65536);
  require_between(shape, "vision head_width", vision.head_width, 1, 65536);
  require(vision.patch_dropout >= 0.0 && vision.patch_dropout < 1.0, shape,
          fmt::format("patch_dropout={} is out of range, expected 0 <= value < 1", vision.patch_dropout));
  require(vision.feature_width() % vision.head_width == 0, shape,
          fmt::format("vision head_width={} does not divide the width {}", vision.head_width, vision.feature_width()));
  with_tower(vision, [&](auto tower) { tower.check(shape); });
}

void check_captions(const ClipShape& shape) {
  if (!shape.captions) return;
  const CaptionShape& captions = *shape.captions;
  require_between(shape, "multimodal layers", captions.layers, 1, 1000);
  require_between(shape, "multimodal heads", captions.heads, 1, captions.width);
  require(captions.width % captions.heads == 0, shape,
          fmt::format("multimodal heads={} does not divide the width {}", captions.heads, captions.width));
  require(shape.vision.tower == VisionShape().tower, shape, "a captioning model needs a ViT image tower");
  require(shape.has_custom_text, shape, "a captioning model needs custom_text");
  if (shape.text.tower == RobertaTextTower::kName)
    require(shape.text.roberta.pooler != TextPooler::kClass, shape,
            "a captioning model with hf_pooler_type \"cls_pooler\" fails in OpenCLIP: the first token is taken away");
  else
    require(shape.text.has_class_token, shape, "a captioning model needs a text tower with embed_cls");
  const int64_t image_width = shape.vision.has_attentional_pool ? shape.embed_dim : shape.vision.width;
  for (const auto& [what, width] : {std::pair{"image", image_width}, std::pair{"text", shape.text.feature_width()}})
    require(width == captions.width, shape,
            fmt::format("multimodal width={} must be that of the {} tower's tokens, {}", captions.width, what, width));
  require(caption_image_tokens(shape.vision) >= 1, shape, "the image tower leaves no tokens to the decoder");
}

void apply_overrides(ClipShape& shape, const ClipOverrides& overrides) {
  if (overrides.image_size) shape.vision.image_size = *overrides.image_size;
  if (overrides.context_length) {
    shape.text.context_length = *overrides.context_length;
    if (shape.captions) shape.captions->context_length = *overrides.context_length;
  }
  if (overrides.patch_dropout) shape.vision.patch_dropout = *overrides.patch_dropout;
  if (overrides.init_logit_scale) shape.init_logit_scale = *overrides.init_logit_scale;
  if (overrides.init_logit_bias) shape.init_logit_bias = overrides.init_logit_bias;
  shape.quick_gelu = shape.quick_gelu || overrides.quick_gelu;
  shape.has_custom_text = shape.has_custom_text || overrides.custom_text;
}

}  // namespace

int64_t VisionShape::feature_width() const {
  return with_tower(*this, [this](auto kind) { return kind.feature_width(*this); });
}

int64_t VisionShape::grid() const {
  return with_tower(*this, [this](auto kind) { return kind.grid(*this); });
}

int64_t TextShape::feature_width() const {
  return with_text_tower(*this, [this](auto kind) { return kind.feature_width(*this); });
}

int64_t num_text_ids(const TextShape& text) {
  return with_text_tower(text, [&](auto kind) { return kind.vocab_size(text); });
}

bool VisionShape::has_batch_norm() const {
  return with_tower(*this, [](auto kind) { return kind.kHasBatchNorm; });
}

double clip_image_activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  return with_tower(vision, [&](auto tower) { return tower.activation_bytes(vision, bytes); });
}

double clip_text_activation_bytes(const ClipShape& shape, const ActivationBytes& bytes) {
  double total = with_text_tower(shape.text, [&](auto tower) {
    const BlockDims blocks = tower.blocks(shape.text);
    if constexpr (std::is_same_v<decltype(tower), TextTransformerTower>)
      return residual_stack_activation_bytes(blocks, bytes, /*last_is_pooled=*/!shape.text.has_class_token);
    else
      return stack_activation_bytes(blocks, bytes);
  });
  if (!shape.captions) return total;
  const CaptionShape& captions = *shape.captions;
  // A block and a cross block of one width; the latter also keeps the picture's tokens, normalised and as keys and
  // values.
  total += stack_activation_bytes(
      {2 * captions.layers, shape.text.context_length, captions.width, captions.heads, captions.mlp_width()}, bytes);
  if (!bytes.grad_checkpointing)
    total +=
        static_cast<double>(captions.layers * caption_image_tokens(shape.vision) * captions.width) * 3 * bytes.compute;
  return total;
}

std::vector<std::string> clip_model_names() {
  std::vector<std::string> names;
  for (const ClipRow& row : kViTs) {
    names.emplace_back(row.name);
    if (row.has_quickgelu_twin) names.push_back(fmt::format("{}{}", row.name, kQuick));
  }
  for (const ResnetRow& row : kResnets) {
    names.emplace_back(row.name);
    names.push_back(fmt::format("{}{}", row.name, kQuick));
  }
  for (std::string& name : clip_family_names()) names.push_back(std::move(name));
  return names;
}

void check_clip_shape(const ClipShape& shape) {
  require_between(shape, "embed_dim", shape.embed_dim, 1, 65536);
  check_vision(shape);
  with_text_tower(shape.text, [&](auto tower) { tower.check(shape); });
  check_captions(shape);
}

ClipOverrides forced_overrides(const std::vector<int64_t>& image_size, const std::optional<int64_t>& context_length,
                               bool quick_gelu, const std::optional<double>& patch_dropout) {
  ClipOverrides overrides{.context_length = context_length, .quick_gelu = quick_gelu, .patch_dropout = patch_dropout};
  if (!image_size.empty()) overrides.image_size = image_size.front();
  return overrides;
}

ClipShape resolve_clip_shape(std::string_view model, const ClipOverrides& overrides) {
  ClipShape shape;
  if (core::ends_with(model, ".json")) {
    shape = parse_clip_shape(core::read_named_file(std::filesystem::path(model), "model configuration"), model);
  } else if (is_hub_model(model)) {
    const HubConfig config = read_hub_config(model);
    shape = parse_clip_shape(config.json.at("model_cfg").dump(), config.path.string());
    shape.name = model;
  } else if (auto found = find_named_clip(core::replace_all(std::string(model), "/", "-"))) {  // "ViT-B/32"
    shape = std::move(*found);
  } else {
    throw_unknown_clip(model);
  }
  apply_overrides(shape, overrides);
  check_clip_shape(shape);
  return shape;
}

}  // namespace lockstep::config
