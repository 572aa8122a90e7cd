#pragma once
#include <cstdint>
#include <vector>

#include "comm/comm.h"
#include "config/param_spec.h"
#include "models/task.h"
#include "nn/layers.h"

namespace lockstep::tasks {

/// Parameters of a regressor of so many features.
std::vector<config::ParamSpec> regressor_params(int64_t num_features);

/// y = W x + b with the mean squared error. Batch::audio_BS holds x and, as its last column, y.
class RegressTask final : public models::Task {
 public:
  /// `data_axis`, over which the reported loss is a mean, outlives the task.
  RegressTask(int64_t num_features, uint64_t seed, at::Device device, comm::Comm& data_axis);
  nn::Module& network() override { return network_; }
  models::Outputs forward(const models::Batch& batch) override;
  models::LossReport loss(const models::Outputs& outputs) override;

 private:
  struct Network : nn::Module {
    Network(int64_t num_features, const at::TensorOptions& options) : linear(num_features, 1, options) {
      register_child("linear", linear);
    }
    nn::Linear linear;
  };

  Network network_;
  comm::Comm& data_axis_;
};

}  // namespace lockstep::tasks
