#include "config/gpt_names.h"

#include <array>
#include <numeric>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

struct NameRow {
  std::string_view own;                    ///< Without "layers.I." and without ".weight" or ".bias".
  std::string_view gpt2, llama, megatron;  ///< Nemotron has Llama's, but for fc1.
};

constexpr std::array kModelNames{
    NameRow{"embedding.word", "transformer.wte", "model.embed_tokens", "embedding.word_embeddings"},
    NameRow{"embedding.position", "transformer.wpe", "", "embedding.position_embeddings"},
    NameRow{"final_norm", "transformer.ln_f", "model.norm", "decoder.final_layernorm"},
    NameRow{"head", "", "lm_head", "output_layer"},
};
constexpr std::array kLayerNames{
    NameRow{"norm_1", "ln_1", "input_layernorm", "input_layernorm"},
    NameRow{"attention.qkv", "attn.c_attn", "self_attn", "self_attention.linear_qkv"},
    NameRow{"attention.proj", "attn.c_proj", "self_attn.o_proj", "self_attention.linear_proj"},
    NameRow{"norm_2", "ln_2", "post_attention_layernorm", "pre_mlp_layernorm"},
    NameRow{"mlp.fc1", "mlp.c_fc", "mlp", "mlp.linear_fc1"},
    NameRow{"mlp.fc2", "mlp.c_proj", "mlp.down_proj", "mlp.linear_fc2"},
};

std::string_view dialect_name(const NameRow& row, GptDialect dialect) {
  return dialect == GptDialect::kHfGpt2 ? row.gpt2 : dialect == GptDialect::kMegatron ? row.megatron : row.llama;
}

std::string layer_prefix(const std::string& layer, GptDialect dialect) {
  if (dialect == GptDialect::kHfGpt2) return "transformer.h." + layer + ".";
  return (dialect == GptDialect::kMegatron ? "decoder.layers." : "model.layers.") + layer + ".";
}

/// Our name in its pieces: "layers.7.attention.qkv.weight" is {"7", "attention.qkv", "weight"}.
struct OwnName {
  std::string layer = {}, module = {}, leaf = {};
};

