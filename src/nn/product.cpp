#include "nn/product.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "nn/compute_type.h"
#include "nn/gpu_kernels.h"
#include "nn/onednn.h"
#include "nn/parallel_for.h"
#include "nn/typed_copies.h"
#include "nn/weight_use_internal.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kLeastFlops = 4e6;                 // smaller products take longer to be called than to be computed
constexpr int64_t kMostTurned = int64_t{1} << 25;   // a transposed factor is copied for oneDNN: larger ones cost more
constexpr int64_t kLeastCopied = int64_t{1} << 15;  // numbers of a thread

bool is_onednn_faster() {
#if defined(__x86_64__)
  static const bool is_faster = !__builtin_cpu_is("intel") && at::hasMKLDNN();
  return is_faster && at::globalContext().userEnabledMkldnn();
#else
  return false;
#endif
}

bool takes_onednn(const at::Tensor& a, const at::Tensor& b, int64_t num_out) {
  return a.is_cpu() && a.scalar_type() == at::kFloat && b.is_cpu() && b.scalar_type() == at::kFloat &&
         2.0 * static_cast<double>(a.numel()) * static_cast<double>(num_out) >= kLeastFlops &&
         (a.is_contiguous() || a.numel() <= kMostTurned) && is_onednn_faster();
}

/// a_NK, dense. The tensor library's own copy of a transposed matrix uses one thread.
at::Tensor dense(const at::Tensor& a_NK) {
  if (a_NK.is_contiguous()) return a_NK;
  at::Tensor copy_NK = at::empty(a_NK.sizes(), a_NK.options());
  parallel_for(0, a_NK.size(0), std::max<int64_t>(1, kLeastCopied / a_NK.size(1)), [&](int64_t first, int64_t last) {
    const c10::NoGradGuard no_grad;
    copy_NK.narrow(0, first, last - first).copy_(a_NK.narrow(0, first, last - first));
  });
  return copy_NK;
}

at::Tensor onednn_product(const at::Tensor& a_NK, const at::Tensor& b_KM) {
  return onednn_linear(dense(a_NK), b_KM.t(), {});
}

constexpr const char* kBiasType = "bias_type";

/// [..., n] -> [rows, n], dense.
at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

/// The product in `type`, rounded once where the device can.
at::Tensor product_of_type(const at::Tensor& a_NK, const at::Tensor& b_KM, at::ScalarType type) {
  const bool widens = a_NK.is_cuda() && type == at::kFloat && a_NK.scalar_type() != at::kFloat;
  return widens ? at::mm(a_NK, b_KM, type) : product(a_NK, b_KM).to(type);
}

int64_t num_rows(const at::Tensor& weight) { return weight.numel() / weight.size(-1); }

/// A linear layer whose weight's gradient may have a sink. x is of the type to compute in; `weight` and `bias` are the
/// parameters.
struct LinearLayer : torch::autograd::Function<LinearLayer> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    const at::Tensor typed_weight = internal::weight_like(x, weight);
    const bool trains_weight = weight.requires_grad();
    context->save_for_backward({trains_weight ? x : at::Tensor(), typed_weight, weight});
    if (bias) context->saved_data[kBiasType] = bias->scalar_type();
    if (trains_weight) internal::keep_use(context, weight);
    const at::Tensor bias_or_none = bias ? internal::parameter_like(x, *bias) : at::Tensor();
    return takes_onednn(x, typed_weight, typed_weight.size(0))
               ? onednn_linear(x.contiguous(), typed_weight, bias_or_none)
               : at::linear(x, typed_weight, bias_or_none);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor rows = rows_of(gradients[0]);
    variable_list found(3);
    if (context->needs_input_grad(0)) {
      std::vector<int64_t> sizes = gradients[0].sizes().vec();
      sizes.back() = saved[1].size(1);
      found[0] = product(rows, saved[1]).view(sizes);
    }
    if (context->needs_input_grad(1))
      found[1] = internal::weight_gradient(*internal::kept_use(context), saved[2], rows, rows_of(saved[0]));
    if (context->saved_data.count(kBiasType) > 0 && context->needs_input_grad(2))
      found[2] = column_sums(rows, context->saved_data[kBiasType].toScalarType());
    return found;
  }
};

}  // namespace

at::Tensor product(const at::Tensor& a_NK, const at::Tensor& b_KM) {
  return takes_onednn(a_NK, b_KM, b_KM.size(1)) ? onednn_product(a_NK, b_KM) : at::mm(a_NK, b_KM);
}

void product_into(at::Tensor out_NM, const at::Tensor& a_NK, const at::Tensor& b_KM) {
  if (takes_onednn(a_NK, b_KM, b_KM.size(1)))
    out_NM.copy_(onednn_product(a_NK, b_KM));
  else
    at::mm_out(out_NM, a_NK, b_KM);
}

void add_product(at::Tensor sum_NM, const at::Tensor& a_NK, const at::Tensor& b_KM, bool is_new) {
  const bool is_of_one_type = sum_NM.scalar_type() == a_NK.scalar_type();
  if (is_of_one_type && is_new) return product_into(sum_NM, a_NK, b_KM);
  if (is_of_one_type && !takes_onednn(a_NK, b_KM, b_KM.size(1))) {
    sum_NM.addmm_(a_NK, b_KM);
  } else if (!is_of_one_type && !a_NK.is_cpu() && sum_NM.scalar_type() == at::kFloat) {
    at::addmm_outf(sum_NM, a_NK, b_KM, at::kFloat, is_new ? 0 : 1, 1, sum_NM);
  } else if (is_new) {
    sum_NM.copy_(product(a_NK, b_KM));
  } else {
    sum_NM.add_(product(a_NK, b_KM));
  }
}

at::Tensor internal::weight_like(const at::Tensor& x, const at::Tensor& weight) {
  return parameter_like(x, weight).flatten(0, -2);
}

at::Tensor internal::parameter_like(const at::Tensor& x, const at::Tensor& parameter) {
  // Autocast's own cache would keep a cast that is made while gradients are off.
  const bool is_autocast = at::autocast::is_autocast_enabled(x.device().type());
  return is_autocast ? typed_parameter(parameter, x.scalar_type()) : parameter;
}

at::Tensor internal::weight_gradient(WeightUse& use, const at::Tensor& weight, const at::Tensor& out_gradient_NO,
                                     const at::Tensor& x_NI) {
  GradientSink* sink = use.use && !c10::GradMode::is_enabled() ? gradient_sink_of(weight) : nullptr;
  const GradientSink::Sum sum = sink != nullptr ? sink->begin(weight) : GradientSink::Sum{};
  if (!sum.tensor.defined() || !sum.tensor.is_contiguous()) {
    use.use.reset();
    return product_of_type(out_gradient_NO.t(), x_NI, weight.scalar_type()).view(weight.sizes());
  }
  add_product(sum.tensor.view({out_gradient_NO.size(1), x_NI.size(1)}), out_gradient_NO.t(), x_NI, sum.is_new);
  sink->end(use.use);
  return {};
}

at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const bool is_autocast = at::autocast::is_autocast_enabled(x.device().type());
  const bool has_sink = c10::GradMode::is_enabled() && gradient_sink_of(weight) != nullptr;
  const bool sums_bias = c10::GradMode::is_enabled() && bias.defined() && has_gpu_kernels(x.device());
  if (!has_sink && !sums_bias && (is_autocast || !takes_onednn(x, weight, num_rows(weight))))
    return at::linear(x, weight.flatten(0, -2), bias);
  return LinearLayer::apply(in_compute_type(x), weight,
                            bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

}  // namespace lockstep::nn
