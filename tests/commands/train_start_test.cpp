// Ranks that were not started alike are refused by the run itself.
#include "commands/train_fixture.h"
#include "core/strings.h"
#include "support/listening.h"

namespace lockstep::tests {
namespace {

class TrainStart : public TrainFixture {
 protected:
  /// Two ranks of `script`, where "$@" are the arguments of a training.
  ProgramResult start(const std::string& script) const {
    std::vector<std::string> args{"launch", "--nproc-per-node", "2", "--program", "/bin/sh", "--", "-c", script, "sh"};
    for (const std::string& arg : train_args("start", {"--max-steps", "1"})) args.push_back(arg);
    return run_lockstep(args);
  }
};

TEST_F(TrainStart, OtherOptionsAreRefusedWithBothValuesAndTheRank) {
  const ProgramResult result = start("[ $RANK = 1 ] && set -- \"$@\" --lr 0.5; exec '" + lockstep_program() +
                                     "' \"$@\" --threads $((RANK + 1))");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("--lr is 0.001 on rank 0 and 0.5 on rank 1"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "start"));
}

TEST_F(TrainStart, OtherKernelsAreRefusedLikeOtherOptions) {
  const ProgramResult result =
      start("[ $RANK = 1 ] && export LOCKSTEP_GPU_KERNELS=off; exec '" + lockstep_program() + "' \"$@\"");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("LOCKSTEP_GPU_KERNELS is \"auto\" on rank 0 and \"off\" on rank 1"), std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("--LOCKSTEP"), std::string::npos) << result.err;
}

TEST_F(TrainStart, AnotherBuildIsRefusedWithBothCommitsAndTheRank) {
  const core::TempDir copy;
  const auto version = core::parse_json(run_lockstep({"--version", "--json"}).out, "version");
  const std::string commit = version.at("commit"), other(commit.size(), 'x');
  const fs::path engine = fs::path(LOCKSTEP_BUILD_DIR) / "lockstep-engine";
  std::string program = core::read_file(engine);
  ASSERT_NE(program.find(commit), std::string::npos);
  core::write_file_atomic(copy.path() / "lockstep-engine", core::replace_all(program, commit, other));
  fs::copy_file(lockstep_program(), copy.path() / "lockstep");
  fs::permissions(copy.path() / "lockstep-engine", fs::perms::owner_all);
  const ProgramResult result = start("[ $RANK = 1 ] && exec '" + (copy.path() / "lockstep").string() +
                                     "' \"$@\"; exec '" + lockstep_program() + "' \"$@\"");
  EXPECT_EQ(result.exit_code, 6) << result.err;
  EXPECT_NE(result.err.find("rank 1 runs lockstep " + version.at("version").get<std::string>() + " " + other),
            std::string::npos)
      << result.err;
}

TEST_F(TrainStart, AnEncoderWithoutItsWeightsIsRefusedBeforeDataAreRead) {
  const core::TempDir home;
  auto args = train_args("encoder", {"--tokenizer-vocab", shapes("train_shards")});
  *(std::find(args.begin(), args.end(), "--model") + 1) = "roberta-ViT-B-32";
  const ProgramResult result = run_lockstep(args, {{"HF_HOME", home.path().string()}, {"HOME", home.path().string()}});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("begins with the weights of roberta-base, as in OpenCLIP"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("`hf download FacebookAI/roberta-base`"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "encoder"));
}

TEST_F(TrainStart, ATeacherThatDoesNotFitOrIsNotHereIsRefusedBeforeAnythingIsWritten) {
  const std::string shorter = (shared_->path() / "shorter.json").string();
  core::write_file_atomic(shorter, core::replace_all(kTinyModel, "\"context_length\": 24", "\"context_length\": 16"));
  for (const auto& [teacher, problem] :
       {std::pair(shorter, "takes texts of 16 tokens"),
        std::pair((shared_->path() / "tiny.json").string(), "--distill-pretrained '/no/teacher.pt'")}) {
    const ProgramResult result =
        train("taught", {"--distill-model", teacher, "--distill-pretrained", "/no/teacher.pt"});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(problem), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(logs_.path() / "taught"));
  }
}

