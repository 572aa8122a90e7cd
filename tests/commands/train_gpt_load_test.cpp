// `train gpt --load`: what a run takes of a checkpoint of another one, what it does not read, and what it says of
// damage.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/manifest.h"
#include "commands/engine_test.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

class TrainGptLoad : public EngineTest {
 protected:
  ProgramResult train_on(int ranks, const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"train",
                                     "gpt",
                                     "--num-layers",
                                     "2",
                                     "--hidden-size",
                                     "16",
                                     "--num-attention-heads",
                                     "2",
                                     "--seq-length",
                                     "16",
                                     "--mock-data",
                                     "--vocab-size",
                                     "96",
                                     "--hidden-dropout",
                                     "0",
                                     "--attention-dropout",
                                     "0",
                                     "--global-batch-size",
                                     "4",
                                     "--lr",
                                     "1e-2",
                                     "--lr-decay-style",
                                     "constant",
                                     "--train-iters",
                                     "6",
                                     "--threads",
                                     "1",
                                     "--device",
                                     "cpu",
                                     "--logs",
                                     logs_.path().string(),
                                     "--name",
                                     name};
    args.insert(args.end(), more.begin(), more.end());
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }
  ProgramResult train(const std::string& name, const std::vector<std::string>& more) const {
    return train_on(1, name, more);
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const auto& step : record::read_steps(logs_.path() / name).steps) values.push_back(step.loss);
    return values;
  }
  /// Newest first.
  std::vector<checkpoint::CheckpointEntry> checkpoints(const std::string& name) const {
    return checkpoint::list_checkpoints(logs_.path() / name);
  }
  std::string run(const std::string& name) const { return (logs_.path() / name).string(); }

  /// One bit, so that sizes stay.
  static void damage(const fs::path& file) {
    std::string bytes = core::read_file(file);
    bytes[bytes.size() - 5] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }

  core::TempDir logs_{"lockstep_gpt_load"};
};

void expect_damage(const ProgramResult& result, const std::string& file) {
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_NE(result.err.find(file + "' was altered"), std::string::npos) << result.err;
}

/// Equal tensors, other heads: refused on every way in, and what was there stays as it was.
TEST_F(TrainGptLoad, ModelsOfEqualTensorsAreToldApart) {
  ASSERT_EQ(train("base", {"--exit-interval", "3"}).exit_code, 0);
  const std::string record = core::read_file(logs_.path() / "base" / "run.json"),
                    params = core::read_file(logs_.path() / "base" / "params.txt");
  const auto resumed = train("base", {"--resume", "latest", "--num-attention-heads", "4"});
  EXPECT_NE(resumed.exit_code, 0);
  EXPECT_NE(resumed.err.find("heads=2, this run has heads=4"), std::string::npos) << resumed.err;
  EXPECT_EQ(core::read_file(logs_.path() / "base" / "run.json"), record) << "a refused start is no attempt";
  EXPECT_EQ(core::read_file(logs_.path() / "base" / "params.txt"), params);

  const auto wider = train("base", {"--resume", "latest", "--hidden-size", "32"});
  EXPECT_NE(wider.exit_code, 0);
  EXPECT_NE(wider.err.find("hidden=16, this run has hidden=32"), std::string::npos)
      << "and nothing about tensors: " << wider.err;

  for (const char* how : {"--finetune", "--no-load-optim"}) {
    const auto refused = train("new", {"--load", run("base"), how, "--num-attention-heads", "4"});
    EXPECT_NE(refused.exit_code, 0) << how;
    EXPECT_NE(refused.err.find("heads=2, this run has heads=4"), std::string::npos) << refused.err;
  }
  const std::string exported = (logs_.path() / "exported").string();
  ASSERT_EQ(run_lockstep({"ckpt", "export", run("base"), exported, "--names", "huggingface"}).exit_code, 0);
  const auto foreign = train("new", {"--load", exported, "--num-attention-heads", "4"});
  EXPECT_EQ(foreign.exit_code, 5) << foreign.err;
  EXPECT_NE(foreign.err.find("config.json' is of another model: it has heads=2, this run 4"), std::string::npos)
      << foreign.err;
  const auto taken = train("new", {"--load", exported});
  EXPECT_EQ(taken.exit_code, 0) << "a refused start does not occupy the name: " << taken.err;
}

