#include "config/layer_groups.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "config/image_towers.h"
#include "config/text_towers.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

/// Those groups that `specs` has parameters of.
std::vector<NameGroup> present_groups(const std::vector<NameGroup>& groups, const std::vector<ParamSpec>& specs) {
  std::vector<NameGroup> present;
  for (const NameGroup& group : groups)
    if (std::any_of(specs.begin(), specs.end(),
                    [&](const ParamSpec& spec) { return !spec.is_buffer && is_in_group(spec.name, group); }))
      present.push_back(group);
  return present;
}

void scale_groups(const std::vector<NameGroup>& groups, double decay, std::vector<ParamSpec>& specs) {
  for (size_t i = 0; i < groups.size(); ++i)
    for (ParamSpec& spec : specs)
      if (is_in_group(spec.name, groups[i]))
        spec.lr_scale = std::pow(decay, static_cast<double>(groups.size() - 1 - i));
}

}  // namespace

bool is_in_group(const std::string& name, const NameGroup& group) {
  return std::any_of(group.begin(), group.end(),
                     [&](const std::string& prefix) { return core::starts_with(name, prefix); });
}

std::vector<NameGroup> image_layer_groups(const ClipShape& shape) {
  return with_tower(shape.vision, [&](auto tower) { return tower.layer_groups(shape.vision); });
}

std::vector<NameGroup> text_layer_groups(const ClipShape& shape) {
  auto groups =
      with_text_tower(shape.text, [&](auto tower) { return tower.lock_groups(shape.text, shape.text_prefix()); });
  groups.push_back({shape.text_prefix() + "proj."});  // of Hugging Face's towers; locks leave it free
  return groups;
}

void set_layer_decay(const ClipShape& shape, const LayerDecay& decay, std::vector<ParamSpec>& specs) {
  if (decay.image.value_or(1) != 1) {
    auto groups = image_layer_groups(shape);
    groups.push_back({"visual.head."});  // behind a tower of timm; locks leave it free
    scale_groups(present_groups(groups, specs), *decay.image, specs);
  }
  if (decay.text.value_or(1) != 1) scale_groups(present_groups(text_layer_groups(shape), specs), *decay.text, specs);
}

void exclude_from_decay(const std::vector<std::string>& patterns, std::vector<ParamSpec>& specs) {
  for (const std::string& pattern : patterns) {
    bool is_found = false;
    for (ParamSpec& spec : specs) {
      if (spec.is_buffer || fnmatch(pattern.c_str(), spec.name.c_str(), 0) != 0) continue;
      is_found = true;
      spec.weight_decay = false;
    }
    if (!is_found)
      throw UsageError(fmt::format("options: --wd-exclude '{}' matches no parameter, for example not '{}'", pattern,
                                   specs.front().name),
                       "names are those of the weight file; '*' stands for any characters, as in '*.bias'");
  }
}

}  // namespace lockstep::config
