#include "config/frozen_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "config/image_towers/modified_resnet.h"
#include "config/layer_groups.h"
#include "config/text_towers.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

bool is_in_any(const std::string& name, const std::vector<NameGroup>& groups) {
  return std::any_of(groups.begin(), groups.end(), [&](const NameGroup& group) { return is_in_group(name, group); });
}

bool is_in_last(const std::string& name, const std::vector<NameGroup>& groups, int64_t num_last) {
  const auto count = std::min(num_last, std::ssize(groups));
  return std::any_of(groups.end() - count, groups.end(),
                     [&](const NameGroup& group) { return is_in_group(name, group); });
}

bool is_image_parameter(const std::string& name) { return core::starts_with(name, "visual."); }
/// What OpenCLIP puts behind a tower of timm is trained even where the tower is locked.
bool is_timm_head(const std::string& name) { return core::starts_with(name, "visual.head."); }
/// What a locked encoder of Hugging Face goes on to train.
bool is_encoder_norm(const std::string& name) { return name.find(".LayerNorm.") != std::string::npos; }
bool is_scalar_of_loss(const std::string& name) { return name == "logit_scale" || name == "logit_bias"; }

void check_locks(const ClipShape& shape, const TowerLocks& locks) {
  if (!locks.image || locks.image_unlocked_groups == 0) return;
  const std::string asked = fmt::format("options: --lock-image-unlocked-groups {}", locks.image_unlocked_groups);
  if (shape.vision.tower == ModifiedResnetTower::kName)
    throw UsageError(
        fmt::format("{}: the image tower of model '{}' is a ResNet of OpenCLIP, which is locked as a whole", asked,
                    shape.name),
        "drop it to lock the whole tower");
  if (locks.freezes_batch_norm && shape.vision.has_batch_norm())
    throw UsageError(
        fmt::format("{} trains a part of the image tower of model '{}', --lock-image-freeze-bn-stats would keep the "
                    "statistics of the whole tower",
                    asked, shape.name),
        "drop one of the two");
}

/// Work of a tower as three times it counts in training.
double counted_flops(double forward_flops, double num_parameters, double num_trained) {
  const double share = num_parameters > 0 ? num_trained / num_parameters : 1;
  return forward_flops * (1 + 2 * share) / 3;
}

}  // namespace

std::set<std::string> frozen_parameters(const ClipShape& shape, const TowerLocks& locks) {
  check_locks(shape, locks);
  const bool has_image_groups = locks.image_unlocked_groups > 0;
  const auto of_image = has_image_groups ? image_layer_groups(shape) : std::vector<NameGroup>();
  const auto of_text =
      with_text_tower(shape.text, [&](auto tower) { return tower.lock_groups(shape.text, shape.text_prefix()); });
  std::set<std::string> frozen;
  for (const ParamSpec& spec : clip_param_specs(shape)) {
    if (spec.is_buffer || is_scalar_of_loss(spec.name)) continue;
    const bool is_locked =
        is_image_parameter(spec.name)
            ? locks.image && !is_timm_head(spec.name) && !is_in_last(spec.name, of_image, locks.image_unlocked_groups)
            : locks.text && is_in_any(spec.name, of_text) && (locks.text_layer_norms || !is_encoder_norm(spec.name)) &&
                  !is_in_last(spec.name, of_text, locks.text_unlocked_groups);
    if (is_locked) frozen.insert(spec.name);
  }
  return frozen;
}

std::set<std::string> frozen_parameters(const ContrastiveShape& shape, const TowerLocks& locks) {
  return shape.clip() != nullptr ? frozen_parameters(*shape.clip(), locks) : std::set<std::string>();
}

FlopCount trained_forward(const ClipShape& shape, const TowerLocks& locks) {
  FlopCount count = clip_forward(shape);
  if (!locks.image && !locks.text) return count;
  const auto frozen = frozen_parameters(shape, locks);
  double all[2] = {0, 0}, trained[2] = {0, 0};  // of image and text tower
  for (const ParamSpec& spec : clip_param_specs(shape)) {
    if (spec.is_buffer || is_scalar_of_loss(spec.name)) continue;
    const int tower = is_image_parameter(spec.name) ? 0 : 1;
    all[tower] += static_cast<double>(spec.numel());
    if (!frozen.contains(spec.name)) trained[tower] += static_cast<double>(spec.numel());
  }
  const ClipCost cost = clip_cost(shape);
  count.flops = counted_flops(cost.image_forward_flops, all[0], trained[0]) +
                counted_flops(cost.text_forward_flops + cost.caption_forward_flops, all[1], trained[1]);
  count.formula += "; of locked parts a third, because they have no backward pass";
  return count;
}

}  // namespace lockstep::config
