#include "nn/rotary.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numbers>

#include "nn/gpu_kernels.h"

namespace lockstep::nn {
namespace {

/// Llama 3.1: long waves are stretched by `factor`, short ones stay, a line in between.
double stretched(double frequency, const config::RotaryScaling& scaling) {
  const double turns =
      static_cast<double>(scaling.original_positions) * frequency / (2 * std::numbers::pi);  // over the original length
  if (turns < scaling.low_factor) return frequency / scaling.factor;
  if (turns > scaling.high_factor) return frequency;
  const double kept = (turns - scaling.low_factor) / (scaling.high_factor - scaling.low_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

/// The gradient of a turned vector is turned back.
struct Rotation : torch::autograd::Function<Rotation> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return rotate_on_gpu(x, cosine, sine, /*is_back=*/false);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& given = gradients[0];
    const at::Tensor gradient =
        suits_gpu_rotation(given, saved[0], saved[1]) ? given : given.clone(at::MemoryFormat::Contiguous);
    return {rotate_on_gpu(gradient, saved[0], saved[1], /*is_back=*/true), at::Tensor(), at::Tensor()};
  }
};

at::Tensor rates_on(const at::Device& device, const std::vector<double>& frequencies) {
  return at::tensor(frequencies, at::TensorOptions(at::kDouble)).to(device);
}

RotaryTable table_of(const at::Tensor& rates, const at::Tensor& position_TB) {
  const at::Tensor angles =
      position_TB.to(at::kDouble).view({position_TB.size(0), position_TB.size(1), 1, 1, 1}).mul(rates);
  return {angles.cos(), angles.sin()};
}

}  // namespace

std::vector<double> rotary_frequencies(int64_t width, double base,
                                       const std::optional<config::RotaryScaling>& scaling) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width; i += 2) {
    const double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(width));
    frequencies.push_back(scaling ? stretched(frequency, *scaling) : frequency);
  }
  return frequencies;
}

RotaryTable make_rotary_table(const std::vector<double>& frequencies, const at::Tensor& position_TB) {
  return table_of(rates_on(position_TB.device(), frequencies), position_TB);
}

RotaryTable RotaryCache::table(const at::Tensor& position_TB) {
  if (!rates_.defined() || rates_.device() != position_TB.device())
    rates_ = rates_on(position_TB.device(), frequencies_);
  return table_of(rates_, position_TB);
}

const RotaryTable& RotaryCache::table(int64_t tokens, const at::Device& device, at::ScalarType type) {
  RotaryTable& kept =
      firsts_[{tokens, static_cast<int64_t>(device.type()), device.index(), static_cast<int64_t>(type)}];
  if (kept.is_defined()) return kept;
  const c10::NoGradGuard no_grad;
  const RotaryTable wide = table(at::arange(tokens, at::TensorOptions(at::kLong).device(device)).unsqueeze(1));
  kept = {wide.cosine.to(type), wide.sine.to(type)};
  return kept;
}

at::Tensor rotate(const at::Tensor& x_TBGHK, const RotaryTable& table) {
  const int64_t half = table.cosine.size(-1), width = x_TBGHK.size(-1);
  const at::Tensor cosine = table.cosine.to(x_TBGHK.scalar_type()), sine = table.sine.to(x_TBGHK.scalar_type());
  if (suits_gpu_rotation(x_TBGHK, cosine, sine))
    return c10::GradMode::is_enabled() ? Rotation::apply(x_TBGHK, cosine, sine)
                                       : rotate_on_gpu(x_TBGHK, cosine, sine, /*is_back=*/false);
  const at::Tensor first = x_TBGHK.narrow(-1, 0, half), second = x_TBGHK.narrow(-1, half, half);
  std::vector<at::Tensor> parts{first.mul(cosine).sub(second.mul(sine)), second.mul(cosine).add(first.mul(sine))};
  if (2 * half < width) parts.push_back(x_TBGHK.narrow(-1, 2 * half, width - 2 * half));
  return at::cat(parts, -1);
}

}  // namespace lockstep::nn
