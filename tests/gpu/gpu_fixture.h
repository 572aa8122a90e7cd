#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "accelerator/accelerator_fixture.h"
#include "core/env.h"
#include "hw/gpus.h"

namespace lockstep::tests {

/// How far losses may be apart, relative to them; norms of gradients: ten times that. Kernels sum in another order.
inline constexpr double kFp32 = 1e-3;

/// Cases for machines with a GPU, skipped elsewhere. LOCKSTEP_GPU_TESTS=simulated runs them on the simulated
/// accelerator: a trial of the tests, not of GPUs.
class GpuFixture : public AcceleratorFixture {
 protected:
  void SetUp() override {
    if (!is_trial() && !hw::find_gpus().any())
      GTEST_SKIP() << "no GPU of NVIDIA is here (/dev, /proc/driver/nvidia, PCI): never run on this machine";
  }
  static bool is_trial() { return core::env("LOCKSTEP_GPU_TESTS") == "simulated"; }
};

/// TF32 keeps 10 bits of fp32, and cuDNN's choice of kernels varies.
inline std::vector<std::string> in_full_fp32(std::vector<std::string> args) {
  args.insert(args.end(), {"--no-tf32", "--no-cudnn-tf32", "--no-cudnn-benchmark"});
  return args;
}

}  // namespace lockstep::tests
