#pragma once
#include <map>
#include <optional>
#include <string>

#include "config/flops.h"
#include "config/gpt_shape.h"

namespace lockstep::analysis {

/// The GPT that these arguments of Megatron-LM describe. Nothing where they do not tell the whole shape, or where it is
/// another kind of model: experts, an encoder and a decoder, latent attention, state space layers, several tokens
/// predicted.
std::optional<config::GptShape> megatron_shape(const std::map<std::string, std::string>& options);

/// Training FLOPs of one sequence of that GPT, by the same count as lockstep's own (causal attention, 3 passes).
std::optional<config::FlopCount> megatron_flops(const std::map<std::string, std::string>& options);

}  // namespace lockstep::analysis
