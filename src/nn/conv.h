#pragma once
#include <ATen/core/TensorBody.h>

#include "comm/comm.h"
#include "nn/module.h"
#include "nn/pointwise_conv.h"

namespace lockstep::nn {

/// Square 2-D convolution without bias.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, int64_t kernel, const at::TensorOptions& options, int64_t stride = 1,
         int64_t padding = 0);
  at::Tensor forward(const at::Tensor& x_BCYX) const;
  /// forward(x), and x for its other uses (nn/pointwise_conv.h).
  ConvAndInput forward_and_input(const at::Tensor& x_BCYX) const;

 private:
  bool is_pointwise(const at::Tensor& x_BCYX) const;

  at::Tensor weight_;
  int64_t stride_, padding_;
};

/// Batch norm over [B, C, Y, X], epsilon 1e-5, momentum 0.1. In training the statistics are those of the micro-batch,
/// or of the micro-batches of all ranks of a group once synchronize() named one: then input gradients are those of the
/// sum of all ranks' losses, as if one rank had the joined batch. In evaluation the running statistics are used.
class BatchNorm2d : public Module {
 public:
  BatchNorm2d(int64_t channels, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX) { return normalise(x_BCYX, {}, false); }
  /// ReLU of forward(x), or of forward(x) + residual: one fused operator where there is one (nn/fused_batch_norm.h).
  at::Tensor forward_relu(const at::Tensor& x_BCYX) { return normalise(x_BCYX, {}, true); }
  at::Tensor forward_add_relu(const at::Tensor& x_BCYX, const at::Tensor& residual_BCYX) {
    return normalise(x_BCYX, residual_BCYX, true);
  }

  /// All ranks of `comm` must run forward and backward in the same order: one all-gather forward, one all-reduce
  /// backward, each blocking the caller. `comm` must outlive the backward pass. nullptr: local statistics.
  void synchronize(comm::Comm* comm) { comm_ = comm; }
  /// False: training mode leaves the running statistics alone.
  void set_updates_statistics(bool updates) { updates_statistics_ = updates; }
  /// From now on training mode normalises by the running statistics, too, and leaves them alone.
  void freeze_statistics() { has_frozen_statistics_ = true; }
  at::ScalarType parameter_type() const { return weight_.scalar_type(); }

 private:
  at::Tensor normalise(const at::Tensor& x_BCYX, const at::Tensor& residual_BCYX, bool has_relu);

  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
  comm::Comm* comm_ = nullptr;
  bool updates_statistics_ = true, has_frozen_statistics_ = false;
};

}  // namespace lockstep::nn
