#include "config/locked_features.h"

#include <algorithm>
#include <functional>

#include "config/text_towers.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

bool has_trained(const ClipShape& shape, const TowerLocks& locks,
                 const std::function<bool(const std::string&)>& is_own) {
  const auto frozen = frozen_parameters(shape, locks);
  const auto specs = clip_param_specs(shape);
  return std::any_of(specs.begin(), specs.end(), [&](const ParamSpec& spec) {
    return !spec.is_buffer && is_own(spec.name) && !frozen.contains(spec.name);
  });
}

bool is_of_image(const std::string& name) { return core::starts_with(name, "visual."); }
bool is_of_text(const std::string& name) { return !is_of_image(name) && name != "logit_scale" && name != "logit_bias"; }

std::string image_refusal(const ClipShape& shape, const LockedTowerUse& use) {
  if (!use.locks.image) return "the image tower is not locked (--lock-image)";
  if (use.has_random_image_transform) return "pictures are cropped at random (--train-transform eval does not)";
  if (has_trained(shape, use.locks, is_of_image)) return "a part of the image tower is trained";
  if (shape.vision.patch_dropout > 0) return "patches of pictures are left out at random";
  if (shape.vision.drop_path > 0) return "blocks of the image tower are left out at random";
  if (shape.vision.timm.position_mlp_width > 0 && shape.vision.timm.position_dropout > 0)
    return "the image tower has dropout";
  if (shape.vision.has_batch_norm() && !use.has_frozen_batch_norm)
    return "batch norm looks at the whole batch (add --lock-image-freeze-bn-stats)";
  return "";
}

std::string text_refusal(const ClipShape& shape, const LockedTowerUse& use) {
  if (!use.locks.text) return "the text tower is not locked (--lock-text)";
  if (has_trained(shape, use.locks, is_of_text)) return "a part of the text tower is trained";
  if (with_text_tower(shape.text, [&](auto tower) { return tower.has_dropout(shape.text); }))
    return "the text tower has dropout";
  return "";
}

}  // namespace

FeatureCacheRefusals feature_cache_refusals(const ClipShape& shape, const LockedTowerUse& use) {
  const std::string captions = "the decoder of captions reads more of it than its features";
  if (shape.captions) return {.image = captions, .text = captions};
  return {.image = image_refusal(shape, use), .text = text_refusal(shape, use)};
}

}  // namespace lockstep::config
