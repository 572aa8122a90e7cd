#include "nn/fused_norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "nn/gpu_kernels.h"
#include "nn/layer_norm_kernel.h"
#include "nn/parallel_for.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kLeastNumbers = 1 << 14;  // of a thread: below, starting one costs more
constexpr int64_t kLeastOfAll = 1 << 13;    // below, ATen is as fast

NormRows rows_of(const at::Tensor& x, double epsilon) {
  const int64_t width = x.size(-1);
  return {.rows = x.numel() / width, .width = width, .epsilon = epsilon};
}

int64_t grain(const NormRows& shape) { return std::max<int64_t>(1, kLeastNumbers / shape.width); }

Normed normed(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain, const at::Tensor& bias,
              double epsilon) {
  const NormRows shape = rows_of(x, epsilon);
  const bool has_residual = residual.defined();
  Normed result{.sum = has_residual ? at::empty_like(x) : x,
                .out = at::empty_like(x),
                .mean_N = at::empty({shape.rows}, x.options()),
                .rstd_N = at::empty({shape.rows}, x.options())};
  const float *in = x.const_data_ptr<float>(), *more = has_residual ? residual.const_data_ptr<float>() : nullptr;
  float* sum = has_residual ? result.sum.mutable_data_ptr<float>() : nullptr;
  float *out = result.out.mutable_data_ptr<float>(), *mean = result.mean_N.mutable_data_ptr<float>(),
        *rstd = result.rstd_N.mutable_data_ptr<float>();
  const float *scale = gain.const_data_ptr<float>(), *shift = bias.const_data_ptr<float>();
  parallel_for(0, shape.rows, grain(shape), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * shape.width;
    layer_norm_rows({.rows = end - begin, .width = shape.width, .epsilon = epsilon}, in + first,
                    has_residual ? more + first : nullptr, scale, shift, has_residual ? sum + first : nullptr,
                    out + first, mean + begin, rstd + begin);
  });
  return result;
}

/// dsum may be undefined.
NormGradients gradients_of(const Normed& normed, const at::Tensor& gain, const at::Tensor& dout, const at::Tensor& dsum,
                           double epsilon) {
  const at::Tensor &s = normed.sum, &mean_N = normed.mean_N, &rstd_N = normed.rstd_N;
  const NormRows shape = rows_of(s, epsilon);
  const at::Tensor d = dout.contiguous(), more = dsum.defined() ? dsum.contiguous() : dsum;
  at::Tensor dx = at::empty_like(s);
  const int64_t num_parts =
      std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), shape.rows / std::max<int64_t>(1, grain(shape))));
  at::Tensor part_2PD = at::zeros({2, num_parts, shape.width}, s.options());
  float* parts = part_2PD.mutable_data_ptr<float>();
  const float *in = s.const_data_ptr<float>(), *dy = d.const_data_ptr<float>(),
              *other = more.defined() ? more.const_data_ptr<float>() : nullptr, *mean = mean_N.const_data_ptr<float>(),
              *rstd = rstd_N.const_data_ptr<float>(), *scale = gain.const_data_ptr<float>();
  float* to = dx.mutable_data_ptr<float>();
  parallel_for(0, num_parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      layer_norm_rows_backward(shape, shape.rows * part / num_parts, shape.rows * (part + 1) / num_parts, dy, other, in,
                               mean, rstd, scale, to, parts + part * shape.width,
                               parts + (num_parts + part) * shape.width);
  });
  const at::Tensor sum_2D = num_parts == 1 ? part_2PD.select(1, 0) : part_2PD.sum(1);
  return {.sum = dx, .residual = dx, .gain = sum_2D.select(0, 0), .bias = sum_2D.select(0, 1)};
}

