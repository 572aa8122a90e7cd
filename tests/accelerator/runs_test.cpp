// Whole runs on the simulated accelerator: the numbers of the CPU, no race, one device for each process.
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"

namespace lockstep::tests {
namespace {

class RunsOnAccelerator : public AcceleratorFixture {};

TEST_F(RunsOnAccelerator, ClipTrainsAsOnTheCpu) {
  const auto args = [&](const std::string& name) {
    return on_any_device(
        train_args(name, {"--max-steps", "6", "--val-data", shapes("val_shards"), "--save-every-n-steps", "3"}));
  };
  const auto device = run(args("device"), 2);
  ASSERT_EQ(device.exit_code, 0) << device.err;
  EXPECT_NE(device.err.find("on 1 x simulated:0"), std::string::npos) << device.err;
  ASSERT_EQ(run(args("cpu"), 0).exit_code, 0);
  expect_close_runs("device", "cpu");
}

TEST_F(RunsOnAccelerator, GptTrainsAsOnTheCpu) {
  const auto device = run(gpt_args("device", {}), 1);
  ASSERT_EQ(device.exit_code, 0) << device.err;
  EXPECT_NE(device.err.find("on 1 x simulated:0"), std::string::npos) << device.err;
  ASSERT_EQ(run(gpt_args("cpu", {}), 0).exit_code, 0);
  expect_close_runs("device", "cpu");
}

/// Staging of checkpoints and the reading of steps take nothing from a run.
TEST_F(RunsOnAccelerator, ResumeIsBitForBit) {
  ASSERT_EQ(run(gpt_args("whole", {}), 1).exit_code, 0);
  ASSERT_EQ(run(gpt_args("parts", {"--exit-interval", "3"}), 1).exit_code, 0);
  const auto resumed = run(gpt_args("parts", {"--resume", "latest"}), 1);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(losses("whole"), losses("parts"));
  expect_same_files("parts", "whole");
}

}  // namespace
}  // namespace lockstep::tests
