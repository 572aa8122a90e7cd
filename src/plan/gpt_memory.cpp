// Letters: s tokens of a sequence, b sequences of a micro-batch, h width, q width of all queries, k width of all keys,
// f feed-forward width, t tensor ranks.
#include "plan/gpt_memory.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::plan {
namespace {

struct Sizes {
  /// split: by which sequence parallelism divides tokens.
  double tokens, hidden, query, key, ffn, heads, sequence, ranks, split;
};

Sizes sizes_of(const GptLayout& layout) {
  const config::GptShape& shape = layout.shape;
  const double ranks = static_cast<double>(layout.tp());
  return {.tokens = static_cast<double>(shape.sequence * layout.batch.micro_batch_size),
          .hidden = static_cast<double>(shape.hidden),
          .query = static_cast<double>(shape.query_width()),
          .key = static_cast<double>(shape.query_groups * shape.head_width),
          .ffn = static_cast<double>(shape.ffn),
          .heads = static_cast<double>(shape.heads),
          .sequence = static_cast<double>(shape.sequence),
          .ranks = ranks,
          .split = layout.is_sequence_parallel ? ranks : 1};
}

constexpr double kNarrowCopies = 2;  // a weight and its transpose, one byte each

bool is_linear_weight(const config::ParamSpec& param) {
  return core::ends_with(param.name, ".weight") &&
         (param.name.find(".attention.") != std::string::npos || param.name.find(".mlp.") != std::string::npos);
}

/// Input of a layer, all that recomputing it needs.
double layer_input_bytes(const Sizes& sizes, const StateBytes& bytes) {
  return sizes.tokens * sizes.hidden * static_cast<double>(bytes.compute) / sizes.split;
}

bool has_fp8(const GptLayout& layout, int64_t layer, const GptMemoryInput& input) {
  return input.has_fp8 && !(input.fp8_spares_ends && layout.is_end_layer(layer));
}

/// Elements of this rank's weights of a chunk of which copies in 8 bits are kept.
int64_t num_narrow(const GptLayout& layout, const config::GptPart& part, const GptMemoryInput& input) {
  int64_t count = 0;
  for (int64_t layer = part.first_layer; layer < part.first_layer + part.num_layers; ++layer) {
    if (!has_fp8(layout, layer, input)) continue;
    for (const config::ParamSpec& param :
         config::gpt_param_specs(layout.shape, {.first_layer = layer, .num_layers = 1}, layout.tp()))
      if (is_linear_weight(param)) count += config::local_numel(param, layout.tp());
  }
  return count;
}

double bytes_of_layer(const GptLayout& layout, int64_t layer, GptMemoryInput input) {
  input.has_fp8 = has_fp8(layout, layer, input);
  return layer_activation_bytes(layout, input);
}

double bytes_of_layers(const GptLayout& layout, int64_t begin, int64_t end, const GptMemoryInput& input) {
  double bytes = 0;
  for (int64_t layer = begin; layer < end; ++layer) bytes += bytes_of_layer(layout, layer, input);
  return bytes;
}

/// Probabilities of a layer: the softmax and what dropout leaves of it.
double score_bytes(const GptLayout& layout, const GptMemoryInput& input) {
  const Sizes z = sizes_of(layout);
  return z.tokens / z.sequence * z.heads * static_cast<double>(input.kept_scores) *
         static_cast<double>((layout.shape.attention_dropout > 0 ? 2 : 1) * input.bytes.compute) / z.ranks;
}

/// The largest unit of a chunk that is computed again at a time.
double recomputed_bytes(const GptLayout& layout, const config::GptPart& part, const GptMemoryInput& input) {
  if (input.recompute == config::GptRecompute::kSelective) return part.num_layers > 0 ? score_bytes(layout, input) : 0;
  const bool is_uniform = input.recompute == config::GptRecompute::kUniform;
  if (!is_uniform && input.recompute != config::GptRecompute::kBlock) return 0;
  const int64_t unit = is_uniform ? input.recompute_layers : 1, end = part.first_layer + part.num_layers;
  const int64_t end_of_units = is_uniform ? end : std::min(end, part.first_layer + input.recompute_layers);
  double most = 0;
  for (int64_t begin = part.first_layer; begin < end_of_units; begin += unit)
    most = std::max(most, bytes_of_layers(layout, begin, std::min(end, begin + unit), input));
  return most;
}

/// What a chunk of layers keeps of one micro-batch.
double chunk_bytes(const GptLayout& layout, const config::GptPart& part, const GptMemoryInput& input) {
  const Sizes sizes = sizes_of(layout);
  const double inputs = layer_input_bytes(sizes, input.bytes);
  double kept = 0;
  if (input.recompute == config::GptRecompute::kUniform) {
    const int64_t num_units = (part.num_layers + input.recompute_layers - 1) / input.recompute_layers;
    kept = static_cast<double>(num_units) * inputs;
  } else {
    const int64_t num_again =
        input.recompute == config::GptRecompute::kBlock ? std::min(part.num_layers, input.recompute_layers) : 0;
    kept = static_cast<double>(num_again) * inputs +
           bytes_of_layers(layout, part.first_layer + num_again, part.first_layer + part.num_layers, input);
  }
  return kept;
}

/// Peak over the passes of a stage of what all chunks in flight keep.
double peak_bytes(const PipeSchedule& schedule, int stage, const std::vector<double>& bytes_of_chunk) {
  double kept = 0, peak = 0;
  for (const PipeAction& action : schedule.stages.at(static_cast<size_t>(stage))) {
    if (action.is_exchange) continue;
    const double bytes = bytes_of_chunk.at(static_cast<size_t>(action.pass.chunk));
    kept += action.pass.is_forward ? bytes : -bytes;
    peak = std::max(peak, kept);
  }
  return peak;
}

/// Input and output of the last norm, and the logits of a chunk of tokens, over which their gradients are written.
/// Backward follows at once, but for GPipe.
double head_bytes(const GptLayout& layout, const GptMemoryInput& input) {
  const Sizes sizes = sizes_of(layout);
  const double rows = static_cast<double>(layout.shape.padded_vocab(layout.tp())) / sizes.ranks;
  const auto e = static_cast<double>(input.bytes.compute);
  const double logits = static_cast<double>(loss_chunk_tokens(layout, input.loss_chunk_tokens)) * rows * e;
  const double norm = 2 * sizes.tokens * sizes.hidden * e / sizes.split;
  const double num_kept =
      layout.pipe.kind == ScheduleKind::kGpipe ? static_cast<double>(layout.pipe.num_micro_batches) : 1;
  return num_kept * norm + logits + (input.early_loss_gradients ? rows * sizes.hidden * 4 : 0);
}

}  // namespace

