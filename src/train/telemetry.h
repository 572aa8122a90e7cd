#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "train/numbers_in_flight.h"
#include "train/phase_clock.h"
#include "train/stop_request.h"

namespace c10 {
struct Event;
}

namespace lockstep::train {

/// One optimiser step as this rank saw it. Device scalars are 0-dim and detached.
struct StepSample {
  int64_t step = 0;          ///< From 0.
  int64_t samples_seen = 0;  ///< Over all ranks since the start, this step included.
  double lr = 0;
  StepPhases phases;
  double time_s = 0;  ///< Unix time at the end of the step, as the host saw it.
  StopRequest request = StopRequest::kNone;
  /// Equal on all ranks: losses, gradient norm, logit scale, ...
  std::vector<std::pair<std::string, at::Tensor>> scalars;
};

/// The same on the host.
struct StepValues {
  int64_t step = 0;
  int64_t samples_seen = 0;
  double lr = 0;
  double step_ms = 0;       ///< Largest over the ranks.
  double data_wait_ms = 0;  ///< Largest over the ranks.
  PhaseTimes phases;        ///< Of this rank.
  double time_s = 0;        ///< Unix time at the end of the step on this rank.
  /// Largest over the ranks: all ranks see the same request at the same step.
  StopRequest request = StopRequest::kNone;
  std::vector<std::pair<std::string, double>> scalars;
  std::optional<double> find(const std::string& name) const;
};

/// Carries times, losses and requests of a step to the host some steps later, so that the loop never waits for them:
/// one MAX all-reduce of three numbers a step, in the background. On a device a step's times are sent one step later,
/// when its events have passed.
class Telemetry {
 public:
  Telemetry(comm::Comm& world, at::Device device);

  void push(StepSample sample);
  /// Steps pushed at least `delay_steps` (1 or more) pushes ago that were not taken yet, oldest first. 0 takes all and
  /// waits for them.
  std::vector<StepValues> take(int64_t delay_steps);

 private:
  struct Waiting {
    StepSample sample;
    at::Tensor values;                    // scalars on their way to the host
    std::shared_ptr<c10::Event> arrival;  // on a device: when they lie there
  };
  struct Sent {
    StepValues values;
    at::Tensor scalars;
    std::vector<std::string> names;
    NumbersInFlight maxima;  // request, step_ms, data_wait_ms; when they are there, the scalars are, too
  };
  void send_oldest();
  static StepValues finish(Sent& sent);

  comm::Comm& world_;
  at::Device device_;
  size_t lag_steps_;  // pushes between a step and the sending of its times
  StopRequest unsent_request_ = StopRequest::kNone;
  std::deque<Waiting> waiting_;
  std::deque<Sent> sent_;
};

}  // namespace lockstep::train
