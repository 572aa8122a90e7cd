#include "nn/product.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "nn/onednn.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kLeastFlops = 4e6;  // smaller products take longer to be called than to be computed
constexpr int64_t kMostTurned = int64_t{1}
                                << 25;  // oneDNN's operator copies a transposed factor: larger ones cost more

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

constexpr const char* kHasBias = "has_bias";

/// [..., n] -> [rows, n], dense.
at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

struct OneDnnLinear : torch::autograd::Function<OneDnnLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    context->saved_data[kHasBias] = bias.has_value();
    return onednn_linear(x.contiguous(), weight, bias.value_or(at::Tensor()));
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
    if (context->needs_input_grad(1)) found[1] = product(rows.t(), rows_of(saved[0]));
    if (context->saved_data[kHasBias].toBool() && context->needs_input_grad(2)) found[2] = rows.sum(0);
    return found;
  }
};

}  // namespace

at::Tensor product(const at::Tensor& a_NK, const at::Tensor& b_KM) {
  return takes_onednn(a_NK, b_KM, b_KM.size(1)) ? onednn_linear(a_NK, b_KM.t(), {}) : at::mm(a_NK, b_KM);
}

void product_into(at::Tensor out_NM, const at::Tensor& a_NK, const at::Tensor& b_KM) {
  if (takes_onednn(a_NK, b_KM, b_KM.size(1)))
    out_NM.copy_(onednn_linear(a_NK, b_KM.t(), {}));
  else
    at::mm_out(out_NM, a_NK, b_KM);
}

at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!takes_onednn(x, weight, weight.size(0)) || at::autocast::is_autocast_enabled(at::kCPU))
    return at::linear(x, weight, bias);
  return OneDnnLinear::apply(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

}  // namespace lockstep::nn
