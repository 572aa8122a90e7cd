#include "train/phase_clock.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <numeric>
#include "core/clock.h"

namespace lockstep::train {
namespace {

using core::Clock;

std::shared_ptr<c10::Event> event_now(at::Device device) {
  auto event = std::make_shared<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

}  // namespace

const char* to_text(Phase phase) {
  static constexpr std::array<const char*, kNumPhases> kNames{"data_wait",    "h2d",       "forward",   "backward",
                                                              "exposed_comm", "optimizer", "telemetry", "other"};
  return kNames[static_cast<size_t>(phase)];
}

PhaseTimes& PhaseTimes::operator+=(const PhaseTimes& other) {
  for (size_t i = 0; i < ms.size(); ++i) ms[i] += other.ms[i];
  return *this;
}

PhaseTimes& PhaseTimes::operator/=(double divisor) {
  for (double& value : ms) value /= divisor;
  return *this;
}

double PhaseTimes::sum() const { return std::accumulate(ms.begin(), ms.end(), 0.0); }

double PhaseTimes::compute() const {
  return (*this)[Phase::kH2d] + (*this)[Phase::kForward] + (*this)[Phase::kBackward] + (*this)[Phase::kOptimizer];
}

/// The event before the first phase, then the end of each.
struct StepPhases::Marks {
  std::shared_ptr<c10::Event> start;
  std::vector<std::pair<std::optional<Phase>, std::shared_ptr<c10::Event>>> ends;  // no phase: between two steps
};

struct PhaseClock::DeviceMarks {
  StepPhases::Marks marks;
};

PhaseTimes StepPhases::read() const {
  if (!marks_) return host_;
  PhaseTimes times;
  const c10::Event* before = marks_->start.get();
  if (!marks_->ends.empty())
    marks_->ends.back().second->synchronize();  // sync: an old step; the device is working on a later one
  for (const auto& [phase, end] : marks_->ends) {
    if (phase) times[*phase] += before->elapsedTime(*end);
    before = end.get();
  }
  return times;
}

PhaseClock::PhaseClock(at::Device device, const comm::Recorder& recorder) : device_(device), recorder_(recorder) {
  if (!device.is_cpu()) device_marks_ = std::make_unique<DeviceMarks>();
  restart();
}

PhaseClock::~PhaseClock() = default;

void PhaseClock::restart() {
  times_ = {};
  last_ = Clock::now();
  last_blocked_ms_ = recorder_.blocked_ms();
  if (device_marks_) device_marks_->marks = {.start = event_now(device_), .ends = {}};
}

void PhaseClock::mark(Phase phase) {
  if (device_marks_) return mark_device(phase);
  const auto now = Clock::now();
  const double elapsed_ms = std::chrono::duration<double, std::milli>(now - last_).count();
  const double blocked_ms = recorder_.blocked_ms();
  const double exposed_ms = phase == Phase::kTelemetry ? 0 : std::min(elapsed_ms, blocked_ms - last_blocked_ms_);
  times_[phase == Phase::kExposedComm ? Phase::kOther : phase] += elapsed_ms - exposed_ms;
  times_[Phase::kExposedComm] += exposed_ms;
  last_ = now;
  last_blocked_ms_ = blocked_ms;
}

void PhaseClock::mark_device(std::optional<Phase> phase) {
  device_marks_->marks.ends.emplace_back(phase, event_now(device_));
}

void PhaseClock::skip() {
  if (device_marks_) return mark_device(std::nullopt);
  last_ = Clock::now();
  last_blocked_ms_ = recorder_.blocked_ms();
}

StepPhases PhaseClock::finish_step() {
  StepPhases phases;
  phases.host_ = std::exchange(times_, {});
  if (device_marks_) {
    auto& marks = device_marks_->marks;
    const auto end = marks.ends.empty() ? marks.start : marks.ends.back().second;
    phases.marks_ = std::make_shared<const StepPhases::Marks>(std::exchange(marks, {.start = end, .ends = {}}));
  }
  return phases;
}

}  // namespace lockstep::train
