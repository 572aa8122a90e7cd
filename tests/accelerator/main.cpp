#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/accelerator/install.h"

/// Tests whose process has simulated devices; of commands, those of lockstep-engine-on-accelerator.
int main(int argc, char** argv) {
  constexpr int kNumDevices = 8;
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // LibTorch asks for pinned memory there first
  lockstep::tests::accelerator::install(kNumDevices);
  at::set_num_threads(1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
