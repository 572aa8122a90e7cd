#include "step_times.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "config/gpu_math.h"
#include "core/error.h"
#include "train/device.h"

namespace lockstep::bench {
namespace {

/// Processor time of all threads so far.
double process_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int64_t device_peak_bytes() {
  const auto stats = at::accelerator::getDeviceStats(at::accelerator::getDeviceIndex());
  return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

}  // namespace

void declare_step_options(core::OptionSet& set, StepOptions& options) {
  set.add("inputs", &options.inputs, {.help = "Folder with weights.safetensors and batches.safetensors."});
  set.add("model", &options.model, {.help = "Model name or JSON file."});
  set.add("precision", &options.precision, {.help = "Type of the products.", .choices = {"fp32", "bf16"}});
  set.add("device", &options.device, {.help = "Where the steps are computed.", .choices = {"cpu", "cuda"}});
  set.add("threads", &options.threads, {.help = "Compute threads.", .min = 1});
  set.add("steps", &options.steps, {.help = "Optimiser steps.", .min = 1});
  set.add("lr", &options.lr, {.help = "Learning rate."});
  set.add("beta1", &options.beta1, {.help = "AdamW beta1."});
  set.add("beta2", &options.beta2, {.help = "AdamW beta2."});
  set.add("eps", &options.eps, {.help = "AdamW epsilon."});
}

at::Device set_up_device(const StepOptions& options) {
  if (options.device == "cpu") {
    train::set_up_lone_cpu(options.threads);
    return at::kCPU;
  }
  return train::pick_device(options.device, config::kOpenclipGpuMath);
}

core::Json time_steps(const StepOptions& options, const std::function<double(int64_t step)>& step) {
  const bool is_cpu = options.device == "cpu";
  std::vector<double> step_ms, cpu_ms, losses;
  for (int64_t i = 0; i < options.steps; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const double cpu_began = process_ms();
    losses.push_back(step(i));
    if (!is_cpu) at::accelerator::synchronizeDevice(at::accelerator::getDeviceIndex());
    step_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    cpu_ms.push_back(process_ms() - cpu_began);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const int64_t peak = is_cpu ? static_cast<int64_t>(usage.ru_maxrss) * 1024 : device_peak_bytes();
  return {{"step_ms", step_ms}, {"cpu_ms", cpu_ms}, {"losses", losses}, {"peak_bytes", peak}};
}

int run_program(const std::function<core::Json()>& body) {
  try {
    std::printf("%s\n", body().dump().c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return static_cast<int>(error.code());
  }
}

}  // namespace lockstep::bench
