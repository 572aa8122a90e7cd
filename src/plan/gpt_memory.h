#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/gpt_recompute.h"
#include "plan/gpt_layout.h"

namespace lockstep::plan {

/// Bytes of one element of each kind of state.
struct StateBytes {
  int64_t weight = 4;
  int64_t gradient = 4;   ///< As accumulated and reduced.
  int64_t optimizer = 8;  ///< Both moments; under 16-bit training also the fp32 master.
  int64_t compute = 4;    ///< Of activations.
};
/// 16-bit weights have fp32 master copies: 18 bytes a parameter with fp32 gradients, 16 with 16-bit ones, which the
/// update widens (and unscales) a few at a time. In fp32 16 bytes.
StateBytes state_bytes(bool is_16bit, bool has_fp32_gradients);

struct GptMemoryInput {
  StateBytes bytes{};
  config::GptRecompute recompute = config::GptRecompute::kNone;
  int64_t recompute_layers = 1;  ///< kUniform: layers of a unit; kBlock: layers of each chunk.
  /// Probabilities of a head and sequence that attention keeps (0: a fused kernel); under kSelective of one layer at a
  /// time.
  int64_t kept_scores = 0;
  int64_t loss_chunk_tokens = 0;     ///< Tokens whose logits exist at a time; 0: see loss_chunk_tokens().
  bool early_loss_gradients = true;  ///< The head's gradient is made with the logits and kept in fp32 until backward;
                                     ///< else the logits are made twice.
  bool has_fp8 = false;  ///< Linear layers of the blocks keep their inputs, and two copies of their weights, in 8 bits.
  bool fp8_spares_ends = false;  ///< But for the model's first and last layer.
};

/// What a rank of one stage must hold, in bytes.
struct GptMemory {
  int64_t num_parameters = 0;  ///< Of this rank.
  double parameters = 0, gradients = 0, optimizer = 0;
  double activations = 0;  ///< Of all micro-batches and chunks in flight, at their peak.
  /// Activations of the unit that is being computed again, or probabilities of one attention core.
  double recomputed = 0;
  double logits = 0;  ///< With the last norm's input and output and the head's early gradient; the last stage.
  double total() const { return parameters + gradients + optimizer + activations + recomputed + logits; }
};

/// Bytes that one layer (not one that FP8 spares) keeps from forward to backward for one micro-batch on one rank
/// (Korthikanti et al. 2022, generalised: query groups, gated and ungated widths; masks of dropout, which the paper
/// counts, are drawn again and not kept).
double layer_activation_bytes(const GptLayout& layout, const GptMemoryInput& input);

/// Estimate for the ranks of a stage (all tensor and data ranks of a stage hold alike but for the padding of the last
/// shard). `schedule` must be the layout's. Temporaries of kernels, messages, the allocator's rounding and libraries
/// come on top.
GptMemory plan_gpt_memory(const GptLayout& layout, const PipeSchedule& schedule, int stage,
                          const GptMemoryInput& input);

}  // namespace lockstep::plan
