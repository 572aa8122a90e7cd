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

/// Times that the host waited for the device.
int64_t host_waits(const ProgramResult& result) {
  const std::string mark = "the host waited ";
  const auto at = result.err.find(mark);
  return at == std::string::npos ? -1 : std::stoll(result.err.substr(at + mark.size()));
}

/// Within a step for the times and the values of an older step, and for nothing else.
TEST_F(RunsOnAccelerator, HostWaitsTwiceAStepForWhatLiesBehind) {
  const auto more_waits = [](const ProgramResult& few, const ProgramResult& many) {
    EXPECT_EQ(few.exit_code, 0) << few.err;
    EXPECT_EQ(many.exit_code, 0) << many.err;
    return host_waits(many) - host_waits(few);
  };
  EXPECT_EQ(more_waits(run(gpt_args("gpt4", {"--train-iters", "4", "--log-interval", "100"}), 1),
                       run(gpt_args("gpt8", {"--train-iters", "8", "--log-interval", "100"}), 1)),
            2 * 4);
  const auto clip = [&](const char* name, const char* steps) {
    return run(on_any_device(train_args(name, {"--max-steps", steps, "--log-every-n-steps", "100"})), 1);
  };
  EXPECT_EQ(more_waits(clip("clip4", "4"), clip("clip8", "8")), 2 * 4);
  const auto dropping = [&](const char* name, const char* steps) {
    return run(on_any_device(train_args(
                   name, {"--max-steps", steps, "--log-every-n-steps", "100", "--force-patch-dropout", "0.5"})),
               1);
  };
  EXPECT_EQ(more_waits(dropping("dropping4", "4"), dropping("dropping8", "8")), 2 * 4);
  const auto cached = [&](const char* name, const char* steps) {
    return run(on_any_device(train_args(name, {"--max-steps", steps, "--log-every-n-steps", "100", "--lock-image",
                                               "--train-transform", "eval", "--cache-locked-features", "64M"})),
               1);
  };
  // Twelve steps are an epoch, behind which each picture is known.
  EXPECT_EQ(more_waits(cached("cached14", "14"), cached("cached18", "18")), 2 * 4);
  const auto clap = [&](const char* name, const char* steps) {
    return run(clap_args(name, {"--max-steps", steps, "--log-every-n-steps", "100"}), 1);
  };
  // Six steps are an epoch.
  EXPECT_EQ(more_waits(clap("clap2", "2"), clap("clap6", "6")), 2 * 4) << "lengths of texts are known on the host";
}

TEST_F(RunsOnAccelerator, MemoryThatRunsOutIsExplainedByThePlan) {
  // The plan of 26.7 MB fits what is free at first; then other programs take so much of it that the run does not.
  const auto beside_others = [](const char* bytes) {
    return EnvChanges{{"LOCKSTEP_TEST_DEVICE_BYTES", bytes}, {"LOCKSTEP_TEST_DEVICE_BYTES_TAKEN_LATER", "40000000"}};
  };
  const auto in_a_step = run(on_any_device(train_args("full")), 1, beside_others("20000000"));
  EXPECT_EQ(in_a_step.exit_code, 6) << in_a_step.err;
  for (const char* text : {"out of memory: simulated out of memory. Tried to allocate", "simulated:0 has",
                           "planned: memory of a rank: ", "--batch-size", "--dry-run"})
    EXPECT_NE(in_a_step.err.find(text), std::string::npos) << text << " in: " << in_a_step.err;
  const auto status = record::read_status(logs_.path() / "full");
  EXPECT_EQ(status.state, "failed");
  EXPECT_NE(status.message.find("planned: "), std::string::npos) << status.message;
  const auto while_building = run(on_any_device(train_args("none")), 1, beside_others("4000000"));
  EXPECT_EQ(while_building.exit_code, 6) << while_building.err;
  EXPECT_NE(while_building.err.find("planned: "), std::string::npos) << while_building.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "none"));
  const auto planned = run(gpt_args("planned", {"--global-batch-size", "8", "--micro-batch-size", "8"}), 1,
                           {{"LOCKSTEP_TEST_DEVICE_BYTES", "700000"}});
  EXPECT_EQ(planned.exit_code, 6) << planned.err;
  EXPECT_NE(planned.err.find("laid out so takes 1022 KiB of memory, device 'simulated:0'"), std::string::npos)
      << planned.err;
}

TEST_F(RunsOnAccelerator, DeviceThatGivesNoMemoryAtAllIsRefused) {
  const auto held = run(gpt_args("held", {}), 1, {{"LOCKSTEP_TEST_DEVICE_BYTES", "0"}});
  EXPECT_EQ(held.exit_code, 6) << held.err;
  for (const char* text : {"simulated:0 is here and cannot be used, driver ", "Exclusive_Process", "nvidia-smi"})
    EXPECT_NE(held.err.find(text), std::string::npos) << held.err;
}

TEST_F(RunsOnAccelerator, MoreRanksThanDevicesAreRefused) {
  for (const auto& rank : run_ranks(3, gpt_args("crowd", {"--micro-batch-size", "1", "--global-batch-size", "3"}), 2)) {
    EXPECT_EQ(rank.exit_code, 6);
    EXPECT_NE(rank.err.find("3 local ranks, but only 2 GPUs are visible"), std::string::npos) << rank.err;
    EXPECT_NE(rank.err.find("--nproc-per-node"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::tests
