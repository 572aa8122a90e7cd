#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

namespace lockstep::nn {

// Numbers of 8 bits and products of them. E4M3 (at::kFloat8_e4m3fn): 4 bits of exponent, 3 of mantissa, largest value
// 448, no infinity. E5M2 (at::kFloat8_e5m2): 5 and 2 bits, largest value 57344. See Micikevicius et al. 2022, "FP8
// formats for deep learning".

/// Who multiplies.
enum class Fp8Engine {
  kEmulated,  ///< fp32 (fp64 where the result is fp64) after widening: the products are exact, the sums those of an
              ///< fp32 product.
  kScaledMm,  ///< at::_scaled_mm, matrix units for 8 bits.
};

/// What kScaledMm wants K and N to be multiples of.
inline constexpr int64_t kScaledMmMultiple = 16;

/// kScaledMm on CUDA devices of compute capability 8.9 and more.
Fp8Engine fp8_engine_of(const at::Device& device);

/// A tensor rounded to 8 bits. It stands for bits x inverse_scale.
struct Fp8Tensor {
  at::Tensor bits;
  at::Tensor inverse_scale;  ///< fp32, 0-dim, on the same device.
  at::Tensor transposed{};   ///< The transpose of all but the last dim by the last, dense; undefined: nobody asked.

  /// The matrix [rows, columns] with its transpose, dense where that is there.
  Fp8Tensor transpose() const;
};

/// The largest finite number of a type of 8 bits.
double fp8_max(at::ScalarType type);

/// Largest absolute value, fp32, 0-dim; NaN where there is one.
at::Tensor fp8_amax(const at::Tensor& x);

/// Scales that lay `amax` 2^margin below the largest number `max` of a type: max / amax / 2^margin, never infinite.
/// Where amax is zero or not finite, the scale `otherwise`. All fp32, of one shape or 0-dim.
at::Tensor fp8_scale(const at::Tensor& amax, const at::Tensor& max, int64_t margin, const at::Tensor& otherwise);

/// x times `scale` (fp32, 0-dim), rounded to nearest, ties to even; beyond the largest finite number it is that. NaN
/// stays NaN. The largest absolute value of x goes to `amax` (fp32, 0-dim), where that is defined, if it is larger.
/// With `is_transposed` an own kernel may make the transpose on the way.
Fp8Tensor fp8_quantize(const at::Tensor& x, at::ScalarType type, const at::Tensor& scale, const at::Tensor& amax = {},
                       bool is_transposed = false);

/// a b^t + bias, [M, K] and [N, K] of any strides -> [M, N] of `type`; `bias` [N] of `type`, or undefined. `is_fast`:
/// kScaledMm may keep sums in fewer bits. Products of other K and N than multiples of kScaledMmMultiple are emulated.
at::Tensor fp8_product(const Fp8Tensor& a_MK, const Fp8Tensor& b_NK, at::ScalarType type, Fp8Engine engine,
                       bool is_fast, const at::Tensor& bias = {});

}  // namespace lockstep::nn
