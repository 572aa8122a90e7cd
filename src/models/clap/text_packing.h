#pragma once
#include <ATen/core/TensorBody.h>

#include <vector>

namespace lockstep::models {

/// How attention over texts of different lengths is computed; everything else sees real tokens only.
enum class TextAttention {
  kByLength,  ///< Texts of one length at once, without a mask: no work for padding. On the CPU.
  kPadded     ///< All texts at once, padded to the longest: few launches, a mask. On devices.
};
TextAttention text_attention_on(const at::Device& device);

/// The real tokens of a batch of texts, text after text, ordered by length: texts of equal length are one dense block
/// [n, T]. Letters: B texts, N real tokens in all, T tokens of the longest text.
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
  // Of TextAttention::kPadded, else undefined:
  at::Tensor slot_N;     ///< Row of each token in [B, T] rows.
  at::Tensor length_B;   ///< Tokens of each packed text.
  at::Tensor mask_B11T;  ///< -inf at padding, else 0; fp32.
  /// Of whole_texts() alone: packed rows that are padding.
  at::Tensor is_padding_N;

  bool is_padded() const { return slot_N.defined(); }
  std::vector<int64_t> block_rows() const;
  int64_t num_texts() const { return first_B.size(0); }
  int64_t longest() const { return blocks.empty() ? 0 : blocks.back().tokens; }
  /// Packed rows [N, D] in their places among [B, T, D], the rest filled with `padding`.
  at::Tensor padded(const at::Tensor& x_ND, double padding) const;
  /// The same with rows that are padding filled, too.
  at::Tensor tokens_alone(const at::Tensor& x_ND, double padding) const;
};

/// Packs what is not `pad_id` of text_BT (int64 ids), for work on `device`. DataError for a text without tokens or with
/// more than `longest_text`. Lengths decide the work on the host: ids that lie on a device are copied from it, which
/// waits; ids of the host do not.
TextPacking pack_texts(const at::Tensor& text_BT, int64_t pad_id, int64_t longest_text, const at::Device& device,
                       TextAttention attention);

/// All of text_BT where it lies, padding included, as texts of one length T: rows of padding attend to the text's
/// tokens and have its first unused position, as Hugging Face computes them. Waits for nothing.
TextPacking whole_texts(const at::Tensor& text_BT, int64_t pad_id);

}  // namespace lockstep::models
