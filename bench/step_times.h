#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <string>

#include "core/json.h"
#include "core/options.h"

namespace lockstep::bench {

/// What every program that times training steps is told.
struct StepOptions {
  std::string inputs = ".";
  std::string model;
  std::string precision = "fp32";  ///< Or bf16.
  std::string device = "cpu";      ///< Or cuda: the first one.
  int64_t threads = 2, steps = 8;
  double lr = 5e-4, beta1 = 0.9, beta2 = 0.98, eps = 1e-6;
  std::string weights() const { return inputs + "/weights.safetensors"; }
};
void declare_step_options(core::OptionSet& set, StepOptions& options);

/// Makes --device current, with OpenCLIP's settings for matrix products, or sets the threads of the CPU.
at::Device set_up_device(const StepOptions& options);

/// Wall and processor time of each step, its loss (what `step` returns), and the most memory (of a GPU what its tensors
/// took): one line of JSON. A step ends when the device has done all of it.
core::Json time_steps(const StepOptions& options, const std::function<double(int64_t step)>& step);

/// Prints what `body` returns; an error becomes its exit code.
int run_program(const std::function<core::Json()>& body);

}  // namespace lockstep::bench
