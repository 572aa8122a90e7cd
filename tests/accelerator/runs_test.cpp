// Whole runs on the simulated accelerator: the numbers of the CPU, no race, one device for each process.
#include <gtest/gtest.h>

#include <vector>

#include "commands/train_fixture.h"
#include "core/safetensors.h"

namespace lockstep::tests {
namespace {

class RunsOnAccelerator : public TrainFixture {
 protected:
  void SetUp() override {}  // the program is built with this one
  static constexpr const char* kEngine = LOCKSTEP_BUILD_DIR "/lockstep-engine-on-accelerator";

  /// On the CPU, or where `num_devices` is above 0 on the simulated accelerator.
  ProgramResult run(std::vector<std::string> args, int num_devices, EnvChanges changes = {}) const {
    args.insert(args.begin(), kEngine);
    if (num_devices > 0) changes["LOCKSTEP_TEST_DEVICES"] = std::to_string(num_devices);
    return run_program(std::move(args), changes, std::chrono::seconds(180));
  }
  static std::vector<std::string> on_any_device(std::vector<std::string> args) {
    const auto device = std::find(args.begin(), args.end(), "--device");
    *std::next(device) = "auto";
    return args;
  }
  std::vector<std::string> gpt_args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args;
    for (const char* word : {"train",
                             "gpt",
                             "--mock-data",
                             "--num-layers",
                             "2",
                             "--hidden-size",
                             "32",
                             "--num-attention-heads",
                             "4",
                             "--seq-length",
                             "16",
                             "--max-position-embeddings",
                             "16",
                             "--vocab-size",
                             "64",
                             "--make-vocab-size-divisible-by",
                             "4",
                             "--micro-batch-size",
                             "2",
                             "--global-batch-size",
                             "4",
                             "--train-iters",
                             "6",
                             "--lr",
                             "1e-3",
                             "--log-interval",
                             "1",
                             "--threads",
                             "1",
                             "--device",
                             "auto",
                             "--hidden-dropout",
                             "0.1",
                             "--attention-dropout",
                             "0"})
      args.emplace_back(word);
    args.insert(args.end(), {"--logs", logs_.path().string(), "--name", name});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Losses and norms of gradients. fp32: the formulas of a device (attention, norms) round in another order than the
  /// CPU's, and the difference grows with the steps.
  void expect_close_runs(const std::string& name, const std::string& want, double relative = 1e-5) const {
    const auto got_steps = record::read_steps(logs_.path() / name).steps;
    const auto want_steps = record::read_steps(logs_.path() / want).steps;
    ASSERT_GE(want_steps.size(), 4u);
    ASSERT_EQ(got_steps.size(), want_steps.size());
    EXPECT_NE(want_steps.front().loss, want_steps.back().loss);
    for (size_t i = 0; i < want_steps.size(); ++i) {
      EXPECT_NEAR(got_steps[i].loss, want_steps[i].loss, relative * want_steps[i].loss) << "step " << i;
      ASSERT_GT(want_steps[i].grad_norm.value_or(0), 0);
      EXPECT_NEAR(*got_steps[i].grad_norm, *want_steps[i].grad_norm, 10 * relative * *want_steps[i].grad_norm);
    }
  }
  /// The last checkpoints hold the same bytes.
  void expect_same_files(const std::string& name, const std::string& want) const {
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(core::read_file(newest_checkpoint(name) / file), core::read_file(newest_checkpoint(want) / file))
          << file;
  }
};

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