TEST_F(TrainGptLoad, WithoutTheOptimiserWeightsAndPositionGoOnAndMomentsBeginAnew) {
  ASSERT_EQ(train("base", {"--exit-interval", "3"}).exit_code, 0);
  ASSERT_EQ(train("whole", {"--load", run("base")}).exit_code, 0);
  const auto fresh = train("fresh", {"--load", run("base"), "--no-load-optim"});
  ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_NE(fresh.err.find("after step 3 and 12 samples"), std::string::npos) << fresh.err;
  const auto whole = losses("whole"), anew = losses("fresh");
  ASSERT_EQ(whole.size(), 3u);
  ASSERT_EQ(anew.size(), 3u);
  EXPECT_EQ(anew[0], whole[0]) << "the same weights see the same samples";
  EXPECT_NE(anew[1], whole[1]);
  ASSERT_EQ(
      train_on(2, "sharded", {"--load", run("base"), "--no-load-optim", "--tensor-model-parallel-size", "2"}).exit_code,
      0);
  const auto sharded = losses("sharded");
  ASSERT_EQ(sharded.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(sharded[i], anew[i], 1e-4 * anew[i]) << i;  // sums in another order
}

TEST_F(TrainGptLoad, ARunThatGoesOnNeedsItsSnapshotNoMore) {
  ASSERT_EQ(train("base", {"--exit-interval", "3"}).exit_code, 0);
  for (const char* mode : {"--finetune", "--no-load-optim"}) {
    ASSERT_EQ(train(mode + 2, {"--load", run("base"), mode, "--exit-interval", "2"}).exit_code, 0);
  }
  fs::remove_all(run("base"));
  for (const char* mode : {"--finetune", "--no-load-optim"}) {
    const auto rest = train(mode + 2, {"--load", run("base"), mode, "--resume", "latest"});
    ASSERT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_NE(rest.err.find("finished after 6 steps"), std::string::npos) << rest.err;
  }
  EXPECT_EQ(train("late", {"--load", run("base"), "--finetune"}).exit_code, 5);
}

TEST_F(TrainGptLoad, DamageIsFoundByHashesAndTheFileNamed) {
  ASSERT_EQ(train("base", {"--save-interval", "3"}).exit_code, 0);
  ASSERT_EQ(checkpoints("base").size(), 2u);
  const fs::path newest = checkpoints("base")[0].folder, older = checkpoints("base")[1].folder;
  damage(newest / "model.safetensors");
  for (const char* mode : {"--finetune", "--no-load-optim"})
    expect_damage(train("of-folder", {"--load", newest.string(), mode}), "model.safetensors");
  expect_damage(train("of-folder", {"--load", newest.string()}), "model.safetensors");
  expect_damage(train("of-step", {"--load", run("base"), "--ckpt-step", "6"}), "model.safetensors");
  expect_damage(run_lockstep({"infer", "generate", "--device", "cpu", "--threads", "1", "--pretrained", newest.string(),
                              "--prompt", "5"}),
                "model.safetensors");

  const auto back = train("back", {"--load", run("base"), "--train-iters", "4"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_NE(back.err.find("passed over: "), std::string::npos) << back.err;
  EXPECT_NE(back.err.find("after step 3"), std::string::npos) << back.err;
  const auto weights = train_on(
      2, "weights", {"--load", run("base"), "--no-load-optim", "--train-iters", "4", "--use-distributed-optimizer"});
  ASSERT_EQ(weights.exit_code, 0) << weights.err;
  EXPECT_NE(weights.err.find("passed over: "), std::string::npos) << weights.err;
  EXPECT_NE(weights.err.find("after step 3"), std::string::npos) << weights.err;

  damage(older / "optimizer.safetensors");
  expect_damage(train("of-older", {"--load", older.string()}), "optimizer.safetensors");
  for (const std::string& load : {older.string(), run("base")})
    ASSERT_EQ(train("tuned-" + fs::path(load).filename().string(), {"--load", load, "--finetune", "--train-iters", "2"})
                  .exit_code,
              0)
        << "the optimiser's files are not read";
  expect_damage(train("of-run", {"--load", run("base")}), "model.safetensors");
  expect_damage(run_lockstep({"infer", "generate", "--device", "cpu", "--threads", "1", "--pretrained", run("base"),
                              "--prompt", "5"}),
                "model.safetensors");
}

}  // namespace
}  // namespace lockstep::tests
