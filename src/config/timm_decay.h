#pragma once
#include <vector>

#include "config/contrastive_shape.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// Shares parameters out between decay and no decay as timm's create_optimizer_v2 does for a model of OpenCLIP 3.3.0 on
/// one process: none for scalars, vectors and names that end in ".bias", nor for those that the model's class names,
/// the position embeddings of OpenCLIP's own ViT and text transformer. Others decay: of ResNet's pool, of timm's
/// towers, of Hugging Face's encoders, and all of CoCa's, whose class names none.
void set_timm_decay(const ContrastiveShape& shape, std::vector<ParamSpec>& specs);

}  // namespace lockstep::config
