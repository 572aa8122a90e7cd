#include "nn/fused_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "nn/batch_norm_kernel.h"
#include "nn/parallel_for.h"

namespace lockstep::nn {
namespace {

using torch::autograd::variable_list;

constexpr int64_t kPixelsNearMean = 64;
constexpr int64_t kLeastOfThread = 1 << 15;  // numbers; below, starting a thread costs more
constexpr auto kPixelsLast = at::MemoryFormat::ChannelsLast;

PixelRows pixel_rows(const at::Tensor& x) {
  return {.rows = x.numel() / x.size(1), .channels = x.size(1), .is_bf16 = x.scalar_type() == at::kBFloat16};
}

/// Calls use(rows of a part, number of the first number, part) in several threads; as many parts as num_parts says.
template <typename Use> void for_each_part(const PixelRows& shape, const Use& use) {
  const int64_t num_parts = std::clamp<int64_t>(shape.rows * shape.channels / kLeastOfThread, 1, at::get_num_threads());
  parallel_for(0, num_parts, 1, [&](int64_t first_part, int64_t last_part) {
    for (int64_t part = first_part; part < last_part; ++part) {
      const int64_t first = shape.rows * part / num_parts, last = shape.rows * (part + 1) / num_parts;
      use(PixelRows{last - first, shape.channels, shape.is_bf16}, first * shape.channels, static_cast<size_t>(part));
    }
  });
}

/// Two sums for each channel, of what add(rows, first number, sums of the part) adds.
template <typename Add> std::vector<double> sums_by_channel(const PixelRows& shape, const Add& add) {
  const auto count = static_cast<size_t>(2 * shape.channels);
  std::vector<std::vector<double>> parts(static_cast<size_t>(at::get_num_threads()));
  for_each_part(shape, [&](const PixelRows& rows, int64_t first, size_t part) {
    parts[part].assign(count, 0.0);
    add(rows, first, parts[part].data());
  });
  for (size_t part = 1; part < parts.size(); ++part)
    for (size_t i = 0; i < parts[part].size(); ++i) parts[0][i] += parts[part][i];
  return parts[0];
}

/// A place in the numbers of a tensor of either type.
const char* number_at(const at::Tensor& tensor, int64_t number) {
  return static_cast<const char*>(tensor.const_data_ptr()) + number * tensor.element_size();
}
char* mutable_number_at(const at::Tensor& tensor, int64_t number) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + number * tensor.element_size();
}

/// Mean, 1 / sqrt(variance + epsilon), that times the weight, and the bias of each channel; the running statistics
/// follow.
at::Tensor statistics_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const RunningStatistics& running, double epsilon) {
  const PixelRows shape = pixel_rows(x);
  const auto count = static_cast<double>(shape.rows);
  const auto channels = static_cast<size_t>(shape.channels);
  // Squares around something near the mean do not cancel.
  const int64_t num_near = std::min<int64_t>(shape.rows, kPixelsNearMean);
  const at::Tensor centre =
      x.as_strided({num_near, shape.channels}, {shape.channels, 1}).mean(at::IntArrayRef{0}, false, at::kFloat);
  const std::vector<double> sums = sums_by_channel(shape, [&](const PixelRows& rows, int64_t first, double* part) {
    batch_norm_sums(rows, number_at(x, first), centre.const_data_ptr<float>(), part);
  });
  at::Tensor factors_4C = at::empty({4, shape.channels}, weight.options().requires_grad(false));
  auto* mean = factors_4C.mutable_data_ptr<float>();
  float *inverse = mean + channels, *scale = inverse + channels, *shift = scale + channels;
  const auto *around = centre.const_data_ptr<float>(), *gain = weight.const_data_ptr<float>(),
             *offset = bias.const_data_ptr<float>();
  const bool updates = running.mean_C.defined();
  auto *running_mean = updates ? running.mean_C.mutable_data_ptr<float>() : nullptr,
       *running_var = updates ? running.var_C.mutable_data_ptr<float>() : nullptr;
  for (size_t c = 0; c < channels; ++c) {
    const double apart = sums[c] / count, variance = std::max(0.0, sums[channels + c] / count - apart * apart);
    mean[c] = static_cast<float>(around[c] + apart);
    inverse[c] = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
    scale[c] = inverse[c] * gain[c];
    shift[c] = offset[c];
    if (!updates) continue;
    const double unbiased = variance * count / std::max(count - 1, 1.0), momentum = running.momentum;
    running_mean[c] = static_cast<float>(momentum * mean[c] + (1 - momentum) * running_mean[c]);
    running_var[c] = static_cast<float>(momentum * unbiased + (1 - momentum) * running_var[c]);
  }
  return factors_4C;
}

