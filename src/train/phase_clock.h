#pragma once
#include <ATen/core/TensorBody.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/recorder.h"

namespace lockstep::train {

/// Where the time of a step goes. Each moment of a step belongs to one phase.
enum class Phase { kDataWait, kH2d, kForward, kBackward, kExposedComm, kOptimizer, kTelemetry, kOther };
inline constexpr int kNumPhases = 8;
const char* to_text(Phase phase);  ///< Key in phases_ms: "data_wait", "h2d", ...

/// Milliseconds by phase.
struct PhaseTimes {
  std::array<double, kNumPhases> ms{};
  double& operator[](Phase phase) { return ms[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return ms[static_cast<size_t>(phase)]; }
  PhaseTimes& operator+=(const PhaseTimes& other);
  PhaseTimes& operator/=(double divisor);
  double sum() const;
  /// Work of this rank that no other rank can delay: h2d, forward, backward, optimizer.
  double compute() const;
};

/// The phases of one step. On CUDA they are known once the device has finished the step.
class StepPhases {
 public:
  StepPhases() = default;
  /// Waits for the device where it has not come that far.
  PhaseTimes read() const;

 private:
  friend class PhaseClock;
  struct Marks;
  PhaseTimes host_;
  std::shared_ptr<const Marks> marks_;  // CUDA only
};

/// Splits time into phases: mark(p) says that the time since the mark before belonged to p.
///
/// CPU: steady clock; what the thread spent blocked in collectives counts as kExposedComm, whatever the phase (not in
/// kTelemetry, whose own collectives are its cost); of a phase marked kExposedComm the rest is kOther. CUDA: events on
/// the current stream, so waiting and idling of the device counts, not of the host.
class PhaseClock {
 public:
  PhaseClock(at::Device device, const comm::Recorder& recorder);
  ~PhaseClock();
  /// Forgets the marks so far: the next phase begins now.
  void restart();
  void mark(Phase phase);
  /// The time since the mark before belongs to no step (saving, evaluating).
  void skip();
  /// The marks since the last call (or restart); the next step begins now, at the last mark.
  StepPhases finish_step();

 private:
  struct DeviceMarks;
  void mark_device(std::optional<Phase> phase);
  at::Device device_;
  const comm::Recorder& recorder_;
  std::chrono::steady_clock::time_point last_;
  double last_blocked_ms_ = 0;
  PhaseTimes times_;
  std::unique_ptr<DeviceMarks> device_marks_;  // CUDA only
};

}  // namespace lockstep::train
