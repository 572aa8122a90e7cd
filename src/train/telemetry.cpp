#include "train/telemetry.h"

#include <ATen/ATen.h>

namespace lockstep::train {

std::optional<double> StepValues::find(const std::string& name) const {
  for (const auto& [key, value] : scalars)
    if (key == name) return value;
  return std::nullopt;
}

void Telemetry::push(StepSample sample) {
  Pending pending;
  pending.maxima = at::tensor({static_cast<double>(sample.wish), sample.step_ms, sample.data_wait_ms}, at::kDouble).to(device_);
  pending.work = world_.all_reduce(pending.maxima, comm::ReduceOp::kMax);
  pending.sample = std::move(sample);
  queue_.push_back(std::move(pending));
}

std::vector<StepValues> Telemetry::take(int64_t delay_steps) {
  std::vector<StepValues> values;
  while (static_cast<int64_t>(queue_.size()) > delay_steps) {
    values.push_back(finish(queue_.front()));
    queue_.pop_front();
  }
  return values;
}

StepValues Telemetry::finish(Pending& pending) {
  pending.work.wait();
  const auto maxima = pending.maxima.to(at::kCPU);  // sync: these values are some steps old and already there
  const double* value = maxima.const_data_ptr<double>();
  const StepSample& sample = pending.sample;
  StepValues values{.step = sample.step,
                    .samples_seen = sample.samples_seen,
                    .lr = sample.lr,
                    .step_ms = value[1],
                    .data_wait_ms = value[2],
                    .wish = static_cast<StopRequest>(static_cast<int>(value[0])),
                    .scalars = {}};
  for (const auto& [name, scalar] : sample.scalars) values.scalars.emplace_back(name, scalar.item<double>());  // sync: as above
  return values;
}

}  // namespace lockstep::train
