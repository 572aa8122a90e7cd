#include "nn/bf16_products.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_cpu_dispatch.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/convolution_backward_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/convolution_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "nn/product.h"
#include "nn/winograd_conv.h"

namespace lockstep::nn {
namespace {

using std::optional;

bool is_bf16(const at::Tensor& tensor) { return tensor.defined() && tensor.scalar_type() == at::kBFloat16; }
at::Tensor widened(const at::Tensor& tensor) { return is_bf16(tensor) ? tensor.to(at::kFloat) : tensor; }
optional<at::Tensor> widened(const optional<at::Tensor>& tensor) {
  return tensor ? optional(widened(*tensor)) : std::nullopt;
}
at::Tensor rounded(const at::Tensor& tensor) { return tensor.defined() ? tensor.to(at::kBFloat16) : tensor; }
template <typename... Tensors> std::tuple<Tensors...> rounded(const std::tuple<Tensors...>& tensors) {
  return std::apply([](const auto&... each) { return std::tuple(rounded(each)...); }, tensors);
}

at::Tensor bf16_mm(const at::Tensor& a, const at::Tensor& b) {
  return is_bf16(a) && is_bf16(b) ? rounded(product(widened(a), widened(b))) : at::cpu::mm(a, b);
}

at::Tensor& bf16_mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  return is_bf16(a) && is_bf16(b) && is_bf16(out) ? out.copy_(product(widened(a), widened(b)))
                                                  : at::cpu::mm_outf(a, b, out);
}

/// beta added + alpha a b in fp32.
at::Tensor sum_in_fp32(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                       const at::Scalar& alpha) {
  at::Tensor sum = product(widened(a), widened(b));
  if (alpha.toDouble() != 1.0) sum.mul_(alpha);
  return beta.toDouble() == 0.0 ? sum : sum.add_(added, beta);
}

at::Tensor bf16_addmm(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  return is_bf16(added) && is_bf16(a) && is_bf16(b) ? rounded(sum_in_fp32(added, a, b, beta, alpha))
                                                    : at::cpu::addmm(added, a, b, beta, alpha);
}

at::Tensor& bf16_addmm_(at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  return is_bf16(added) && is_bf16(a) && is_bf16(b) ? added.copy_(sum_in_fp32(added, a, b, beta, alpha))
                                                    : at::cpu::addmm_(added, a, b, beta, alpha);
}

at::Tensor bf16_bmm(const at::Tensor& a, const at::Tensor& b) {
  return is_bf16(a) && is_bf16(b) ? rounded(at::cpu::bmm(widened(a), widened(b))) : at::cpu::bmm(a, b);
}

at::Tensor bf16_baddbmm(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  return is_bf16(added) && is_bf16(a) && is_bf16(b)
             ? rounded(at::cpu::baddbmm(widened(added), widened(a), widened(b), beta, alpha))
             : at::cpu::baddbmm(added, a, b, beta, alpha);
}

/// Of stride 1 and padding 1, as winograd_conv() computes.
bool is_stride_and_padding_one(at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                               bool is_transposed, int64_t groups) {
  const auto all_one = [](at::IntArrayRef values) {
    return std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 1; });
  };
  return all_one(stride) && all_one(padding) && all_one(dilation) && !is_transposed && groups == 1;
}

at::Tensor bf16_convolution(const at::Tensor& x, const at::Tensor& weight, const optional<at::Tensor>& bias,
                            at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                            bool is_transposed, at::IntArrayRef output_padding, int64_t groups) {
  const auto in_type = [&](const at::Tensor& from, const at::Tensor& filters, const optional<at::Tensor>& added) {
    return at::compositeexplicitautograd::convolution(from, filters, added, stride, padding, dilation, is_transposed,
                                                      output_padding, groups);
  };
  if (!is_bf16(x) || !is_bf16(weight)) return in_type(x, weight, bias);
  const at::Tensor wide = widened(x), filters = widened(weight);
  const bool is_by_filtering = is_stride_and_padding_one(stride, padding, dilation, is_transposed, groups) &&
                               !(bias && bias->defined()) && has_winograd_kernel(wide, filters);
  return rounded(is_by_filtering ? winograd_forward(wide, filters) : in_type(wide, filters, widened(bias)));
}

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

