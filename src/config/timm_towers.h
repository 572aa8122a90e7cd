#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/clip_shape.h"
#include "config/name_group.h"
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

/// Groups of a transformer of timm from the input on: embeddings with the norm in front of the blocks, and each block,
/// the last one with the norm behind it.
std::vector<NameGroup> timm_block_groups(int64_t num_blocks);
/// A group for each block of each stage ("PREFIX.1.blocks.0."); the first of a stage has what stands in front of it
/// (`in_front`: "downsample.").
std::vector<NameGroup> timm_stage_groups(const std::string& prefix, const std::vector<int64_t>& depths,
                                         const std::vector<std::string>& in_front);

}  // namespace lockstep::config
