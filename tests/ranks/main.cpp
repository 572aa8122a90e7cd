#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ranks/fault_process.h"

/// Tests that run ranks as threads or as processes.
int main(int argc, char** argv) {
  // c10d's flight recorder is not safe for ranks that are threads and reads this before its first group (LibTorch
  // facts, 0.1).
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  lockstep::tests::start_rank_server();
  at::set_num_threads(1);  // references computed by the main thread; a team of threads stalls on a busy machine
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
