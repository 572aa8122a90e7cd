#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/clip_shape.h"
#include "config/name_group.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// Groups of an image tower from the input on: embeddings (with the norm behind them), each block (of a ResNet: each
/// stage), the last one with the last norm, then what stands behind them. Of a tower of timm they are those of its
/// group_matcher(), without the head that OpenCLIP adds.
std::vector<NameGroup> image_layer_groups(const ClipShape& shape);
/// The same of the text tower; a projection of several layers is one group.
std::vector<NameGroup> text_layer_groups(const ClipShape& shape);

/// Whether a name begins with one of the group's.
bool is_in_group(const std::string& name, const NameGroup& group);

/// Factors of the learning rate from group to group, from the output to the input (--image-layer-decay,
/// --text-layer-decay); nothing or 1: the same for all.
struct LayerDecay {
  std::optional<double> image = std::nullopt, text = std::nullopt;
};

/// Sets `lr_scale`: the last group that a tower has keeps 1, each one before it has `decay` times that of the next.
void set_layer_decay(const ClipShape& shape, const LayerDecay& decay, std::vector<ParamSpec>& specs);

/// Takes parameters that match one of the patterns of fnmatch(3) ('*' also matches dots) out of the weight decay.
/// UsageError for a pattern that no trained parameter matches.
void exclude_from_decay(const std::vector<std::string>& patterns, std::vector<ParamSpec>& specs);

}  // namespace lockstep::config
