#pragma once
#include <ATen/core/TensorBody.h>

#include <functional>

#include "config/roberta_shape.h"
#include "models/clap/text_packing.h"
#include "nn/dropout.h"

namespace lockstep::models {

/// Rows of packed texts. Letters: N tokens of all texts, Q rows whose attention is asked for (N or B), D = H K.
struct PackedRows {
  at::Tensor query_QD, key_ND, value_ND;
};

/// Attention among the tokens of each text.
struct PackedAttention {
  int64_t heads = 1;
  bool only_first = false;    ///< The queries are those of each text's first token.
  at::Tensor bias_1HTT = {};  ///< Added to the scores, for texts as long as the longest; may be undefined.
  std::function<nn::Dropout(int64_t block)> dropout = {};  ///< Of the probabilities of a block of equal lengths.
};

/// [Q, D], in the order of the queries.
at::Tensor attend(const PackedRows& rows, const TextPacking& packing, const PackedAttention& attention);

/// One row of each text, in packed order, of last hidden states [N, D]; or of those of the first tokens alone where the
/// pooler reads no others.
at::Tensor pooled_texts(const at::Tensor& x_ND, const TextPacking& packing, config::TextPooler pooler);

}  // namespace lockstep::models