ThreeTensors bf16_convolution_backward(const at::Tensor& dout, const at::Tensor& x, const at::Tensor& weight,
                                       at::OptionalIntArrayRef bias_sizes, at::IntArrayRef stride,
                                       at::IntArrayRef padding, at::IntArrayRef dilation, bool is_transposed,
                                       at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> needed) {
  const auto in_type = [&](const at::Tensor& gradient, const at::Tensor& from, const at::Tensor& filters) {
    return at::compositeexplicitautograd::convolution_backward(gradient, from, filters, bias_sizes, stride, padding,
                                                               dilation, is_transposed, output_padding, groups, needed);
  };
  if (!is_bf16(x) || !is_bf16(weight)) return in_type(dout, x, weight);
  const at::Tensor wide = widened(x), filters = widened(weight);
  if (is_stride_and_padding_one(stride, padding, dilation, is_transposed, groups) && !needed[2] &&
      has_winograd_kernel(wide, filters)) {
    const auto [dx, dweight] = winograd_backward(widened(dout), wide, filters, needed[0], needed[1]);
    return {rounded(dx), rounded(dweight), {}};
  }
  return rounded(in_type(widened(dout), wide, filters));
}

std::tuple<at::Tensor, at::Tensor> bf16_attention(const at::Tensor& query, const at::Tensor& key,
                                                  const at::Tensor& value, double dropout, bool is_causal,
                                                  const optional<at::Tensor>& mask, optional<double> scale) {
  if (!is_bf16(query))
    return at::cpu::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, is_causal, mask, scale);
  const auto [out, log_sums] = at::cpu::_scaled_dot_product_flash_attention_for_cpu(
      widened(query), widened(key), widened(value), dropout, is_causal, widened(mask), scale);
  return {rounded(out), log_sums};
}

ThreeTensors bf16_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value, const at::Tensor& out, const at::Tensor& log_sums,
                                     double dropout, bool is_causal, const optional<at::Tensor>& mask,
                                     optional<double> scale) {
  if (!is_bf16(query))
    return at::cpu::_scaled_dot_product_flash_attention_for_cpu_backward(dout, query, key, value, out, log_sums,
                                                                         dropout, is_causal, mask, scale);
  return rounded(at::cpu::_scaled_dot_product_flash_attention_for_cpu_backward(
      widened(dout), widened(query), widened(key), widened(value), widened(out), log_sums, dropout, is_causal,
      widened(mask), scale));
}

/// LibTorch warns of kernels that take another's place, which here is meant.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

Bf16Products::Bf16Products() {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  library_ = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library_->impl("mm", TORCH_FN(bf16_mm));
  library_->impl("mm.out", TORCH_FN(bf16_mm_out));
  library_->impl("addmm", TORCH_FN(bf16_addmm));
  library_->impl("addmm_", TORCH_FN(bf16_addmm_));
  library_->impl("bmm", TORCH_FN(bf16_bmm));
  library_->impl("baddbmm", TORCH_FN(bf16_baddbmm));
  library_->impl("convolution", TORCH_FN(bf16_convolution));
  library_->impl("convolution_backward", TORCH_FN(bf16_convolution_backward));
  library_->impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(bf16_attention));
  library_->impl("_scaled_dot_product_flash_attention_for_cpu_backward", TORCH_FN(bf16_attention_backward));
}

Bf16Products::~Bf16Products() = default;

bool has_fast_bf16_products() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("x86-64-v4");
#else
  return true;  // as far as we know
#endif
}

void multiply_bf16_fast() {
  static const std::unique_ptr<Bf16Products> products =
      has_fast_bf16_products() ? nullptr : std::make_unique<Bf16Products>();
}

}  // namespace lockstep::nn
