#include "tasks/regress/engine/regress_model.h"

#include <ATen/ATen.h>

#include "nn/init.h"

namespace lockstep::tasks {

std::vector<config::ParamSpec> regressor_params(int64_t num_features) {
  using Kind = config::InitLaw::Kind;
  return {{.name = "linear.weight", .shape = {1, num_features}, .init = {.kind = Kind::kNormal, .deviation = 0.1}},
          {.name = "linear.bias", .shape = {1}, .init = {.kind = Kind::kZeros}}};
}

RegressTask::RegressTask(int64_t num_features, uint64_t seed, at::Device device, comm::Comm& data_axis)
    : network_(num_features, at::TensorOptions(device).dtype(at::kFloat)), data_axis_(data_axis) {
  nn::initialize(network_, regressor_params(num_features), seed);
}

models::Outputs RegressTask::forward(const models::Batch& batch) {
  const int64_t num_features = batch.audio_BS.size(1) - 1;
  const at::Tensor x_BF = batch.audio_BS.narrow(1, 0, num_features), y_B = batch.audio_BS.select(1, num_features);
  const at::Tensor error_B = network_.linear.forward(x_BF).squeeze(1) - y_B;
  models::Outputs outputs;
  outputs.loss_sum = error_B.square().sum();
  outputs.weight_sum = at::full({}, static_cast<double>(batch.num_samples), error_B.options());
  return outputs;
}

models::LossReport RegressTask::loss(const models::Outputs& outputs) {
  const at::Tensor mean = outputs.loss_sum / outputs.weight_sum, reported = mean.detach().clone();
  data_axis_.all_reduce(reported, comm::ReduceOp::kAverage).wait();
  return {.loss = mean, .parts = {{"squared_error", reported}}};
}

}  // namespace lockstep::tasks
