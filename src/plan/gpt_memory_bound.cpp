// Letters: n tokens of a micro-batch, h width, q width of all queries, k width of all keys, f feed-forward width, s
// tokens of a sequence, e bytes of an activation. Passes are those over one such tensor, reads and writes alike.
#include "plan/gpt_memory_bound.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

/// Passes of an operator.
struct Passes {
  double forward = 0, backward = 0;
};
constexpr Passes kNorm{2, 3};      // x -> y; x, dy -> dx
constexpr Passes kResidual{3, 3};  // two addends, one sum; the gradients of both branches likewise
constexpr Passes kSoftmax{2, 3};   // scores -> probabilities; both and a gradient -> a gradient
constexpr Passes kDropped{2, 2};   // drawn in either direction, no mask is written
constexpr Passes kLoneBias{2, 1};  // added behind the sum over tensor ranks; its gradient is a sum
constexpr Passes kFusedBias{0, 1};
constexpr double kLogitPasses = 1;  // statistics of a row, which stays in a cache: made again without early gradients
constexpr double kLogitGradientPasses = 2;
constexpr double kTableGradientPasses = 2;
constexpr double kTableGradientBytes = 4;

Passes activation_passes(config::GptActivation activation) {
  using enum config::GptActivation;
  if (activation == kSwiglu) return {5, 13};      // silu, product; silu twice, three products, a copy
  if (activation == kSquaredRelu) return {4, 6};  // two operators
  return {2, 3};
}

/// One kernel adds the bias and activates; another makes both gradients.
bool has_bias_in_activation(config::GptActivation activation) {
  return activation == config::GptActivation::kGelu || activation == config::GptActivation::kGeluTanh;
}

/// Bytes of one layer and micro-batch in either direction, as if there were one tensor rank.
struct LayerBytes {
  Passes replicated, core, divided;  ///< core: of attention between its linear layers, which may be computed again.
};

void add(Passes& sum, const Passes& passes, double bytes) {
  sum.forward += passes.forward * bytes;
  sum.backward += passes.backward * bytes;
}

LayerBytes layer_bytes(const GptLayout& layout, const GptMemoryInput& input) {
  const config::GptShape& shape = layout.shape;
  const auto e = static_cast<double>(input.bytes.compute);
  const auto n = static_cast<double>(shape.sequence * layout.batch.micro_batch_size);
  const double hidden = n * static_cast<double>(shape.hidden), query = n * static_cast<double>(shape.query_width()),
               qkv = n * static_cast<double>(shape.qkv_width()), ffn = n * static_cast<double>(shape.ffn),
               scores = static_cast<double>(layout.batch.micro_batch_size * shape.heads * input.kept_scores);
  LayerBytes bytes;
  add(bytes.replicated, kNorm, 2 * e * hidden);
  add(bytes.replicated, kResidual, 2 * e * hidden);
  if (shape.has_bias) add(bytes.replicated, layout.tp() > 1 ? kLoneBias : kFusedBias, 2 * e * hidden);
  if (shape.hidden_dropout > 0) add(bytes.replicated, kDropped, 2 * e * hidden);
  // Heads are laid side by side for the products and back again; three gradients of parts become one of the whole.
  add(bytes.core, {2, 11}, e * qkv);
  add(bytes.core, {2, 2}, e * query);
  if (shape.positions == config::GptPositions::kRotary) add(bytes.core, {4, 4}, shape.rotary_fraction * e * query);
  add(bytes.core, kSoftmax, e * scores);
  if (shape.attention_dropout > 0) add(bytes.core, kDropped, e * scores);
  add(bytes.divided, activation_passes(shape.activation), e * ffn);
  if (shape.has_bias || shape.has_qkv_bias) add(bytes.divided, kFusedBias, e * qkv);
  if (shape.has_bias && !has_bias_in_activation(shape.activation))
    add(bytes.divided, kFusedBias, e * ffn * (shape.is_gated() ? 2 : 1));
  return bytes;
}

/// Layers of a part whose forward pass runs again.
int64_t num_again(const config::GptPart& part, const GptMemoryInput& input) {
  if (input.recompute == config::GptRecompute::kUniform) return part.num_layers;
  return input.recompute == config::GptRecompute::kBlock ? std::min(part.num_layers, input.recompute_layers) : 0;
}

/// A part's layers and ends over one micro-batch, as if there were one tensor rank.
MemoryBoundBytes part_bytes(const GptLayout& layout, const config::GptPart& part, const GptMemoryInput& input) {
  const config::GptShape& shape = layout.shape;
  const LayerBytes layer = layer_bytes(layout, input);
  const auto e = static_cast<double>(input.bytes.compute);
  const auto n = static_cast<double>(shape.sequence * layout.batch.micro_batch_size);
  const auto layers = static_cast<double>(part.num_layers), again = static_cast<double>(num_again(part, input));
  const double cores_again = input.recompute == config::GptRecompute::kSelective ? layers : again;
  const double hidden = n * static_cast<double>(shape.hidden),
               vocab = static_cast<double>(shape.padded_vocab(layout.tp())),
               table = vocab * static_cast<double>(shape.hidden);
  MemoryBoundBytes bytes;
  bytes.replicated = (layers + again) * layer.replicated.forward + layers * layer.replicated.backward;
  bytes.divided = (layers + again) * layer.divided.forward + layers * layer.divided.backward +
                  (layers + cores_again) * layer.core.forward + layers * layer.core.backward;
  if (part.has_embedding) {
    bytes.replicated += e * hidden * (layout.tp() > 1 ? 4 : 2);  // rows of others are taken out
    if (shape.positions == config::GptPositions::kLearned) bytes.replicated += e * hidden * 3;
    if (shape.hidden_dropout > 0) bytes.replicated += e * hidden * (kDropped.forward + kDropped.backward);
    bytes.divided += e * table;  // a gradient of all rows
  }
  if (part.has_head) {
    bytes.replicated += e * hidden * (kNorm.forward + kNorm.backward);
    const double times = input.early_loss_gradients ? 1 : 2;
    bytes.divided += e * n * vocab * (times * kLogitPasses + kLogitGradientPasses);
    bytes.divided += kTableGradientBytes * kTableGradientPasses * table;
  }
  return bytes;
}

}  // namespace

MemoryBoundBytes count_memory_bound_bytes(const GptLayout& layout, int stage, const GptMemoryInput& input) {
  const auto ranks = static_cast<double>(layout.tp()), micro = static_cast<double>(layout.batch.num_micro_batches);
  MemoryBoundBytes bytes;
  for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
    const MemoryBoundBytes part = part_bytes(layout, layout.part(stage, chunk), input);
    bytes.replicated += micro * part.replicated / (layout.is_sequence_parallel ? ranks : 1);
    if (!layout.is_sequence_parallel) bytes.repeated += micro * part.replicated * (ranks - 1) / ranks;
    bytes.divided += micro * part.divided / ranks;
  }
  // Each micro-batch adds its gradients to those of the step.
  double parameters = 0;
  for (const config::ParamSpec& param : layout.params_of(stage))
    parameters += static_cast<double>(config::local_numel(param, layout.tp()));
  bytes.divided += micro * parameters * static_cast<double>(input.bytes.weight + 2 * input.bytes.gradient);
  return bytes;
}

}  // namespace lockstep::plan
