#pragma once
#include <cstdint>

#include "nn/activation.h"

namespace lockstep::nn {

/// Rows of `width` numbers, one after the other: fp32 or, with is_bf16, bf16.
struct ActivationRows {
  int64_t width = 0;
  bool is_bf16 = false;
};

/// Rows [begin, end): y = activate(x + bias), in fp32 and rounded once. bias [width]; kGeluTanh or kQuickGelu.
void bias_activation_rows(const ActivationRows& shape, Activation activation, int64_t begin, int64_t end, const void* x,
                          const float* bias, void* y);

/// Rows [begin, end): dx, of dy = the gradient of y. Its sum over these rows, before it is rounded, goes to dbias
/// [width].
void bias_activation_rows_backward(const ActivationRows& shape, Activation activation, int64_t begin, int64_t end,
                                   const void* x, const float* bias, const void* dy, void* dx, float* dbias);

}  // namespace lockstep::nn
