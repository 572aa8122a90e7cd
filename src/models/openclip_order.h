#pragma once
#include "models/named_values.h"

namespace lockstep::models {

/// The tensors of a native CLIP model in the order of OpenCLIP's state dict, by which its optimiser numbers parameters:
/// in each module its own tensors first, then its children.
NamedValues in_openclip_order(NamedValues tensors);

}  // namespace lockstep::models
