#pragma once
#include <map>
#include <optional>
#include <string>

#include "config/flops.h"

namespace lockstep::analysis {

/// Training FLOPs of one sequence of the GPT that these arguments of Megatron-LM describe, by the same count as
/// lockstep's own (causal attention, 3 passes). Nothing where they do not tell the whole shape, or where it is another
/// kind of model: experts, an encoder and a decoder, latent attention, state space layers, several tokens predicted.
std::optional<config::FlopCount> megatron_flops(const std::map<std::string, std::string>& options);

}  // namespace lockstep::analysis
