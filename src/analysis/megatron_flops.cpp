#include "analysis/megatron_flops.h"

#include "core/strings.h"

namespace lockstep::analysis {
namespace {
using Texts = std::map<std::string, std::string>;

/// Is the argument given, and not as what stands for "none"?
bool is_set(const Texts& options, const char* name) {
  const auto found = options.find(name);
  return found != options.end() && found->second != "None" && found->second != "False" && found->second != "0";
}

/// A whole number above 0, or 0.
int64_t count_of(const Texts& options, const char* name) {
  constexpr int64_t kMaxSize = 1 << 24;
  const auto found = options.find(name);
  const auto count = found == options.end() ? std::nullopt : core::parse_int(found->second);
  return count && *count > 0 && *count <= kMaxSize ? *count : 0;
}
}  // namespace

std::optional<config::FlopCount> megatron_flops(const Texts& options) {
  for (const char* other : {"num_experts", "decoder_num_layers", "multi_latent_attention", "is_hybrid_model",
                            "hybrid_override_pattern", "mtp_num_layers", "experimental_attention_variant"})
    if (is_set(options, other)) return std::nullopt;
  config::GptDims dims{.layers = count_of(options, "num_layers"),
                       .hidden = count_of(options, "hidden_size"),
                       .sequence = count_of(options, "seq_length"),
                       .vocab = count_of(options, "padded_vocab_size"),
                       .heads = count_of(options, "num_attention_heads"),
                       .ffn = count_of(options, "ffn_hidden_size"),
                       .head_width = count_of(options, "kv_channels"),
                       .is_gated = is_set(options, "swiglu")};
  if (dims.vocab == 0) dims.vocab = count_of(options, "vocab_size");
  dims.query_groups = is_set(options, "group_query_attention") ? count_of(options, "num_query_groups") : dims.heads;
  if (dims.layers == 0 || dims.hidden == 0 || dims.sequence == 0 || dims.vocab == 0 || dims.heads == 0 ||
      dims.query_groups == 0)
    return std::nullopt;
  config::FlopCount count = config::gpt_model(dims, config::AttentionCount::kCausal);
  count.formula += ", shape by the arguments in the log";
  return count;
}

}  // namespace lockstep::analysis
