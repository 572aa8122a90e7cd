#include "nn/conv.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "nn/layers.h"
#include "nn/sync_batch_norm.h"

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
  return at::conv2d(x_BCYX, weight_, {}, {stride_, stride_}, {padding_, padding_});
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

at::Tensor BatchNorm2d::forward(const at::Tensor& x_BCYX) {
  const bool measures = is_training() && !has_frozen_statistics_;  // the micro-batch, as against what is stored
  const bool updates = measures && updates_statistics_;
  if (updates) num_batches_tracked_.add_(1);
  if (measures && comm_ != nullptr && comm_->size() > 1) {
    const RunningStatistics running{updates ? running_mean_ : at::Tensor(), updates ? running_var_ : at::Tensor(),
                                    kMomentum};
    return sync_batch_norm(x_BCYX, weight_, bias_, running, kEpsilon, *comm_);
  }
  const bool reads_running = !measures || updates;
  const at::Tensor none;
  return at::batch_norm(x_BCYX, weight_, bias_, reads_running ? running_mean_ : none,
                        reads_running ? running_var_ : none, measures, kMomentum, kEpsilon,
                        /*cudnn_enabled=*/true);
}

}  // namespace lockstep::nn