TEST_F(TrainStart, LogsOfEachNodeMayLieOnItsOwnDisk) {
  if (run_program({"/usr/bin/unshare", "--mount", "true"}).exit_code != 0)
    GTEST_SKIP() << "needs a name space to mount";
  const core::TempDir kept;
  const int port = Listening().port;  // free again
  const auto launch = [&](int node) {
    std::string words = "'" + lockstep_program() + "' launch --nnodes 2 --nproc-per-node 2 --node-rank " +
                        std::to_string(node) + " --rdzv-endpoint 127.0.0.1:" + std::to_string(port) + " --";
    for (const std::string& arg : train_args("local", {"--max-steps", "1", "--log-local"})) words += " '" + arg + "'";
    return words;
  };
  const std::string logs = logs_.path().string();
  const std::string second_node = "mount -t tmpfs none " + logs + " && " + launch(1) + "; code=$?; cp -r " + logs +
                                  "/local " + kept.path().string() + "; exit $code";
  const ProgramResult result = run_program(
      {"/bin/sh", "-c", "NODE=$0; unshare --mount sh -c \"$NODE\" & " + launch(0) + "; code=$?; wait $! && exit $code",
       second_node});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto names = [](const fs::path& folder) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder))
      if (core::starts_with(entry.path().filename().string(), "out")) found.push_back(entry.path().filename());
    return found;
  };
  EXPECT_EQ(names(logs_.path() / "local"), std::vector<std::string>{"out-0"});
  ASSERT_TRUE(fs::exists(kept.path() / "local")) << result.err;
  EXPECT_EQ(names(kept.path() / "local"), std::vector<std::string>{"out-2"});
  EXPECT_FALSE(fs::exists(kept.path() / "local/run.json")) << "the second node did not see the first one's folder";
}

TEST_F(TrainStart, AnEvaluationOfNothingThatWasTrainedIsRefusedOrWarnedOf) {
  std::vector<std::string> args = train_args("typo", {"--val-data", shapes("val_shards")});
  const auto at = std::find(args.begin(), args.end(), "--train-data");
  args.erase(at, at + 2);
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return run_lockstep(more);
  };
  const ProgramResult refused = with({"--resume", "latest"});
  EXPECT_EQ(refused.exit_code, 5) << refused.err;
  EXPECT_NE(refused.err.find("typo/checkpoints' holds no checkpoint"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "typo"));
  const fs::path begun = logs_.path() / "typo/checkpoints/step-00000001.a1";  // a save that was cut off
  fs::create_directories(begun);
  EXPECT_EQ(with({"--resume", "latest"}).exit_code, 5);
  fs::remove_all(logs_.path() / "typo");
  const ProgramResult random = with({});
  EXPECT_EQ(random.exit_code, 0) << random.err;
  EXPECT_NE(random.err.find("what is evaluated was never trained"), std::string::npos) << random.err;
}

TEST_F(TrainStart, ARunOfOpenClipIsContinuedAndNeverWrittenOver) {
  ASSERT_EQ(train("ours", {"--epochs", "1", "--save-format", "openclip"}).exit_code, 0);
  const fs::path theirs = logs_.path() / "theirs";  // what OpenCLIP leaves
  fs::create_directories(theirs / "checkpoints");
  fs::copy_file(logs_.path() / "ours/checkpoints/epoch_1.pt", theirs / "checkpoints/epoch_1.pt");
  core::write_file_atomic(theirs / "checkpoints/epoch_0.pt", "an older one");
  core::write_file_atomic(theirs / "out.log", "their log\n");
  const ProgramResult refused = train("theirs", {});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("run 'theirs' of OpenCLIP already exists"), std::string::npos) << refused.err;
  EXPECT_EQ(core::read_file(theirs / "out.log"), "their log\n");
  const ProgramResult result = train("theirs", {"--resume", "latest"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE((result.out + result.err).find("checkpoints/epoch_1.pt"), std::string::npos) << result.err;
  EXPECT_EQ(record::read_steps(theirs).steps.front().step, record::read_steps(logs_.path() / "ours").steps.size());
  EXPECT_EQ(train("theirs", {"--resume", "latest"}).exit_code, 0) << "with checkpoints of our own beside theirs";
}

}  // namespace
}  // namespace lockstep::tests
