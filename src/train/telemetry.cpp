#include "train/telemetry.h"

#include <ATen/ATen.h>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace lockstep::train {
namespace {

/// All scalars as one tensor of doubles; on a device a copy into pinned memory that is queued behind the step.
at::Tensor read_back(const std::vector<std::pair<std::string, at::Tensor>>& scalars, at::Device device) {
  if (scalars.empty()) return {};
  std::vector<at::Tensor> values;
  for (const auto& [name, scalar] : scalars) values.push_back(scalar.detach().to(at::kDouble));
  const auto stacked = at::stack(values);
  if (device.is_cpu()) return stacked;
  auto host = at::empty(stacked.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  return host.copy_(stacked, /*non_blocking=*/true);
}

std::shared_ptr<c10::Event> event_on(c10::Stream stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type());
  event->record(stream);
  return event;
}

}  // namespace

std::optional<double> StepValues::find(const std::string& name) const {
  for (const auto& [key, value] : scalars)
    if (key == name) return value;
  return std::nullopt;
}

Telemetry::Telemetry(comm::Comm& world, at::Device device)
    : world_(world), device_(device), lag_steps_(device.is_cpu() ? 0 : 1) {}

void Telemetry::push(StepSample sample) {
  unsent_request_ = std::max(unsent_request_, sample.request);
  Waiting waiting;
  waiting.values = read_back(sample.scalars, device_);
  if (waiting.values.defined() && !device_.is_cpu())
    waiting.arrival = event_on(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  waiting.sample = std::move(sample);
  waiting_.push_back(std::move(waiting));
  if (waiting_.size() > lag_steps_) send_oldest();
}

void Telemetry::send_oldest() {
  Waiting oldest = std::move(waiting_.front());
  waiting_.pop_front();
  const StepSample& sample = oldest.sample;
  const PhaseTimes phases = sample.phases.read();
  StepValues values{.step = sample.step,
                    .samples_seen = sample.samples_seen,
                    .lr = sample.lr,
                    .step_ms = phases.sum(),
                    .data_wait_ms = phases[Phase::kDataWait],
                    .phases = phases,
                    .time_s = sample.time_s,
                    .request = std::exchange(unsent_request_, StopRequest::kNone),
                    .scalars = {}};
  std::vector<std::string> names;
  for (const auto& [name, scalar] : sample.scalars) names.push_back(name);
  auto maxima = NumbersInFlight::all_reduce_max(
      world_, device_, {static_cast<double>(values.request), values.step_ms, values.data_wait_ms},
      oldest.arrival.get());
  sent_.push_back({.values = std::move(values),
                   .scalars = std::move(oldest.values),
                   .names = std::move(names),
                   .maxima = std::move(maxima)});
}

std::vector<StepValues> Telemetry::take(int64_t delay_steps) {
  if (delay_steps == 0)
    while (!waiting_.empty()) send_oldest();
  std::vector<StepValues> values;
  while (static_cast<int64_t>(sent_.size() + waiting_.size()) > delay_steps && !sent_.empty()) {
    values.push_back(finish(sent_.front()));
    sent_.pop_front();
  }
  return values;
}

StepValues Telemetry::finish(Sent& sent) {
  const std::span<const double> value = sent.maxima.wait();
  StepValues values = std::move(sent.values);
  values.request = static_cast<StopRequest>(static_cast<int>(value[0]));
  values.step_ms = value[1];
  values.data_wait_ms = value[2];
  for (size_t i = 0; i < sent.names.size(); ++i)
    values.scalars.emplace_back(sent.names[i], sent.scalars.const_data_ptr<double>()[i]);
  return values;
}

}  // namespace lockstep::train
