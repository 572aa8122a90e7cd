#pragma once
#include <string>
#include <vector>

#include "models/named_values.h"

namespace lockstep::models {

/// Gives the position embeddings among `weights` as many positions as `targets` have, as OpenCLIP does with
/// --pretrained: those of a picture's patches (OpenCLIP's own ViT) by a bicubic filter with antialias, with the class
/// token's as it is, those of a text linearly. All other tensors stay. One sentence for each that was changed.
std::vector<std::string> resize_positions(const NamedValues& targets, NamedValues& weights);

}  // namespace lockstep::models
