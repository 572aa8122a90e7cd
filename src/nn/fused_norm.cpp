#include "nn/fused_norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "nn/layer_norm_kernel.h"
#include "nn/parallel_for.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kLeastNumbers = 1 << 14;  // of a thread: below, starting one costs more
constexpr int64_t kLeastOfAll = 1 << 13;    // below, ATen is as fast

struct Normed {
  at::Tensor sum, out, mean_N, rstd_N;
};

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

/// {dx, dgain, dbias}; dsum may be undefined.
torch::autograd::variable_list gradients_of(const torch::autograd::variable_list& saved, const at::Tensor& dout,
                                            const at::Tensor& dsum, double epsilon) {
  const at::Tensor &s = saved[0], &gain = saved[1], &mean_N = saved[2], &rstd_N = saved[3];
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
  return {dx, sum_2D.select(0, 0), sum_2D.select(0, 1)};
}

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            const at::Tensor& bias, double epsilon) {
    const Normed result = normed(x, {}, gain, bias, epsilon);
    context->save_for_backward({x, gain, result.mean_N, result.rstd_N});
    context->saved_data["epsilon"] = epsilon;
    return result.out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto found =
        gradients_of(context->get_saved_variables(), gradients[0], {}, context->saved_data["epsilon"].toDouble());
    return {found[0], found[1], found[2], at::Tensor()};
  }
};

struct AddLayerNormFunction : torch::autograd::Function<AddLayerNormFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                                                const at::Tensor& residual, const at::Tensor& gain,
                                                const at::Tensor& bias, double epsilon) {
    const Normed result = normed(x, residual, gain, bias, epsilon);
    context->save_for_backward({result.sum, gain, result.mean_N, result.rstd_N});
    context->saved_data["epsilon"] = epsilon;
    return {result.sum, result.out};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor dout = gradients[1].defined() ? gradients[1] : at::zeros(saved[0].sizes(), saved[0].options());
    const auto found = gradients_of(saved, dout, gradients[0], context->saved_data["epsilon"].toDouble());
    return {found[0], found[0], found[1], found[2], at::Tensor()};
  }
};

bool has_kernel(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && gain.scalar_type() == at::kFloat &&
         bias.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() >= kLeastOfAll;
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double epsilon) {
  if (has_kernel(x, gain, bias)) return LayerNormFunction::apply(x, gain, bias, epsilon);
  // The CPU kernel takes mixed types and computes in fp32 either way; the CUDA kernel wants one type.
  const bool is_mixed = x.scalar_type() != gain.scalar_type() && !x.is_cpu();
  return at::layer_norm(is_mixed ? x.to(gain.scalar_type()) : x, gain.sizes(), gain, bias, epsilon).to(x.scalar_type());
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& residual,
                                                 const at::Tensor& gain, const at::Tensor& bias, double epsilon) {
  const bool is_alike = residual.scalar_type() == x.scalar_type() && residual.sizes() == x.sizes();
  if (is_alike && residual.is_contiguous() && has_kernel(x, gain, bias)) {
    const auto both = AddLayerNormFunction::apply(x, residual, gain, bias, epsilon);
    return {both[0], both[1]};
  }
  const at::Tensor sum = x.add(residual);
  return {sum, layer_norm(sum, gain, bias, epsilon)};
}

}  // namespace lockstep::nn
