#pragma once
#include <algorithm>
#include <cstdint>

namespace lockstep::config {

/// Keys up to which matrix products and a softmax beat the fused CPU kernel, forward and backward together, by so much
/// that the probabilities which they keep are worth their memory. Causal, 12 heads of 64, two threads of a Xeon with
/// AMX, fused over plain time in fp32 1.2 at 192 keys, 1.3 at 512, 1.1 at 1024 and 1.0 at 2048, in bf16 2.4, 1.7, 1.1
/// and 1.2. The layer chooses by it, and the plan of memory too.
constexpr int64_t plain_attention_limit(bool is_16_bit, bool is_causal) {
  if (is_causal) return is_16_bit ? 1024 : 768;
  return is_16_bit ? 512 : 256;
}

/// Queries of a block of causal attention on the CPU: fewer leave out more of what nobody sees, more make larger
/// products, which bf16 needs.
constexpr int64_t causal_block_rows(int64_t length, bool is_16_bit) {
  const int64_t most = is_16_bit ? 256 : 128, num_blocks = std::max<int64_t>(1, (length + most - 1) / most);
  return std::max<int64_t>(1, (length + num_blocks - 1) / num_blocks);
}

/// Probabilities of a head that it keeps: each block's, of all keys that its last query sees.
constexpr int64_t kept_causal_scores(int64_t length, bool is_16_bit) {
  const int64_t rows = causal_block_rows(length, is_16_bit);
  int64_t count = 0;
  for (int64_t begin = 0; begin < length; begin += rows) {
    const int64_t end = std::min(begin + rows, length);
    count += (end - begin) * end;
  }
  return count;
}

}  // namespace lockstep::config