StateBytes state_bytes(bool is_16bit, bool has_fp32_gradients) {
  if (!is_16bit) return {};
  return {.weight = 2, .gradient = has_fp32_gradients ? 4 : 2, .optimizer = 12, .compute = 2};
}

double layer_activation_bytes(const GptLayout& layout, const GptMemoryInput& input) {
  const Sizes z = sizes_of(layout);
  const double e = static_cast<double>(input.bytes.compute);
  const double input_bytes = input.has_fp8 ? 1 : e;  // of what linear layers keep
  // Inputs of both norms and of both column layers; with sequence parallelism each rank has those of its own tokens.
  const double replicated = z.tokens * 2 * (e + input_bytes) * z.hidden / z.split;
  // Queries and the attention's result, keys and values; the input of the activation function, with a gate two, and its
  // result.
  const double gates = layout.shape.is_gated() ? 2 : 1;
  double divided = z.tokens * (e * (2 * z.query + 2 * z.key + gates * z.ffn) + input_bytes * z.ffn);
  if (input.has_fp8) divided += z.tokens * z.query;  // beside the attention's result, which its gradient needs
  const bool has_scores = input.recompute != config::GptRecompute::kSelective;
  return replicated + divided / z.ranks + (has_scores ? score_bytes(layout, input) : 0);
}

GptMemory plan_gpt_memory(const GptLayout& layout, const PipeSchedule& schedule, int stage,
                          const GptMemoryInput& input) {
  LOCKSTEP_CHECK(input.recompute_layers >= 1, "recompute_layers={}", input.recompute_layers);
  GptMemory memory;
  for (const config::ParamSpec& param : layout.params_of(stage))
    memory.num_parameters += config::local_numel(param, layout.tp());
  const double parameters = static_cast<double>(memory.num_parameters);
  memory.parameters = parameters * static_cast<double>(input.bytes.weight);
  memory.gradients = parameters * static_cast<double>(input.bytes.gradient);
  memory.optimizer = parameters * static_cast<double>(input.bytes.optimizer) /
                     (layout.is_optimizer_sharded ? static_cast<double>(layout.dp()) : 1);
  std::vector<double> kept;
  for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
    const config::GptPart& part = layout.part(stage, chunk);
    kept.push_back(chunk_bytes(layout, part, input));
    memory.parameters += kNarrowCopies * static_cast<double>(num_narrow(layout, part, input));
    memory.recomputed = std::max(memory.recomputed, recomputed_bytes(layout, part, input));
    if (part.has_head) memory.logits = head_bytes(layout, input);
  }
  memory.activations = peak_bytes(schedule, stage, kept);
  return memory;
}

}  // namespace lockstep::plan
