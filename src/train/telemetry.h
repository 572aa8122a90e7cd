#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "train/stop_request.h"

namespace lockstep::train {

/// One optimiser step as this rank saw it. Device scalars are 0-dim and detached.
struct StepSample {
  int64_t step = 0;           ///< From 0.
  int64_t samples_seen = 0;   ///< Over all ranks since the start, this step included.
  double lr = 0;
  double step_ms = 0;         ///< Host time since the end of the step before.
  double data_wait_ms = 0;
  StopRequest wish = StopRequest::kNone;
  std::vector<std::pair<std::string, at::Tensor>> scalars;  ///< Equal on all ranks: losses, gradient norm, logit scale, ...
};

/// The same over all ranks, on the host.
struct StepValues {
  int64_t step = 0;
  int64_t samples_seen = 0;
  double lr = 0;
  double step_ms = 0;       ///< Largest over the ranks.
  double data_wait_ms = 0;  ///< Largest over the ranks.
  StopRequest wish = StopRequest::kNone;  ///< Largest over the ranks: all ranks see the same wish at the same step.
  std::vector<std::pair<std::string, double>> scalars;
  std::optional<double> find(const std::string& name) const;
};

/// Carries times, losses and wishes of a step to the host some steps later, so that the loop never waits for them: one MAX all-reduce of three
/// numbers a step, in the background.
class Telemetry {
 public:
  Telemetry(comm::Comm& world, at::Device device) : world_(world), device_(device) {}

  void push(StepSample sample);
  /// Steps pushed at least `delay_steps` pushes ago that were not taken yet, oldest first. 0 takes all and waits for them.
  std::vector<StepValues> take(int64_t delay_steps);

 private:
  struct Pending {
    StepSample sample;
    at::Tensor maxima;  // wish, step_ms, data_wait_ms
    comm::Work work;
  };
  static StepValues finish(Pending& pending);

  comm::Comm& world_;
  at::Device device_;
  std::deque<Pending> queue_;
};

}  // namespace lockstep::train
