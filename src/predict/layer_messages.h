#pragma once
#include "predict/machine.h"
#include "predict/work_facts.h"

namespace lockstep::predict {

/// Sizes of a transformer that fix the messages inside its layers.
struct LayerShape {
  double layers = 0, hidden = 0;
  double key_width = 0;  ///< Of all key heads together.
};

/// As told, else as known shapes of so many active parameters have them, with a quarter as many key heads as heads.
/// Nothing where neither is known.
std::optional<LayerShape> layer_shape(const WorkFacts& work);

/// What a step of one device works on.
struct DeviceTokens {
  double tokens = 0;     ///< Of the batch, over all devices.
  double sequence = 0;   ///< Tokens of a sample; 0: not known.
  double num_micro = 1;  ///< Micro-batches.
};

/// Bytes that a device sends in a step to the other expert ranks: 16-bit tokens to `top_k` experts and back in every
/// layer, forward and backward: 4 x top_k x tokens x layers x hidden x 2 B x (e - 1) / e.
double expert_bytes(const LayerShape& shape, double top_k, double tokens, double expert_ranks);

/// Bytes that a device sends in a step to the next context rank: the keys and values of all other ranks pass through it
/// in forward and backward, and their gradients: 3 x 2 x tokens x layers x key width x 2 B x (c - 1).
double context_bytes(const LayerShape& shape, double tokens, double context_ranks);

/// Seconds of a step, in nobody's shadow.
struct LayerMessages {
  double link_s = 0;  ///< Inside nodes, and latency.
  double wire_s = 0;  ///< Between nodes, at the rate of the wires.
};

/// The exchange of tokens between expert ranks, all of it, and what the attention of each block does not hide of the
/// exchange of keys and values between context ranks. Ranks lie as Megatron places them: tensor ranks side by side,
/// context ranks beside these, expert ranks over context and data ranks.
LayerMessages layer_messages(const WorkFacts& work, const Machine& machine, double devices_per_node,
                             const DeviceTokens& step);

}  // namespace lockstep::predict
