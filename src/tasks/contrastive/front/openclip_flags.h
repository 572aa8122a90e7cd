#pragma once
#include <span>
#include <string_view>

namespace lockstep::tasks {

/// The training flags of OpenCLIP 3.3.0 without dashes, in its order: what docs/options/openclip_flags.md tells of
/// each.
std::span<const std::string_view> openclip_training_flags();

}  // namespace lockstep::tasks
