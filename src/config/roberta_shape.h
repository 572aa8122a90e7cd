#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "config/param_list.h"

namespace lockstep::config {

/// How the text tower makes one vector of a text.
enum class TextPooler {
  kClass,        ///< First token through a dense layer and tanh (Hugging Face's pooler_output).
  kMean,         ///< Over the real tokens.
  kMax,          ///< Over the real tokens.
  kClassHidden,  ///< The first token's last hidden state.
};

/// RoBERTa (Liu et al. 2019) and XLM-RoBERTa as a text tower.
struct RobertaShape {
  int64_t vocab_size = 50265;
  int64_t max_positions = 514;  ///< Rows of the position table; the first two are never used by a token.
  int64_t token_types = 1;
  int64_t pad_id = 1;
  int64_t width = 768, heads = 12, layers = 12, mlp_width = 3072;
  int64_t context_length = 77;  ///< Columns of a batch of token ids.
  double dropout = 0.1;         ///< While training; of embeddings and of the blocks' two branches.
  double attention_dropout = 0.1;
  TextPooler pooler = TextPooler::kClass;

  int64_t longest_text() const { return max_positions - pad_id - 1; }  ///< Tokens.
};

/// Features to the shared space: nothing, one linear layer, or two with an activation between.
struct ProjectionShape {
  enum class Kind { kNone, kLinear, kMlp } kind = Kind::kMlp;
  int64_t hidden = 512;  ///< kMlp.
  bool has_bias = true;
  bool is_relu = true;  ///< ReLU, else the exact GELU.
};

/// Sets the sizes of "roberta-base", "roberta-large", "xlm-roberta-base" or "xlm-roberta-large" (with or without the
/// organisation in front); false for another name.
bool set_roberta(RobertaShape& text, std::string_view name);
/// The one of those names that has just these sizes; "" for others.
std::string_view roberta_name(const RobertaShape& text);
/// Where the Hugging Face Hub has the weights of one of those names.
std::string roberta_repository(std::string_view name);

/// Parameters of the tower under Hugging Face's names behind `prefix`, in forward order.
void add_roberta(ParamList& list, const std::string& prefix, const RobertaShape& text);
/// Parameters of a projection from `in` to `out`, named as torch.nn.Sequential names them behind `name`.
void add_projection(ParamList& list, const std::string& name, int64_t in, int64_t out, const ProjectionShape& shape);

/// Forward work of one text of `tokens` real tokens, the pooler included.
double roberta_forward_flops(const RobertaShape& text, int64_t tokens);
double projection_forward_flops(int64_t in, int64_t out, const ProjectionShape& shape);

}  // namespace lockstep::config
