// A small network of plain operators and its batches, for tests of gradient synchronisation.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/named_tensor.h"
#include "parallel/grad_sync.h"
#include "support/wave.h"

namespace lockstep::tests {

inline at::Tensor float_wave(at::IntArrayRef shape, double phase, double scale) {
  return wave(shape, phase, scale, at::kFloat);
}

/// A small network of plain operators: a convolution with channels_last weights, a matrix used twice, biases, a scalar,
/// and a parameter that no sample uses.
struct WaveModel {
  at::Tensor kernel = float_wave({6, 3, 3, 3}, 0.1, 0.4).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor kernel_bias = float_wave({6}, 0.2, 0.1);
  at::Tensor unused = float_wave({5, 7}, 0.3, 1.0);
  at::Tensor twice = float_wave({6, 6}, 0.5, 0.5);
  at::Tensor head = float_wave({6, 4}, 0.7, 0.5);
  at::Tensor frozen = float_wave({4}, 0.8, 0.3);
  at::Tensor scale = at::full({}, 1.3);

  explicit WaveModel(at::ScalarType type = at::kFloat) {
    for (auto& [name, tensor] : all()) *tensor = tensor->to(type).requires_grad_(name != "frozen");
  }
  std::vector<comm::NamedTensor> all() {
    return {{"kernel", &kernel}, {"kernel_bias", &kernel_bias}, {"unused", &unused}, {"twice", &twice},
            {"head", &head},     {"frozen", &frozen},           {"scale", &scale}};
  }
  /// Mean over the samples.
  at::Tensor loss(const at::Tensor& images) const {
    const at::Tensor features =
        at::conv2d(images.to(kernel.scalar_type()), kernel, kernel_bias, 1, 1).tanh().mean({2, 3});
    const at::Tensor mixed = features.matmul(twice).tanh().matmul(twice.t());
    return (mixed.matmul(head).add(frozen) * scale).square().sum(1).mean();
  }
};

constexpr int64_t kSamples = 24;  // divides by 1, 2, 3, 4 ranks x 1, 2, 3 micro-batches (with 2 samples at least)

inline at::Tensor all_images() { return float_wave({kSamples, 3, 5, 5}, 1.1, 1.0); }

inline void backward(const at::Tensor& loss) { torch::autograd::backward({loss}, {}); }

inline void require(bool is_true, const std::string& what) {
  if (!is_true) throw std::runtime_error(what);
}

/// Micro-batches of this rank's share, their losses scaled so that their gradients add up to the rank's mean.
inline void run_micros(parallel::GradSync& sync, const WaveModel& model, const comm::Comm& data,
                       int64_t num_micro_batches) {
  const at::Tensor mine = all_images().narrow(0, data.rank() * (kSamples / data.size()), kSamples / data.size());
  const int64_t size = mine.size(0) / num_micro_batches;
  for (int64_t micro = 0; micro < num_micro_batches; ++micro) {
    sync.begin_micro(micro + 1 == num_micro_batches);
    backward(model.loss(mine.narrow(0, micro * size, size)) / static_cast<double>(num_micro_batches));
  }
}

}  // namespace lockstep::tests
