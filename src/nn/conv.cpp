#include "nn/conv.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "nn/fused_batch_norm.h"
#include "nn/layers.h"
#include "nn/sync_batch_norm.h"
#include "nn/winograd_conv.h"

namespace lockstep::nn {
namespace {
constexpr double kEpsilon = 1e-5, kMomentum = 0.1;
}

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, const at::TensorOptions& options, int64_t stride,
               int64_t padding)
    : weight_(make_parameter({out, in, kernel, kernel}, options)), stride_(stride), padding_(padding) {
  register_parameter("weight", weight_);
}

at::Tensor Conv2d::forward(const at::Tensor& x_BCYX) const {
  if (stride_ == 1 && padding_ == 1 && has_winograd_conv(x_BCYX, weight_)) return winograd_conv(x_BCYX, weight_);
  if (is_pointwise(x_BCYX)) return pointwise_conv(x_BCYX, weight_, stride_);
  return at::conv2d(x_BCYX, weight_, {}, {stride_, stride_}, {padding_, padding_});
}

ConvAndInput Conv2d::forward_and_input(const at::Tensor& x_BCYX) const {
  return is_pointwise(x_BCYX) ? pointwise_conv_and_input(x_BCYX, weight_, stride_)
                              : ConvAndInput{forward(x_BCYX), x_BCYX};
}

bool Conv2d::is_pointwise(const at::Tensor& x_BCYX) const {
  return padding_ == 0 && has_pointwise_conv(x_BCYX, weight_);
}

BatchNorm2d::BatchNorm2d(int64_t channels, const at::TensorOptions& options)
    : weight_(make_parameter({channels}, options)), bias_(make_parameter({channels}, options)),
      running_mean_(at::empty({channels}, options)), running_var_(at::empty({channels}, options)),
      num_batches_tracked_(at::zeros({}, options.dtype(at::kLong))) {
  register_parameter("weight", weight_);
  register_parameter("bias", bias_);
  register_buffer("running_mean", running_mean_);
  register_buffer("running_var", running_var_);
  register_buffer("num_batches_tracked", num_batches_tracked_);
}

at::Tensor BatchNorm2d::normalise(const at::Tensor& x_BCYX, const at::Tensor& residual_BCYX, bool has_relu) {
  const bool measures = is_training() && !has_frozen_statistics_;  // the micro-batch, as against what is stored
  const bool updates = measures && updates_statistics_;
  if (updates) num_batches_tracked_.add_(1);
  const RunningStatistics running{updates ? running_mean_ : at::Tensor(), updates ? running_var_ : at::Tensor(),
                                  kMomentum};
  const bool is_joined = measures && comm_ != nullptr && comm_->size() > 1;
  const bool is_alike = !residual_BCYX.defined() ||
                        (residual_BCYX.scalar_type() == x_BCYX.scalar_type() &&
                         residual_BCYX.sizes() == x_BCYX.sizes() && has_fused_batch_norm(residual_BCYX, weight_));
  if (measures && !is_joined && is_alike && has_fused_batch_norm(x_BCYX, weight_))
    return fused_batch_norm(x_BCYX, weight_, bias_, residual_BCYX, has_relu, running, kEpsilon);
  const at::Tensor mean = measures ? running.mean_C : running_mean_, var = measures ? running.var_C : running_var_;
  at::Tensor y_BCYX = is_joined ? sync_batch_norm(x_BCYX, weight_, bias_, running, kEpsilon, *comm_)
                                : at::batch_norm(x_BCYX, weight_, bias_, mean, var, measures, kMomentum, kEpsilon,
                                                 /*cudnn_enabled=*/true);
  if (residual_BCYX.defined()) y_BCYX.add_(residual_BCYX);
  return has_relu ? y_BCYX.relu_() : y_BCYX;
}

}  // namespace lockstep::nn
