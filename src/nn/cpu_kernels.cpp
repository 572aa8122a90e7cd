#include "nn/cpu_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "core/error.h"
#include "nn/activation_kernel.h"
#include "nn/parallel_for.h"
#include "nn/softmax_kernel.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kLeastNumbersOfThread = 1 << 13;  // numbers: below, starting a thread costs more
constexpr int64_t kRowsOfPart = 256;                // summed in fp32 one after another

bool is_taken_type(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16; }

bool is_dense_float(const at::Tensor& x) {
  return x.is_cpu() && is_taken_type(x.scalar_type()) && x.is_contiguous() && x.dim() > 0 && x.numel() > 0;
}

bool is_16_bits(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; }

/// As it is added: rounded to x's type.
at::Tensor added_bias(const at::Tensor& x, const at::Tensor& bias) {
  return bias.to(x.scalar_type()).to(at::kFloat).contiguous();
}

ScoreRows score_rows(const at::Tensor& scores, double scale, int64_t first_query) {
  LOCKSTEP_CHECK(is_taken_type(scores.scalar_type()) && scores.is_contiguous() && first_query < scores.size(-1),
                 "first query {} of {} keys", first_query, scores.size(-1));
  return {.width = scores.size(-1),
          .first_query = first_query,
          .queries = scores.size(-1) - first_query,
          .is_bf16 = is_16_bits(scores),
          .scale = static_cast<float>(scale)};
}

int64_t rows_of_thread(int64_t width) { return std::max<int64_t>(1, kLeastNumbersOfThread / width); }

}  // namespace

bool has_cpu_bias_activation(Activation activation) { return activation != Activation::kGelu; }

bool suits_cpu_bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  return has_cpu_bias_activation(activation) && is_dense_float(x) && bias.defined() && bias.dim() == 1 &&
         bias.size(0) == x.size(-1);
}

at::Tensor bias_activation_on_cpu(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  const ActivationRows shape{.width = x.size(-1), .is_bf16 = is_16_bits(x)};
  const at::Tensor added = added_bias(x, bias);
  at::Tensor y = at::empty_like(x);
  const void* from = x.const_data_ptr();
  const auto* addend = added.const_data_ptr<float>();
  void* to = y.mutable_data_ptr();
  parallel_for(0, x.numel() / shape.width, rows_of_thread(shape.width), [&](int64_t begin, int64_t end) {
    bias_activation_rows(shape, activation, begin, end, from, addend, to);
  });
  return y;
}

ActivationGradients bias_activation_backward_on_cpu(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                                    const at::Tensor& dy) {
  const ActivationRows shape{.width = x.size(-1), .is_bf16 = is_16_bits(x)};
  const int64_t rows = x.numel() / shape.width, num_parts = (rows + kRowsOfPart - 1) / kRowsOfPart;
  const at::Tensor added = added_bias(x, bias), d = dy.contiguous();
  at::Tensor dx = at::empty_like(x), dbias_PW = at::empty({num_parts, shape.width}, added.options());
  const void *from = x.const_data_ptr(), *gradient = d.const_data_ptr();
  const auto* addend = added.const_data_ptr<float>();
  void* to = dx.mutable_data_ptr();
  auto* parts = dbias_PW.mutable_data_ptr<float>();
  parallel_for(
      0, num_parts, std::max<int64_t>(1, rows_of_thread(shape.width) / kRowsOfPart), [&](int64_t first, int64_t last) {
        for (int64_t part = first; part < last; ++part)
          bias_activation_rows_backward(shape, activation, part * kRowsOfPart, std::min((part + 1) * kRowsOfPart, rows),
                                        from, addend, gradient, to, parts + part * shape.width);
      });
  return {.x = dx, .bias = dbias_PW.sum(0).to(bias.scalar_type())};
}

void causal_softmax_on_cpu(at::Tensor scores, double scale, int64_t first_query) {
  const ScoreRows shape = score_rows(scores, scale, first_query);
  void* data = scores.mutable_data_ptr();
  parallel_for(0, scores.numel() / shape.width, rows_of_thread(shape.width),
               [&](int64_t begin, int64_t end) { causal_softmax_rows(shape, begin, end, data); });
}

void causal_softmax_backward_on_cpu(const at::Tensor& y, at::Tensor dy, double scale, int64_t first_query) {
  const ScoreRows shape = score_rows(dy, scale, first_query);
  const void* from = y.const_data_ptr();
  void* gradient = dy.mutable_data_ptr();
  parallel_for(0, y.numel() / shape.width, rows_of_thread(shape.width),
               [&](int64_t begin, int64_t end) { causal_softmax_rows_backward(shape, begin, end, from, gradient); });
}

bool suits_cpu_softmax(const at::Tensor& logits_NV) { return is_dense_float(logits_NV) && logits_NV.dim() == 2; }

at::Tensor softmax_stats_on_cpu(const at::Tensor& logits_NV, int64_t used, const at::Tensor& target_N) {
  const LogitRows shape{.width = logits_NV.size(1), .used = used, .is_bf16 = is_16_bits(logits_NV)};
  const int64_t rows = logits_NV.size(0);
  at::Tensor stats_3N = at::empty({3, rows}, logits_NV.options().dtype(at::kFloat));
  const at::Tensor column_N = target_N.contiguous();
  const void* logits = logits_NV.const_data_ptr();
  const auto* column = column_N.const_data_ptr<int64_t>();
  auto* top = stats_3N.mutable_data_ptr<float>();
  parallel_for(0, rows, rows_of_thread(shape.width), [&](int64_t begin, int64_t end) {
    softmax_stats_rows(shape, begin, end, logits, column, top, top + rows, top + 2 * rows);
  });
  return stats_3N;
}

void softmax_gradient_on_cpu(at::Tensor logits_NV, int64_t used, const at::Tensor& target_N, const at::Tensor& top_N,
                             const at::Tensor& factor_N, const at::Tensor& weight_N) {
  const LogitRows shape{.width = logits_NV.size(1), .used = used, .is_bf16 = is_16_bits(logits_NV)};
  const at::Tensor column_N = target_N.contiguous(), highest_N = top_N.contiguous(), scale_N = factor_N.contiguous(),
                   own_N = weight_N.contiguous();
  void* logits = logits_NV.mutable_data_ptr();
  const auto* column = column_N.const_data_ptr<int64_t>();
  const auto *top = highest_N.const_data_ptr<float>(), *factor = scale_N.const_data_ptr<float>(),
             *weight = own_N.const_data_ptr<float>();
  parallel_for(0, logits_NV.size(0), rows_of_thread(shape.width), [&](int64_t begin, int64_t end) {
    softmax_gradient_rows(shape, begin, end, logits, column, top, factor, weight);
  });
}

}  // namespace lockstep::nn
