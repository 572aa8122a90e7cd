#include "nn/fp8.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "nn/gpu_kernels.h"

namespace lockstep::nn {
namespace {

/// The type to compute in before and after 8 bits.
at::ScalarType wide_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

bool suits_scaled_mm(const Fp8Tensor& a_MK, const Fp8Tensor& b_NK) {
  return a_MK.bits.size(1) % kScaledMmMultiple == 0 && b_NK.bits.size(0) % kScaledMmMultiple == 0;
}

}  // namespace

double fp8_max(at::ScalarType type) {
  LOCKSTEP_CHECK(type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2, "type={}", c10::toString(type));
  return type == at::kFloat8_e4m3fn ? 448.0 : 57344.0;
}

at::Tensor fp8_amax(const at::Tensor& x) {
  const auto [least, most] = at::aminmax(x.detach());
  return at::maximum(most, least.neg()).to(at::kFloat);
}

at::Tensor fp8_scale(const at::Tensor& amax, const at::Tensor& max, int64_t margin, const at::Tensor& otherwise) {
  const at::Tensor scale =
      max.div(amax).mul(std::ldexp(1.0, -static_cast<int>(margin))).clamp_max(std::numeric_limits<float>::max());
  return at::where(amax.gt(0).logical_and(amax.isfinite()), scale, otherwise);
}

Fp8Tensor Fp8Tensor::transpose() const {
  const at::Tensor rows = bits.reshape({-1, bits.size(-1)});
  return {transposed.defined() ? transposed : rows.t(), inverse_scale};
}

Fp8Tensor fp8_quantize(const at::Tensor& x, at::ScalarType type, const at::Tensor& scale, const at::Tensor& amax,
                       bool is_transposed) {
  const double max = fp8_max(type);
  const at::Tensor rows = x.detach().reshape({-1, x.size(-1)});
  if (suits_gpu_fp8(rows)) {
    const GpuFp8 found = fp8_quantize_on_gpu(rows, type, scale, is_transposed, amax);
    return {found.bits_NW.view(x.sizes()), scale.reciprocal(), found.transposed_WN};
  }
  if (amax.defined()) {
    at::Tensor most = amax;
    at::maximum_out(most, most, fp8_amax(x));
  }
  return {x.detach().to(wide_type(x.scalar_type())).mul(scale).clamp_(-max, max).to(type), scale.reciprocal()};
}

at::Tensor fp8_product(const Fp8Tensor& a_MK, const Fp8Tensor& b_NK, at::ScalarType type, Fp8Engine engine,
                       bool is_fast, const at::Tensor& bias) {
  if (engine == Fp8Engine::kScaledMm && suits_scaled_mm(a_MK, b_NK)) {
    const bool adds_bias = bias.defined() && at::isReducedFloatingType(type);  // it takes none for an fp32 result
    const at::Tensor result =
        at::_scaled_mm(a_MK.bits.contiguous(), b_NK.bits.contiguous().t(), a_MK.inverse_scale, b_NK.inverse_scale,
                       adds_bias ? std::optional<at::Tensor>(bias) : std::nullopt, /*scale_result=*/{}, type, is_fast);
    return bias.defined() && !adds_bias ? result.add(bias) : result;
  }
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::ScalarType wide = wide_type(type);
  const at::Tensor product = a_MK.bits.to(wide).mm(b_NK.bits.to(wide).t());
  product.mul_(a_MK.inverse_scale).mul_(b_NK.inverse_scale);  // their product may be too small for fp32
  return (bias.defined() ? product.add(bias) : product).to(type);
}

}  // namespace lockstep::nn
