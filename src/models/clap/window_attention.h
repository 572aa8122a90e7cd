#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/layers.h"
#include "nn/module.h"

namespace lockstep::models {

/// softmax(q k^t / sqrt(K) + bias + mask) v within each window. Letters: B samples, W windows of a sample, T tokens of
/// a window, H heads, K head width, C = H K. qkv_BN3C holds the windows one after the other (N = W T), per token the
/// queries of all heads, then keys, then values. bias_HTT is shared by all windows, mask_WTT by all heads and samples
/// (undefined: none). [B, N, C]. fp32 and bf16 on the CPU go through window_kernel.h, all else through single
/// operators.
at::Tensor window_attention(const at::Tensor& qkv_BN3C, const at::Tensor& bias_HTT, const at::Tensor& mask_WTT);

/// Multi-head attention in windows with a learned bias per relative position, under Swin's parameter names.
class WindowAttention : public nn::Module {
 public:
  WindowAttention(int64_t width, int64_t heads, int64_t window, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BNC, const at::Tensor& mask_WTT) const;

 private:
  at::Tensor relative_position_bias_table_;
  nn::Linear qkv_, proj_;
  int64_t heads_, tokens_;
  at::Tensor index_;  // [T T], derived from the window
};

}  // namespace lockstep::models
