#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <vector>

namespace lockstep::models {

/// Everything in a Swin block but attention treats tokens alike, so tokens are kept in the order in which attention
/// wants them: window after window. A list holds, for each place, the token's row-major number in its square of side x
/// side.
using TokenOrder = std::vector<int64_t>;

/// Windows of window x window tokens, row by row, of the square rolled by -shift along both sides.
TokenOrder window_order(int64_t side, int64_t window, int64_t shift);

/// The four tokens that patch merging joins, for each token of the square of half the side, which stands in
/// `half_order`: (even, even), (odd row, even), (even, odd column), (odd, odd).
TokenOrder merging_order(int64_t side, const TokenOrder& half_order);

/// A permutation of tokens, and back.
struct TokenPermutation {
  TokenPermutation() = default;
  /// Takes tokens in order `from` to order `to`.
  TokenPermutation(const TokenOrder& from, const TokenOrder& to, const at::Device& device);
  bool is_identity = true;
  at::Tensor source, back;  ///< Place i of the result is place source[i] of the input; back is the inverse.
};

/// [B, T, C] with its tokens in another order.
at::Tensor permute_tokens(const at::Tensor& x_BTC, const TokenPermutation& permutation);

/// Row of the bias table for each pair of tokens of a window, [window^2, window^2], int64 (Swin's
/// relative_position_index).
at::Tensor relative_position_index(int64_t window);

/// 0 where two tokens of a window of the rolled square were neighbours before, else -100: [windows, window^2,
/// window^2], fp32. Undefined for shift 0.
at::Tensor shift_mask(int64_t side, int64_t window, int64_t shift);

}  // namespace lockstep::models
