// The model that the flags of `train gpt` describe.
#include <algorithm>

#include "config/option_checks.h"
#include "core/error.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {
namespace {

template <typename Field, typename Value> void take(const std::optional<Value>& given, Field& field) {
  if (given) field = static_cast<Field>(*given);
}

/// `was_gated`: the named model has gates of its own, and a width that belongs to them.
void set_sizes(const GptOptions& o, bool was_gated, config::GptShape& shape) {
  const bool was_grouped = shape.query_groups != shape.heads;
  const bool was_plain = shape.ffn == 4 * shape.hidden;
  const bool has_own_width = was_gated && o.hidden_size.value_or(shape.hidden) == shape.hidden;
  take(o.num_layers, shape.layers);
  take(o.hidden_size, shape.hidden);
  take(o.num_attention_heads, shape.heads);
  if (!was_grouped) shape.query_groups = shape.heads;
  if (o.group_query_attention && (o.num_query_groups || !was_grouped))
    shape.query_groups = o.num_query_groups.value_or(1);
  config::refuse_if((o.hidden_size || o.num_attention_heads) && !o.kv_channels && shape.hidden % shape.heads != 0,
                    fmt::format("a hidden size of {} is no multiple of {} heads", shape.hidden, shape.heads),
                    "change --hidden-size or --num-attention-heads, or give the width of a head: --kv-channels");
  if (o.hidden_size || o.num_attention_heads) shape.head_width = shape.hidden / std::max<int64_t>(1, shape.heads);
  take(o.kv_channels, shape.head_width);
  if (o.swiglu && !o.ffn_hidden_size && !has_own_width)
    shape.ffn = config::swiglu_ffn(shape.hidden);
  else if (o.hidden_size && was_plain)
    shape.ffn = 4 * shape.hidden;
  take(o.ffn_hidden_size, shape.ffn);
  if (o.seq_length) {
    shape.sequence = *o.seq_length;
    if (!o.max_position_embeddings && shape.positions != config::GptPositions::kLearned)
      shape.max_positions = std::max(shape.max_positions, shape.sequence);
  }
  take(o.max_position_embeddings, shape.max_positions);
  if (o.model.empty() && !o.max_position_embeddings) shape.max_positions = shape.sequence;
}

void set_parts(const GptOptions& o, config::GptShape& shape) {
  if (o.position_embedding_type)
    shape.positions = *o.position_embedding_type == "rope"   ? config::GptPositions::kRotary
                      : *o.position_embedding_type == "none" ? config::GptPositions::kNone
                                                             : config::GptPositions::kLearned;
  take(o.rotary_base, shape.rotary_base);
  take(o.rotary_percent, shape.rotary_fraction);
  if (o.use_rope_scaling) shape.rotary_scaling = config::RotaryScaling{.factor = o.rope_scaling_factor};
  if (o.normalization)
    shape.norm = *o.normalization == "RMSNorm" ? config::GptNorm::kRmsNorm : config::GptNorm::kLayerNorm;
  if (o.apply_layernorm_1p) shape.norm = config::GptNorm::kLayerNorm1p;
  take(o.norm_epsilon, shape.norm_eps);
  if (o.swiglu) shape.activation = config::GptActivation::kSwiglu;
  if (o.squared_relu) shape.activation = config::GptActivation::kSquaredRelu;
  if (o.no_bias_gelu_fusion && shape.activation == config::GptActivation::kGeluTanh)
    shape.activation = config::GptActivation::kGelu;
  if (o.disable_bias_linear) shape.has_bias = false;
  if (o.add_qkv_bias) shape.has_qkv_bias = true;
  if (o.untie_embeddings_and_output_weights) shape.is_head_tied = false;
  take(o.hidden_dropout, shape.hidden_dropout);
  take(o.attention_dropout, shape.attention_dropout);
  take(o.init_method_std, shape.init_std);
  take(o.embedding_init_method_std, shape.embedding_init_std);
}

void set_vocabulary(const GptOptions& o, config::GptShape& shape) {
  take(o.vocab_size, shape.vocab);
  if (o.vocab_size && o.tokenizer_type == "NullTokenizer") ++shape.vocab;  // the end of a document is an id of its own
  take(o.make_vocab_size_divisible_by, shape.vocab_multiple);
  if (o.vocab_size || o.make_vocab_size_divisible_by) shape.fixed_vocab = std::nullopt;
  take(o.padded_vocab_size, shape.fixed_vocab);
  if (!has_known_vocabulary(o) && o.padded_vocab_size) shape.vocab = std::min(shape.vocab, *o.padded_vocab_size);
}

}  // namespace

bool has_known_vocabulary(const GptOptions& options) { return !options.model.empty() || options.vocab_size; }

config::GptShape gpt_shape_of(const GptOptions& options) {
  config::GptShape shape;
  if (!options.model.empty()) {
    shape = config::resolve_gpt_shape(options.model);
  } else {
    if (!options.num_layers || !options.hidden_size || !options.num_attention_heads || !options.seq_length)
      throw UsageError("options: the model is not described",
                       "give --model NAME, or --num-layers, --hidden-size, --num-attention-heads and --seq-length");
    shape.name = fmt::format("L{} h{} a{}", *options.num_layers, *options.hidden_size, *options.num_attention_heads);
  }
  const bool was_gated = shape.is_gated();
  set_parts(options, shape);
  set_sizes(options, was_gated, shape);
  set_vocabulary(options, shape);
  config::check_gpt_shape(shape);
  return shape;
}

}  // namespace lockstep::tasks
