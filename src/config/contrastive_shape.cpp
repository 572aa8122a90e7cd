#include "config/contrastive_shape.h"

#include <algorithm>
#include <filesystem>

#include "config/text_towers.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

ContrastiveCost cost_of(const ClipShape& shape) {
  const ClipCost cost = clip_cost(shape);
  return {.parameters = cost.parameters(),
          .image_or_audio_parameters = cost.image_parameters,
          .text_parameters = cost.text_parameters,
          .image_or_audio_forward_flops = cost.image_forward_flops,
          .text_forward_flops = cost.text_forward_flops + cost.caption_forward_flops,
          .forward = clip_forward(shape)};
}

ContrastiveCost cost_of(const ClapShape& shape) {
  const ClapCost cost = clap_cost(shape);
  return {.parameters = cost.trained_parameters,
          .image_or_audio_parameters = cost.audio_parameters,
          .text_parameters = cost.text_parameters,
          .image_or_audio_forward_flops = cost.audio_computed_flops,
          .text_forward_flops = cost.text_forward_flops,
          .forward = clap_forward(shape)};
}

}  // namespace

int64_t ContrastiveShape::context_length() const {
  return std::visit([](const auto& model) { return model.text.context_length; }, shape);
}

bool ContrastiveShape::packs_texts() const {
  return clip() == nullptr ||
         (!clip()->captions && with_text_tower(clip()->text, [](auto tower) { return tower.kPacksTexts; }));
}

std::vector<ParamSpec> ContrastiveShape::param_specs() const {
  return clip() != nullptr ? clip_param_specs(*clip()) : clap_param_specs(*clap());
}

ContrastiveCost contrastive_cost(const ContrastiveShape& shape) {
  return std::visit([](const auto& model) { return cost_of(model); }, shape.shape);
}

ContrastiveShape resolve_contrastive_shape(const std::string& model, bool is_clap, const ClipOverrides& overrides) {
  if (!is_clap) return {resolve_clip_shape(model, overrides)};
  ClapShape shape = resolve_clap_shape(model);
  if (overrides.context_length) {
    shape.text.context_length = *overrides.context_length;
    check_clap_shape(shape);
  }
  return {shape};
}

bool is_clap_model(const std::string& model) {
  const auto names = clap_model_names();
  if (std::find(names.begin(), names.end(), model) != names.end()) return true;
  std::error_code ignored;
  if (!core::ends_with(model, ".json") || !std::filesystem::is_regular_file(model, ignored)) return false;
  const core::Json config = core::parse_json(core::read_file(model), model);
  return config.is_object() && config.contains("audio_cfg");
}

}  // namespace lockstep::config
