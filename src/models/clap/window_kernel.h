#pragma once
#include <cstdint>

namespace lockstep::models {

/// Attention of one head within one window, on the CPU in fp32 throughout: what lies between queries and result never
/// leaves the cache. Built for each level of vector instructions; the best one is chosen when the program starts. T
/// tokens, K head width. Rows of q, k, v and of the result are `stride` numbers apart.
struct WindowShape {
  int64_t tokens = 0, head_width = 0;
};

/// fp32, or bf16 as its 16 bits.
enum class WindowType { kFloat, kBFloat16 };

struct WindowInput {
  const void* q = nullptr;  ///< Of the window's first token; k and v lie k_offset and v_offset numbers behind it.
  int64_t k_offset = 0, v_offset = 0, stride = 0;
  const float* bias = nullptr;  ///< [T, T]
  const float* mask = nullptr;  ///< [T, T], or nullptr.
};

/// Floats that a call needs to work in.
int64_t window_scratch_floats(const WindowShape& shape);

/// out: rows of K numbers, `out_stride` apart.
void window_forward(const WindowShape& shape, WindowType type, const WindowInput& input, void* out, int64_t out_stride,
                    float* scratch);

/// Gradients of q, k and v (laid out as they are) from that of the result; adds that of the bias to bias_gradient [T,
/// T].
void window_backward(const WindowShape& shape, WindowType type, const WindowInput& input, const void* out_gradient,
                     int64_t out_stride, void* q_gradient, float* bias_gradient, float* scratch);

}  // namespace lockstep::models