/// Of x, or of x + residual. Gives {the normed}, or with `gives_sum` {the sum, the normed}.
struct NormFunction : torch::autograd::Function<NormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& residual,
                               const at::Tensor& gain, const std::optional<at::Tensor>& given_bias, double epsilon,
                               at::ScalarType type, bool gives_sum) {
    const at::Tensor more = residual.value_or(at::Tensor()), bias = given_bias.value_or(at::Tensor());
    const Normed result =
        x.is_cpu() ? normed(x, more, gain, bias, epsilon) : layer_norm_on_gpu(x, more, gain, bias, epsilon, type);
    context->save_for_backward({result.sum, gain, result.mean_N, result.rstd_N});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["residual_type"] = (more.defined() ? more : x).scalar_type();
    context->saved_data["has_residual"] = more.defined();
    context->saved_data["type"] = result.out.scalar_type();
    context->set_materialize_grads(false);
    return gives_sum ? variable_list{result.sum, result.out} : variable_list{result.out};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Normed result{.sum = saved[0], .out = {}, .mean_N = saved[2], .rstd_N = saved[3]};
    const at::Tensor dsum = gradients.size() == 2 ? gradients[0] : at::Tensor();
    at::Tensor dout = gradients.back();
    if (!dout.defined())
      dout = at::zeros(saved[0].sizes(), saved[0].options().dtype(context->saved_data["type"].toScalarType()));
    const NormGradients found =
        saved[0].is_cpu() ? gradients_of(result, saved[1], dout, dsum, context->saved_data["epsilon"].toDouble())
                          : layer_norm_backward_on_gpu(result, saved[1], dout, dsum,
                                                       context->saved_data["residual_type"].toScalarType());
    variable_list all(7);
    all[0] = found.sum;
    if (context->saved_data["has_residual"].toBool()) all[1] = found.residual;
    all[2] = found.gain;
    all[3] = found.bias;
    return all;
  }
};

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

bool has_kernel(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain, const at::Tensor& bias) {
  if (!x.is_cpu()) return suits_gpu_layer_norm(x, residual, gain, bias);
  const bool suits_residual = !residual.defined() || (residual.scalar_type() == x.scalar_type() &&
                                                      residual.sizes() == x.sizes() && residual.is_contiguous());
  return bias.defined() && x.scalar_type() == at::kFloat && gain.scalar_type() == at::kFloat &&
         bias.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() >= kLeastOfAll && suits_residual;
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double epsilon,
                      at::ScalarType type) {
  if (has_kernel(x, {}, gain, bias))
    return NormFunction::apply(x, std::nullopt, gain, if_defined(bias), epsilon, type, /*gives_sum=*/false)[0].to(type);
  if (!bias.defined()) return at::rms_norm(x, gain.sizes(), gain.to(x.scalar_type()), epsilon).to(type);
  // The CPU kernel takes mixed types and computes in fp32 either way; the CUDA kernel wants one type.
  const bool is_mixed = x.scalar_type() != gain.scalar_type() && !x.is_cpu();
  return at::layer_norm(is_mixed ? x.to(gain.scalar_type()) : x, gain.sizes(), gain, bias, epsilon).to(type);
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& residual,
                                                 const at::Tensor& gain, const at::Tensor& bias, double epsilon,
                                                 at::ScalarType type) {
  if (has_kernel(x, residual, gain, bias)) {
    const variable_list both =
        NormFunction::apply(x, residual, gain, if_defined(bias), epsilon, type, /*gives_sum=*/true);
    return {both[0], both[1].to(type)};
  }
  const at::Tensor sum = x.add(residual);
  return {sum, layer_norm(sum, gain, bias, epsilon, type)};
}

std::pair<at::Tensor, at::Tensor> layer_norm_beside(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                                                    double epsilon, at::ScalarType type) {
  if (!has_kernel(x, {}, gain, bias)) return {x, layer_norm(x, gain, bias, epsilon, type)};
  const variable_list both =
      NormFunction::apply(x, std::nullopt, gain, if_defined(bias), epsilon, type, /*gives_sum=*/true);
  return {both[0], both[1].to(type)};
}

}  // namespace lockstep::nn
