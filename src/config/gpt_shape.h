#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::config {

/// How a token knows its place.
enum class GptPositions {
  kLearned,  ///< A table that is added to the word embedding.
  kRotary,   ///< Queries and keys are turned (Su et al. 2021), a part of each head or all of it.
  kNone,
};
/// Between the two matrices of the feed-forward layer.
enum class GptActivation {
  kGelu,         ///< x Phi(x).
  kGeluTanh,     ///< 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), that of GPT-2 and of Megatron's fused path.
  kSquaredRelu,  ///< max(x, 0)^2
  kSwiglu,       ///< silu(gate) * up: the first matrix is twice as tall.
};
enum class GptNorm {
  kLayerNorm,
  kLayerNorm1p,  ///< LayerNorm whose gain is stored minus 1 (drawn as 0).
  kRmsNorm,
};

/// The names of --position-embedding-type ("learned_absolute", "rope", "none") and --normalization.
std::string_view gpt_positions_name(GptPositions positions);
std::string_view gpt_activation_name(GptActivation activation);
std::string_view gpt_norm_name(GptNorm norm);

/// Llama 3.1's stretching of rotary frequencies: wave lengths beyond original_positions / low_factor are divided by
/// `factor`, those below original_positions / high_factor stay, between them a line.
struct RotaryScaling {
  double factor = 8, low_factor = 1, high_factor = 4;
  int64_t original_positions = 8192;
};

/// Everything that fixes the parameters and the computation of a decoder-only language model.
struct GptShape {
  static constexpr std::string_view kKind = "gpt";  ///< As messages name it.
  std::string name = {};
  int64_t layers = 12, hidden = 768, heads = 12;
  int64_t query_groups = 12;  ///< Key and value heads; equal to heads: multi-head attention.
  int64_t head_width = 64;
  int64_t ffn = 3072;            ///< Width inside the feed-forward layer (of each half, where gated).
  int64_t vocab = 50257;         ///< Token ids that occur.
  int64_t vocab_multiple = 128;  ///< The table has a multiple of this x tensor-parallel size rows ...
  std::optional<int64_t> fixed_vocab = std::nullopt;  ///< ... or this many at any size.
  int64_t sequence = 1024;                            ///< Tokens of a training sequence.
  int64_t max_positions = 1024;                       ///< Longest sequence; rows of the learned table.
  GptPositions positions = GptPositions::kLearned;
  double rotary_fraction = 1.0;  ///< Part of each head that is turned, (0, 1].
  double rotary_base = 10000.0;
  std::optional<RotaryScaling> rotary_scaling = std::nullopt;
  GptActivation activation = GptActivation::kGeluTanh;
  GptNorm norm = GptNorm::kLayerNorm;
  double norm_eps = 1e-5;
  bool has_bias = true;       ///< Of every linear layer but the head; LayerNorm has its own.
  bool has_qkv_bias = false;  ///< Of the query, key and value projection alone, where has_bias is false.
  bool is_head_tied = true;   ///< The head is the word embedding.
  double init_std = 0.02;     ///< Output projections of both branches: divided by sqrt(2 layers).
  std::optional<double> embedding_init_std = std::nullopt;  ///< Of the embeddings, which then do not decay.
  double hidden_dropout = 0.1, attention_dropout = 0.1;

  bool is_gated() const { return activation == GptActivation::kSwiglu; }
  bool has_norm_bias() const { return norm != GptNorm::kRmsNorm; }
  int64_t heads_per_group() const { return heads / query_groups; }
  int64_t query_width() const { return heads * head_width; }
  int64_t qkv_width() const { return (heads + 2 * query_groups) * head_width; }
  int64_t rotary_width() const;  ///< Elements of each head that are turned, even.
  /// Rows of the word embedding and of the head when tp ranks share them.
  int64_t padded_vocab(int64_t tp) const;
};

/// Names of the built-in models in table order; each also goes by the aliases that resolve_gpt_shape knows ("175b",
/// "857m").
std::vector<std::string> gpt_model_names();

/// What is odd about a named model; empty for most. "gpt-857m-label" is what a scaling study calls 857M, and has 356 M
/// parameters.
std::string gpt_model_note(std::string_view name);

/// Shape of a built-in name or alias, or of a Hugging Face config.json (GPT-2, Llama or Nemotron) when `model` ends in
/// ".json". UsageError for an unknown name (with the nearest one), for a configuration that cannot be expressed, and
/// for sizes that do not fit.
GptShape resolve_gpt_shape(std::string_view model);

/// Shape from the text of a Hugging Face configuration; `where` names it in errors.
GptShape parse_gpt_shape(std::string_view json, std::string_view where);

/// UsageError unless all sizes fit together (heads divide, groups divide heads, the sequence fits the positions, ...).
void check_gpt_shape(const GptShape& shape);

/// Width inside a gated feed-forward layer where none is given: 8/3 of the hidden width, down to a multiple of 64.
int64_t swiglu_ffn(int64_t hidden);

}  // namespace lockstep::config
