#include "bench/sample_timer.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include "core/clock.h"

namespace lockstep::bench {
namespace {

using core::Clock;

std::vector<double> time_on_host(int64_t num_samples, const std::function<void()>& body) {
  std::vector<double> samples_us;
  samples_us.reserve(static_cast<size_t>(num_samples));
  for (int64_t i = 0; i < num_samples; ++i) {
    const auto begin = Clock::now();
    body();
    samples_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return samples_us;
}

std::vector<double> time_on_stream(at::Device device, int64_t num_samples, const std::function<void()>& body) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  std::vector<c10::Event> marks;
  for (int64_t i = 0; i <= num_samples; ++i) marks.emplace_back(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  marks[0].record(stream);
  for (size_t i = 1; i < marks.size(); ++i) {
    body();
    marks[i].record(stream);
  }
  marks.back().synchronize();
  std::vector<double> samples_us;
  for (size_t i = 1; i < marks.size(); ++i) samples_us.push_back(marks[i - 1].elapsedTime(marks[i]) * 1000.0);
  return samples_us;
}

}  // namespace

void synchronize(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::vector<double> time_samples(at::Device device, int64_t num_warmup, int64_t num_samples,
                                 const std::function<void()>& body) {
  for (int64_t i = 0; i < num_warmup; ++i) body();
  synchronize(device);
  return device.is_cpu() ? time_on_host(num_samples, body) : time_on_stream(device, num_samples, body);
}

}  // namespace lockstep::bench
