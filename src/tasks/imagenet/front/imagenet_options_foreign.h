#pragma once
#include "core/options.h"

namespace lockstep::tasks {

/// Declares by name the flags of PyTorch's ImageNet example and of torchvision's reference recipes that are refused or
/// have no effect here.
void declare_imagenet_foreign_flags(core::OptionSet& set);

}  // namespace lockstep::tasks
