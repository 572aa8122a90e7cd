#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/gpt_shape.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// Whose names a file of weights uses.
enum class GptDialect {
  kHfGpt2,      ///< GPT2LMHeadModel of transformers.
  kHfLlama,     ///< LlamaForCausalLM of transformers.
  kHfNemotron,  ///< NemotronForCausalLM of transformers.
  kMegatron,    ///< GPTModel of Megatron-LM's core, with the norms as modules of their own.
};

/// The dialect of Hugging Face that can express a shape; UsageError that says which property none can.
GptDialect hugging_face_dialect(const GptShape& shape);

/// Which rows (of the first dimension, a gated fc1 taken as [2 ffn, hidden]) of our tensor a foreign one holds, in
/// which order.
enum class GptRows {
  kAll,            ///< The same ones.
  kTokens,         ///< The first `vocab` of the padded vocabulary.
  kQueryKeyValue,  ///< All queries, then all keys, then all values.
  kQuery,
  kKey,
  kValue,
  kGate,
  kUp,
};

/// One tensor of a foreign file that one of our parameters is made of.
struct ForeignTensor {
  std::string name;
  std::vector<int64_t> shape;
  GptRows rows = GptRows::kAll;
  bool is_transposed = false;  ///< Stored as [in, out] (GPT-2's Conv1D).
  friend bool operator==(const ForeignTensor&, const ForeignTensor&) = default;
};

/// The foreign tensors that together hold our parameter. UsageError for a shape that the dialect cannot express.
std::vector<ForeignTensor> foreign_tensors(const GptShape& shape, const ParamSpec& spec, GptDialect dialect);

/// Numbers of our rows in the order in which the foreign tensor has them.
std::vector<int64_t> own_rows(const GptShape& shape, const ParamSpec& spec, GptRows rows);

}  // namespace lockstep::config