OwnName split_name(const std::string& name) {
  auto words = core::split(name, ".");
  OwnName own{.leaf = words.back()};
  words.pop_back();
  if (words.front() == "layers") {
    own.layer = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  own.module = core::join(words, ".");
  return own;
}

/// Why GPT-2's classes cannot hold the shape, or "".
std::string gpt2_misfit(const GptShape& shape) {
  if (shape.positions != GptPositions::kLearned)
    return fmt::format("its positions are {}", gpt_positions_name(shape.positions));
  if (shape.norm != GptNorm::kLayerNorm) return fmt::format("its norm is {}", gpt_norm_name(shape.norm));
  if (shape.is_gated()) return "its feed-forward layer is gated";
  if (!shape.has_bias) return "its layers have no biases";
  if (shape.query_groups != shape.heads) return "it has query groups";
  if (shape.head_width * shape.heads != shape.hidden) return "its heads do not add up to its width";
  return shape.is_head_tied ? "" : "its head is untied";
}

std::string llama_misfit(const GptShape& shape) {
  if (shape.positions != GptPositions::kRotary || shape.rotary_fraction != 1)
    return "its positions are not rotary over whole heads";
  if (shape.norm != GptNorm::kRmsNorm) return fmt::format("its norm is {}", gpt_norm_name(shape.norm));
  if (!shape.is_gated()) return fmt::format("its activation is {}", gpt_activation_name(shape.activation));
  return shape.has_bias || shape.has_qkv_bias ? "it has biases" : "";
}

std::string nemotron_misfit(const GptShape& shape) {
  if (shape.positions != GptPositions::kRotary || shape.rotary_scaling)
    return "its positions are not plain rotary ones";
  if (shape.norm != GptNorm::kLayerNorm1p) return fmt::format("its norm is {}", gpt_norm_name(shape.norm));
  if (shape.activation != GptActivation::kSquaredRelu)
    return fmt::format("its activation is {}", gpt_activation_name(shape.activation));
  return shape.has_bias || shape.has_qkv_bias ? "it has biases" : "";
}

struct HuggingFaceModel {
  GptDialect dialect;
  std::string_view name;
  std::string (*misfit)(const GptShape&);
};
constexpr std::array kHuggingFaceModels{
    HuggingFaceModel{GptDialect::kHfGpt2, "GPT-2", gpt2_misfit},
    HuggingFaceModel{GptDialect::kHfLlama, "Llama", llama_misfit},
    HuggingFaceModel{GptDialect::kHfNemotron, "Nemotron", nemotron_misfit},
};

void check_dialect(const GptShape& shape, GptDialect dialect) {
  for (const HuggingFaceModel& model : kHuggingFaceModels) {
    const std::string misfit = model.dialect == dialect ? model.misfit(shape) : "";
    if (!misfit.empty())
      throw UsageError(
          fmt::format("gpt: model '{}' is no {} model of Hugging Face: {}", shape.name, model.name, misfit),
          "Megatron's names can hold it");
  }
}

/// Elements of a row: the inputs of a matrix, 1 for vectors (a gated layer's bias is a vector in two halves).
int64_t row_width(const ParamSpec& spec) {
  return spec.shape.size() > 1 && !spec.name.ends_with(".bias") ? spec.shape.back() : 1;
}

/// Queries, keys or values of all groups; our rows are [group][heads of the group, key, value][head width].
void append_heads(const GptShape& shape, int64_t first, int64_t count, std::vector<int64_t>& rows) {
  const int64_t per_group = shape.heads_per_group() + 2;
  for (int64_t group = 0; group < shape.query_groups; ++group)
    for (int64_t i = 0; i < count * shape.head_width; ++i)
      rows.push_back((group * per_group + first) * shape.head_width + i);
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

}  // namespace

GptDialect hugging_face_dialect(const GptShape& shape) {
  std::vector<std::string> reasons;
  for (const HuggingFaceModel& model : kHuggingFaceModels) {
    const std::string misfit = model.misfit(shape);
    if (misfit.empty()) return model.dialect;
    reasons.push_back(fmt::format("{} ({})", model.name, misfit));
  }
  throw UsageError(
      fmt::format("gpt: no class of Hugging Face holds model '{}': not {}", shape.name, core::join(reasons, ", ")),
      "Megatron's names can hold it");
}

std::vector<int64_t> own_rows(const GptShape& shape, const ParamSpec& spec, GptRows rows) {
  const int64_t per_group = shape.heads_per_group();
  std::vector<int64_t> own;
  switch (rows) {
    case GptRows::kAll: return range(0, spec.numel() / row_width(spec));
    case GptRows::kTokens: return range(0, shape.vocab);
    case GptRows::kQuery: append_heads(shape, 0, per_group, own); return own;
    case GptRows::kKey: append_heads(shape, per_group, 1, own); return own;
    case GptRows::kValue: append_heads(shape, per_group + 1, 1, own); return own;
    case GptRows::kQueryKeyValue:
      append_heads(shape, 0, per_group, own);
      append_heads(shape, per_group, 1, own);
      append_heads(shape, per_group + 1, 1, own);
      return own;
    case GptRows::kGate: return range(0, shape.ffn);
    case GptRows::kUp: return range(shape.ffn, 2 * shape.ffn);
  }
  LOCKSTEP_CHECK(false, "rows {}", static_cast<int>(rows));
}

std::vector<ForeignTensor> foreign_tensors(const GptShape& shape, const ParamSpec& spec, GptDialect dialect) {
  check_dialect(shape, dialect);
  const OwnName own = split_name(spec.name);
  const auto find = [&](const auto& table) -> std::string {
    for (const NameRow& row : table)
      if (row.own == own.module) return std::string(dialect_name(row, dialect));
    LOCKSTEP_CHECK(false, "parameter '{}' has no name in dialect {}", spec.name, static_cast<int>(dialect));
  };
  const std::string module =
      own.layer.empty() ? find(kModelNames) : layer_prefix(own.layer, dialect) + find(kLayerNames);
  const auto tensor = [&](const std::string& name, GptRows rows) {
    std::vector<int64_t> sizes = {static_cast<int64_t>(own_rows(shape, spec, rows).size())};
    if (row_width(spec) > 1) sizes.push_back(row_width(spec));
    const bool is_transposed = dialect == GptDialect::kHfGpt2 && sizes.size() == 2 && !own.layer.empty();
    if (is_transposed) std::swap(sizes[0], sizes[1]);
    return ForeignTensor{name + "." + own.leaf, std::move(sizes), rows, is_transposed};
  };
  if (own.module == "embedding.word" || own.module == "head")
    return {tensor(module, dialect == GptDialect::kMegatron ? GptRows::kAll : GptRows::kTokens)};
  const bool has_llama_names = dialect == GptDialect::kHfLlama || dialect == GptDialect::kHfNemotron;
  if (has_llama_names && own.module == "attention.qkv")
    return {tensor(module + ".q_proj", GptRows::kQuery), tensor(module + ".k_proj", GptRows::kKey),
            tensor(module + ".v_proj", GptRows::kValue)};
  if (dialect == GptDialect::kHfLlama && own.module == "mlp.fc1")
    return {tensor(module + ".gate_proj", GptRows::kGate), tensor(module + ".up_proj", GptRows::kUp)};
  if (dialect == GptDialect::kHfNemotron && own.module == "mlp.fc1")
    return {tensor(module + ".up_proj", GptRows::kAll)};
  if (dialect == GptDialect::kHfGpt2 && own.module == "attention.qkv") return {tensor(module, GptRows::kQueryKeyValue)};
  return {tensor(module, GptRows::kAll)};
}

}  // namespace lockstep::config
