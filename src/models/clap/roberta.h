#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "config/clap_shape.h"
#include "models/clap/text_packing.h"
#include "models/forward_context.h"
#include "nn/dropout.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace lockstep::models {

/// Rates of random dropping in one forward pass; all 0 in evaluation.
struct RobertaDropout {
  double hidden = 0.0, attention = 0.0;
  uint64_t key = 0;
  nn::Dropout at(int64_t layer, uint64_t place) const;           ///< Of hidden states.
  nn::Dropout attention_at(int64_t layer, int64_t block) const;  ///< Of attention probabilities.
};

/// One post-norm encoder layer: LayerNorm(x + attention(x)), then LayerNorm(x + mlp(x)).
class RobertaLayer : public nn::Module {
 public:
  RobertaLayer(const config::RobertaShape& shape, int64_t index, const at::TensorOptions& options);
  /// On packed tokens [N, D] -> [N, D].
  at::Tensor forward(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout) const;
  /// forward() at each text's first token, without computing the others: [B, D] in packed order.
  at::Tensor forward_first(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout) const;
  at::ScalarType parameter_type() const { return query_.weight().scalar_type(); }

 private:
  at::Tensor attended(const at::Tensor& query_x_QD, const at::Tensor& x_ND, bool only_first, const TextPacking& packing,
                      const RobertaDropout& dropout) const;
  at::Tensor finish(const at::Tensor& x, const at::Tensor& attended, const RobertaDropout& dropout) const;

  nn::Linear query_, key_, value_, attention_dense_;
  nn::LayerNorm attention_norm_;
  nn::Linear intermediate_, output_;
  nn::LayerNorm output_norm_;
  int64_t heads_, index_;
};

/// What a decoder of captions reads beside the text's vector.
struct RobertaTokens {
  at::Tensor pooled_BD, tokens_BTD;
};

/// RoBERTa (Liu et al. 2019) under Hugging Face's parameter names, with a pooler. Only real tokens are computed (see
/// TextPacking); the result is that of the padded computation with an attention mask.
class RobertaTower final : public nn::Module {
 public:
  /// `exact_shortcuts`: the last layer computes only the first tokens where the pooler reads no others.
  RobertaTower(const config::RobertaShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  /// [B, T] token ids (int64), padded with the shape's pad_id -> [B, D]; nothing waits where the ids lie in memory of
  /// the host. DataError for a text without tokens or with too many.
  at::Tensor forward(const at::Tensor& text_BT, const ForwardContext& context);
  /// The same with the last hidden state of every column, padding included: all of it is computed, and nothing waits
  /// wherever the ids lie.
  RobertaTokens forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context);
  /// Keep only layer inputs for the backward pass.
  void set_checkpointing(bool checkpointing) { checkpointing_ = checkpointing; }

 private:
  at::Tensor embed(const TextPacking& packing, const RobertaDropout& dropout) const;
  /// The last hidden state; of first tokens alone where the pooler reads no others.
  at::Tensor encode(const TextPacking& packing, const ForwardContext& context, bool first_only) const;
  at::Tensor run_layer(RobertaLayer& layer, const at::Tensor& x_ND, const TextPacking& packing,
                       const RobertaDropout& dropout, bool only_first) const;
  at::Tensor pool(const at::Tensor& x_ND, const TextPacking& packing) const;

  config::RobertaShape shape_;
  bool exact_shortcuts_;
  bool checkpointing_ = false;
  nn::Embedding word_embeddings_, position_embeddings_;
  at::Tensor token_type_embeddings_;
  nn::LayerNorm embedding_norm_;
  std::vector<std::unique_ptr<RobertaLayer>> layers_;
  std::unique_ptr<nn::Linear> pooler_;
};

}  // namespace lockstep::models
