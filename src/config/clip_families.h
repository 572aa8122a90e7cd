#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/clip_shape.h"

namespace lockstep::config {

/// Shape of a plain model by its name, whose image tower others take over.
using PlainClip = std::function<ClipShape(std::string_view name)>;

/// Configurations of OpenCLIP 3.3.0 that are more than other sizes of OpenAI's: SigLIP, CLIPA, CoCa, ConvNeXt, the
/// "worldwide" ones and those with RoBERTa as text tower. In table order.
std::vector<std::string> clip_family_names();
std::optional<ClipShape> find_clip_of_family(std::string_view name, const PlainClip& plain);

}  // namespace lockstep::config
