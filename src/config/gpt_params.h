#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/gpt_shape.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// A run of layers, and the ends of the model that belong to it: what one pipeline stage (or one of its chunks)
/// computes.
struct GptPart {
  int64_t first_layer = 0, num_layers = 0;
  bool has_embedding = false;
  bool has_head = false;  ///< With the last norm.
  friend bool operator==(const GptPart&, const GptPart&) = default;
};
GptPart whole_gpt(const GptShape& shape);

/// Parameters of a part in forward-execution order with their full shapes, for `tp` tensor ranks (the padded vocabulary
/// depends on it).
///
/// Names: embedding.word.weight, embedding.position.weight, layers.I.{norm_1,norm_2}.{weight,bias},
/// layers.I.attention.{qkv,proj}.{weight,bias}, layers.I.mlp.{fc1,fc2}.{weight,bias}, final_norm.{weight,bias},
/// head.weight. Layouts, all [out, in] so that y = x W^T:
/// - attention.qkv: per query group the queries of its heads, then its key, then its value, so that splitting rows
/// among ranks that divide the
///   groups keeps groups whole; split along 0, as fc1 and both embeddings.
/// - mlp.fc1 of a gated model: [2, ffn, hidden], gate first; split along 1, so that every rank has both halves of its
/// own columns.
/// - attention.proj and mlp.fc2: split along 1 (inputs); their biases are added once, behind the sum over ranks.
/// A tied head on another stage than the embedding is a second embedding.word.weight with is_tied_copy; it is drawn
/// alike, counts once in norms and is not saved. is_partial_over_tokens assumes that under sequence parallelism the
/// position table is added to the rank's own tokens.
std::vector<ParamSpec> gpt_param_specs(const GptShape& shape, const GptPart& part, int64_t tp = 1);

inline constexpr const char *kGptWordEmbedding = "embedding.word.weight", *kGptHead = "head.weight";
/// A table with a row for each token of the padded vocabulary.
inline bool is_vocab_table(const ParamSpec& spec) { return spec.name == kGptWordEmbedding || spec.name == kGptHead; }

/// The part of a parameter that one of `tp` tensor ranks holds: split_dim cut into equal pieces. LOCKSTEP_CHECK that it
/// divides.
std::vector<int64_t> local_shape(const ParamSpec& spec, int64_t tp);
int64_t local_numel(const ParamSpec& spec, int64_t tp);

struct GptCost {
  int64_t parameters = 0;            ///< With the padded vocabulary of `tp` ranks, tied copies once.
  int64_t embedding_parameters = 0;  ///< Of them word embedding, position table and untied head.
};
GptCost gpt_cost(const GptShape& shape, int64_t tp = 1);

}  // namespace lockstep::config
