#include "config/timm_decay.h"

#include <set>
#include <string>

#include "core/strings.h"

namespace lockstep::config {
namespace {

/// What no_weight_decay() of the model's class says, but for vectors.
std::set<std::string> names_without_decay(const ContrastiveShape& shape) {
  const ClipShape* clip = shape.clip();
  if (clip == nullptr || clip->captions) return {};
  std::set<std::string> names = {clip->text_prefix() + "positional_embedding"};
  if (clip->vision.tower == VisionShape().tower) names.insert("visual.positional_embedding");
  return names;
}

}  // namespace

void set_timm_decay(const ContrastiveShape& shape, std::vector<ParamSpec>& specs) {
  const auto names = names_without_decay(shape);
  for (ParamSpec& spec : specs)
    spec.weight_decay =
        !spec.is_buffer && spec.shape.size() > 1 && !core::ends_with(spec.name, ".bias") && !names.contains(spec.name);
}

}  // namespace lockstep::config
