#pragma once
#include <string>
#include <string_view>

#include "config/clip_shape.h"
#include "config/param_list.h"

namespace lockstep::config {

/// What timm's ConvNeXt blocks begin with.
inline constexpr double kConvNextLayerScale = 1e-6;
/// And its FastViT blocks.
inline constexpr double kFastVitLayerScale = 1e-5;

/// Sets kind and sizes of the image tower that timm 1.0 knows by this name ("vit_base_patch16_siglip_224",
/// "convnext_base"). UsageError for another; `where` names the configuration.
void set_timm_tower(VisionShape& vision, std::string_view name, const std::string& where);

/// Parameters of what OpenCLIP puts behind a tower of timm ("visual.head."): nothing, "proj", or "mlp" with its first
/// layer's bias.
void add_timm_head(ParamList& list, const VisionShape& vision, int64_t width, int64_t embed_dim);

}  // namespace lockstep::config
