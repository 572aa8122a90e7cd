#pragma once
#include <ATen/core/TensorBody.h>

#include <vector>

namespace lockstep::models {

/// The real tokens of a batch of texts, text after text, ordered by length: texts of equal length are one dense block
/// [n, T], so that their attention is one batched product without a mask. Letters: B texts, N real tokens in all.
struct TextPacking {
  struct Block {
    int64_t num_texts = 0, tokens = 0;  ///< Rows of the packed tensor: num_texts x tokens.
    int64_t rows() const { return num_texts * tokens; }
  };
  std::vector<Block> blocks;  ///< In the order of the packed rows.
  at::Tensor id_N;            ///< Token ids.
  at::Tensor position_N;      ///< Rows of the position table: pad_id + 1, pad_id + 2, ... along each text.
  at::Tensor first_B;         ///< Packed row of each text's first token; texts in packed order.
  at::Tensor place_B;         ///< Which of the packed texts the caller's text b is.

  std::vector<int64_t> block_rows() const;
};

/// Packs what is not `pad_id` of text_BT (int64 ids). DataError for a text without tokens or with more than
/// `longest_text`. Lengths decide the work on the host, so ids on a GPU are copied to it: a synchronisation.
TextPacking pack_texts(const at::Tensor& text_BT, int64_t pad_id, int64_t longest_text);

}  // namespace lockstep::models