struct FusedBatchNorm : torch::autograd::Function<FusedBatchNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const std::optional<at::Tensor>& residual, bool has_relu,
                            const RunningStatistics* running, double epsilon) {
    const PixelRows shape = pixel_rows(x);
    const at::Tensor factors_4C = statistics_of(x, weight, bias, *running, epsilon);
    const float *mean = factors_4C.const_data_ptr<float>(), *scale = mean + 2 * shape.channels;
    const ChannelFactors factors{mean, scale, scale + shape.channels};
    at::Tensor out = at::empty_like(x);
    const bool has_residual = residual.has_value();
    for_each_part(shape, [&](const PixelRows& rows, int64_t first, size_t) {
      batch_norm_rows(rows, number_at(x, first), has_residual ? number_at(*residual, first) : nullptr, factors,
                      has_relu, mutable_number_at(out, first));
    });
    // Without a residual x tells where ReLU let values pass.
    context->save_for_backward({x, factors_4C, has_residual && has_relu ? out : at::Tensor()});
    context->saved_data["has_relu"] = has_relu;
    context->saved_data["has_residual"] = has_residual;
    return out;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &factors_4C = saved[1], &out = saved[2];
    const bool has_residual = context->saved_data["has_residual"].toBool(), is_gated = out.defined();
    const bool has_relu = context->saved_data["has_relu"].toBool() && !is_gated;
    const at::Tensor dout = gradients[0].contiguous(kPixelsLast);
    const at::Tensor g = is_gated ? at::empty_like(dout) : dout;
    const PixelRows shape = pixel_rows(x);
    const auto* mean = factors_4C.const_data_ptr<float>();
    const float *inverse = mean + shape.channels, *scale = inverse + shape.channels;
    const ChannelFactors forward{mean, scale, scale + shape.channels};
    const std::vector<double> sums = sums_by_channel(shape, [&](const PixelRows& rows, int64_t first, double* part) {
      if (is_gated)
        batch_norm_gated_sums(rows, number_at(x, first), number_at(dout, first), number_at(out, first), mean,
                              mutable_number_at(g, first), part);
      else
        batch_norm_gradient_sums(rows, number_at(x, first), number_at(dout, first), forward, has_relu, part);
    });
    at::Tensor by_channel_4C = at::empty({4, shape.channels}, factors_4C.options());
    auto* mean_g = by_channel_4C.mutable_data_ptr<float>();
    float *slope = mean_g + shape.channels, *dweight = slope + shape.channels, *dbias = dweight + shape.channels;
    for (int64_t c = 0; c < shape.channels; ++c) {
      const double sum_g = sums[static_cast<size_t>(c)], sum_gx = sums[static_cast<size_t>(shape.channels + c)];
      const double count = static_cast<double>(shape.rows), rstd = inverse[c];
      mean_g[c] = static_cast<float>(sum_g / count);
      slope[c] = static_cast<float>(sum_gx * rstd * rstd / count);
      dweight[c] = static_cast<float>(sum_gx * rstd);
      dbias[c] = static_cast<float>(sum_g);
    }
    at::Tensor dx = at::empty_like(x);
    for_each_part(shape, [&](const PixelRows& rows, int64_t first, size_t) {
      batch_norm_gradient_rows(rows, number_at(x, first), number_at(g, first), forward, mean_g, slope, has_relu,
                               mutable_number_at(dx, first));
    });
    const at::Tensor none;
    return {dx, by_channel_4C.select(0, 2), by_channel_4C.select(0, 3), has_residual ? g : none, none, none, none};
  }
};

}  // namespace

bool has_fused_batch_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x.is_cpu() && x.dim() == 4 && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         weight.scalar_type() == at::kFloat && x.size(1) % kChannelLanes == 0 && x.numel() > 0 &&
         x.is_contiguous(kPixelsLast);
}

at::Tensor fused_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& residual, bool has_relu, const RunningStatistics& running,
                            double epsilon) {
  const auto given = residual.defined() ? std::optional(residual) : std::nullopt;  // apply takes no undefined tensors
  return FusedBatchNorm::apply(x, weight, bias, given, has_relu, &running, epsilon);
}

}  // namespace lockstep::nn
