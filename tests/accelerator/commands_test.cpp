// Commands beside `train` on a simulated device, and the task with sounds: the numbers of the CPU, no race.
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"

namespace lockstep::tests {
namespace {

class CommandsOnAccelerator : public AcceleratorFixture {
 protected:
  /// Without a mistake; its result.
  static ProgramResult run_well(std::vector<std::string> args, int num_devices) {
    const auto result = run(std::move(args), num_devices);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (num_devices > 0) {
      EXPECT_NE(result.err.find("simulated accelerator: 0 mistakes"), std::string::npos) << result.err;
    }
    return result;
  }
  std::string path(const std::string& name) const { return (logs_.path() / name).string(); }
};

TEST_F(CommandsOnAccelerator, ClapTrainsAndEmbedsAsOnTheCpu) {
  run_well(clap_args("device", {}), 1);
  run_well(clap_args("cpu", {}), 0);
  expect_close_runs("device", "cpu");
  write_lines("texts.txt", {"a low tone", "a high tone that falls"});
  const auto embed = [&](const char* out, int num_devices) {
    run_well({"infer", "embed", "--model", std::string(LOCKSTEP_SOURCE_DIR) + "/examples/sounds/model.json",
              "--pretrained", path("cpu"), "--texts", path("texts.txt"), "--sounds", sounds("heldout"),
              "--tokenizer-vocab", sounds("tokenizer"), "--threads", "1", "--device", "auto", "-o", path(out)},
             num_devices);
  };
  embed("device.safetensors", 1), embed("cpu.safetensors", 0);
  expect_close_tensors("device.safetensors", "cpu.safetensors");
}

TEST_F(CommandsOnAccelerator, ClipEmbedsAsOnTheCpu) {
  run_well(train_args("weights", {"--max-steps", "2"}), 0);
  const auto embed = [&](const char* out, int num_devices) {
    run_well({"infer", "embed", "--pretrained", path("weights"), "--images", shapes("heldout"), "--threads", "1",
              "--device", "auto", "-o", path(out)},
             num_devices);
  };
  embed("device.safetensors", 1), embed("cpu.safetensors", 0);
  expect_close_tensors("device.safetensors", "cpu.safetensors");
}

/// As each command's options have it, in the process that computes.
TEST_F(CommandsOnAccelerator, ComputeByTheFlagsOfTf32AndCudnn) {
  const auto expect_math = [](const std::vector<std::string>& args, const std::string& want) {
    const auto result = run_well(args, 1);
    EXPECT_NE(result.err.find("simulated accelerator: " + want + "\n"), std::string::npos) << result.err;
  };
  const char *all = "tf32 1, cudnn tf32 1, cudnn benchmark 1", *of_torch = "tf32 0, cudnn tf32 1, cudnn benchmark 0";
  expect_math(on_any_device(train_args("weights", {"--max-steps", "1"})), all);
  expect_math(on_any_device(train_args("exact", {"--max-steps", "1", "--deterministic"})),
              "tf32 0, cudnn tf32 0, cudnn benchmark 0");
  expect_math(gpt_args("gpt", {"--train-iters", "1"}), of_torch);
  expect_math({"infer", "embed", "--pretrained", path("weights"), "--images", shapes("heldout"), "--device", "auto",
               "--tf32", "-o", path("out")},
              "tf32 1, cudnn tf32 1, cudnn benchmark 0");
  expect_math({"infer", "generate", "--pretrained", path("gpt"), "--prompt", "1", "--max-new-tokens", "1"}, of_torch);
  expect_math({"bench", "op", "--max-dim", "32", "--min-dim", "32", "--array-bytes", "64K", "--mode", "verify",
               "--cudnn-benchmark"},
              "tf32 0, cudnn tf32 1, cudnn benchmark 1");
  const auto attempts = core::read_json_file(logs_.path() / "weights" / "run.json").at("attempts");
  EXPECT_EQ(attempts.at(0).at("options").at("tf32"), true);
}

TEST_F(CommandsOnAccelerator, GptGeneratesTheTokensOfTheCpu) {
  run_well(gpt_args("weights", {}), 0);
  const auto generate = [&](int num_devices) {
    return run_well({"infer", "generate", "--pretrained", path("weights"), "--prompt", "1 2 3", "--prompt", "7 5",
                     "--max-new-tokens", "8", "--threads", "1", "--device", "auto", "--json"},
                    num_devices)
        .out;
  };
  const std::string of_cpu = generate(0);
  EXPECT_GT(of_cpu.size(), 40u);
  EXPECT_EQ(generate(1), of_cpu);
}

TEST_F(CommandsOnAccelerator, BenchChecksItsValues) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"op", "--max-dim", "64", "--min-dim", "64", "--array-bytes", "64K"},
           {"step", "--model", (shared_->path() / "tiny.json").string(), "--batch-size", "4", "--precision", "fp32"}}) {
    std::vector<std::string> args = {"bench"};
    args.insert(args.end(), words.begin(), words.end());
    args.insert(args.end(), {"--device", "auto", "--threads", "1", "-n", "2", "-w", "1", "--json"});
    const auto done = run_well(args, 1);
    EXPECT_NE(done.out.find("simulated"), std::string::npos) << done.out;
  }
  for (const auto& rank : run_ranks(2,
                                    {"bench", "collective", "--collectives", "all", "-b", "64", "-e", "4K", "-f", "8",
                                     "-n", "2", "-w", "1", "--device", "auto", "--threads", "1"},
                                    2)) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_NE(rank.err.find("simulated accelerator: 0 mistakes"), std::string::npos) << rank.err;
  }
}

TEST_F(CommandsOnAccelerator, ProfileTakesNothingFromARun) {
  auto args = gpt_args("profiled", {"--profile-step-start", "2", "--profile-step-end", "4"});
  args.insert(args.begin(), "profile");
  run_well(args, 1);
  run_well(gpt_args("plain", {}), 1);
  EXPECT_EQ(losses("profiled"), losses("plain"));
}

}  // namespace
}  // namespace lockstep::tests
