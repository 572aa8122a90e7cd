#pragma once
#include <cstdint>

namespace lockstep::config {

/// Keys up to which two matrix products and a softmax beat the fused CPU kernel, forward and backward together. Under a
/// causal mask the fused one leaves out half: 12 heads of 64, one thread, plain over fused time in fp32 1.09 at 128
/// keys and 1.47 at 256, in bf16 0.70 at 512, 0.89 at 768 and 1.05 at 1024. The layer chooses by it, and the plan of
/// memory too: the plain way keeps its probabilities.
constexpr int64_t plain_attention_limit(bool is_16_bit, bool is_causal) {
  if (is_causal) return is_16_bit ? 768 : 128;
  return is_16_bit ? 512 : 256;
}

}  // namespace lockstep::config
