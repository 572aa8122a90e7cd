#include "analysis/megatron_flops.h"

#include <string_view>

#include "core/strings.h"

namespace lockstep::analysis {
namespace {
using Texts = std::map<std::string, std::string>;

/// Is the argument given, and not as what stands for "none", in a log or in the record of a run?
bool is_set(const Texts& options, const char* name) {
  const auto found = options.find(name);
  if (found == options.end()) return false;
  const std::string value = core::to_lower_ascii(found->second);
  return value != "none" && value != "null" && value != "false" && value != "0";
}

/// A whole number above 0, or 0.
int64_t count_of(const Texts& options, const char* name) {
  constexpr int64_t kMaxSize = 1 << 24;
  const auto found = options.find(name);
  const auto count = found == options.end() ? std::nullopt : core::parse_int(found->second);
  return count && *count > 0 && *count <= kMaxSize ? *count : 0;
}
}  // namespace

std::optional<config::GptShape> megatron_shape(const Texts& options) {
  for (const char* other : {"num_experts", "decoder_num_layers", "multi_latent_attention", "is_hybrid_model",
                            "hybrid_override_pattern", "mtp_num_layers", "experimental_attention_variant"})
    if (is_set(options, other)) return std::nullopt;
  const auto is_text = [&](const char* name, std::string_view wanted) {
    const auto found = options.find(name);
    return found != options.end() && found->second == wanted;
  };
  config::GptShape shape{.layers = count_of(options, "num_layers"),
                         .hidden = count_of(options, "hidden_size"),
                         .heads = count_of(options, "num_attention_heads"),
                         .head_width = count_of(options, "kv_channels"),
                         .ffn = count_of(options, "ffn_hidden_size"),
                         .vocab = count_of(options, "padded_vocab_size"),
                         .sequence = count_of(options, "seq_length"),
                         .max_positions = count_of(options, "max_position_embeddings")};
  if (shape.vocab == 0) shape.vocab = count_of(options, "vocab_size");
  shape.fixed_vocab = shape.vocab;
  shape.query_groups = is_set(options, "group_query_attention") ? count_of(options, "num_query_groups") : shape.heads;
  if (shape.layers == 0 || shape.hidden == 0 || shape.sequence == 0 || shape.vocab == 0 || shape.heads == 0 ||
      shape.query_groups == 0 || (shape.head_width == 0 && shape.hidden < shape.heads))
    return std::nullopt;
  if (shape.head_width == 0) shape.head_width = shape.hidden / shape.heads;
  constexpr int64_t kMostLayers = 1 << 12, kMostWidth = 1 << 20;  // what is counted fits 64 bits
  if (shape.layers > kMostLayers || shape.hidden > kMostWidth || shape.ffn > kMostWidth ||
      shape.vocab > 16 * kMostWidth || shape.heads > kMostWidth / shape.head_width || shape.query_groups > shape.heads)
    return std::nullopt;
  if (is_set(options, "swiglu")) shape.activation = config::GptActivation::kSwiglu;
  if (shape.ffn == 0) shape.ffn = 4 * shape.hidden;
  if (shape.max_positions == 0) shape.max_positions = shape.sequence;
  if (is_text("position_embedding_type", "rope")) shape.positions = config::GptPositions::kRotary;
  if (is_text("normalization", "RMSNorm")) shape.norm = config::GptNorm::kRmsNorm;
  shape.has_bias = !is_text("add_bias_linear", "False") && !is_set(options, "disable_bias_linear");
  shape.is_head_tied = !is_set(options, "untie_embeddings_and_output_weights");
  return shape;
}

std::optional<config::FlopCount> megatron_flops(const Texts& options) {
  const auto shape = megatron_shape(options);
  if (!shape) return std::nullopt;
  config::FlopCount count = config::gpt_model(config::gpt_dims(*shape), config::AttentionCount::kCausal);
  count.formula += ", shape by the arguments in the log";
  return count;
}

}  // namespace lockstep::analysis
