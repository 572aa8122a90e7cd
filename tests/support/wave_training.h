// A whole training run of WaveModel on one rank, and the state of all ranks put together.
#pragma once
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "optim/adamw.h"
#include "parallel/grad_sync.h"
#include "support/ranks/run_ranks.h"
#include "support/wave_model.h"
#include "train/training.h"

namespace lockstep::tests {

struct WaveSetting {
  int num_ranks = 1;
  bool is_sharded = true;
  int64_t num_micro_batches = 1;
  int64_t bucket_bytes = 400;
  at::ScalarType type = at::kFloat;
  parallel::MasterOptions masters{};
  tests::ThreadBackend backend = tests::ThreadBackend::kLocal;
};

/// What all ranks hold together. Optimiser state is flat, in the memory order of the parameters; NaN where no rank
/// holds an element.
struct WaveState {
  std::map<std::string, at::Tensor> parameters, masters, exp_avgs, exp_avg_sqs;
  std::map<std::string, double> steps;
};

inline void require_equal(const WaveState& got, const WaveState& want) {
  for (const auto member :
       {&WaveState::parameters, &WaveState::masters, &WaveState::exp_avgs, &WaveState::exp_avg_sqs}) {
    require((got.*member).size() == (want.*member).size() && !(want.*member).empty(), "another number of tensors");
    for (const auto& [name, tensor] : want.*member) require((got.*member).at(name).equal(tensor), name + " differs");
  }
  require(got.steps == want.steps, "steps differ");
}

class WaveRun {
 public:
  static constexpr double kClip =
      0.05;  ///< The gradient's norm is several times that: clipping is active in every step.

  WaveRun(const WaveSetting& setting, comm::Comm& data) : model(setting.type), setting_(setting), data_(data) {
    require(data.size() == setting.num_ranks, "wrong world size");
    sync = setting.is_sharded ? parallel::make_grad_sync_zero1(model.all(), data, setting.bucket_bytes, setting.masters)
                              : parallel::make_grad_sync_ddp(model.all(), data, setting.bucket_bytes, setting.masters);
    std::vector<config::ParamSpec> specs;
    for (const auto& [name, tensor] : model.all())
      specs.push_back({.name = name, .shape = tensor->sizes().vec(), .init = {}, .weight_decay = tensor->dim() > 1});
    specs.back().bounds = {1.29, 2.0};  // scale, which falls below without them
    optimizer = std::make_unique<optim::AdamW>(train::optimizer_segments(sync->partition(), specs),
                                               optim::AdamWConfig{.weight_decay = 0.1});
  }

  /// Over all samples, before the step.
  double mean_loss() {
    const c10::NoGradGuard no_grad;
    sync->wait_params();
    const int64_t share = kSamples / data_.size();
    auto loss = model.loss(all_images().narrow(0, data_.rank() * share, share)).to(at::kDouble);
    data_.all_reduce(loss, comm::ReduceOp::kAverage).wait();
    return loss.item<double>();
  }

  /// One optimiser step; the norm of the gradient.
  double step() {
    sync->begin_step();
    run_micros(*sync, model, data_, setting_.num_micro_batches);
    sync->finish();
    return train::update_parameters(*sync, *optimizer, nullptr, 1e-2, kClip).norm.item<double>();
  }

  /// Adds this rank's part to what the other ranks have added (under a lock of the caller's).
  void collect(WaveState& whole) {
    sync->wait_params();
    std::map<std::string, int64_t> numel;
    for (const auto& [name, tensor] : model.all()) {
      numel[name] = tensor->numel();
      const auto [known, is_new] = whole.parameters.try_emplace(name, tensor->detach().clone());
      require(is_new || known->second.equal(*tensor), name + ": ranks hold different bits");
    }
    const auto state = optimizer->state();
    for (size_t i = 0; i < state.size(); ++i) {
      const auto& segment = optimizer->segments()[i];
      const auto put = [&](std::map<std::string, at::Tensor>& to, const at::Tensor& piece) {
        auto& flat = to.try_emplace(segment.name, at::full({numel.at(segment.name)}, NAN)).first->second;
        flat.narrow(0, segment.offset, piece.numel()).copy_(piece.detach().as_strided({piece.numel()}, {1}));
      };
      put(whole.masters, segment.parameter);
      put(whole.exp_avgs, state[i].at("exp_avg"));
      put(whole.exp_avg_sqs, state[i].at("exp_avg_sq"));
      const auto steps = state[i].at("step").item<double>();
      require(whole.steps.try_emplace(segment.name, steps).first->second == steps,
              segment.name + ": pieces have made different steps");
    }
  }

  WaveModel model;
  std::unique_ptr<parallel::GradSync> sync;
  std::unique_ptr<optim::AdamW> optimizer;

 private:
  WaveSetting setting_;
  comm::Comm& data_;
};

}  // namespace lockstep::tests
