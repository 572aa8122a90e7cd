// Ranks started by the torchrun of the installed LibTorch wheel.
#include <algorithm>

#include "commands/train_fixture.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

class Torchrun : public TrainFixture {
 protected:
  /// Two ranks; each notes in `noted` whether torchrun serves the store.
  ProgramResult torchrun(const std::string& name, const fs::path& noted, EnvChanges changes) const {
    changes["PYTHONPATH"] = fs::path(LOCKSTEP_TORCH_FOLDER).parent_path().string();
    changes["NOTED"] = noted.string();
    std::vector<std::string> args = {"/usr/bin/env",
                                     "python3",
                                     "-m",
                                     "torch.distributed.run",
                                     "--no-python",
                                     "--nproc_per_node=2",
                                     "--rdzv-backend=c10d",
                                     "--rdzv-endpoint=localhost:0",
                                     "--",
                                     "/bin/sh",
                                     "-c",
                                     "echo $RANK $TORCHELASTIC_USE_AGENT_STORE >> \"$NOTED\"; exec \"$0\" \"$@\"",
                                     lockstep_program()};
    for (const std::string& arg : train_args(name, {"--batch-size", "4", "--max-steps", "3"})) args.push_back(arg);
    return run_program(args, changes);
  }
};

TEST_F(Torchrun, RanksMeetInTheAgentsStoreAndInTheirOwn) {
  if (!fs::exists(fs::path(LOCKSTEP_TORCH_FOLDER) / "distributed/run.py"))
    GTEST_SKIP() << "LibTorch has no Python half here";
  for (const bool has_agent_store : {true, false}) {
    SCOPED_TRACE(has_agent_store);
    const std::string name = has_agent_store ? "agent" : "own";
    const fs::path noted = logs_.path() / (name + ".txt");
    const auto switch_off = has_agent_store ? std::nullopt : std::optional<std::string>("1");
    const auto done = torchrun(name, noted, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", switch_off}});
    if (done.err.find("No module named") != std::string::npos && !fs::exists(noted))
      GTEST_SKIP() << "this Python cannot load the wheel: " << done.err;
    ASSERT_EQ(done.exit_code, 0) << done.err;
    const std::string store = has_agent_store ? "True" : "False";
    auto lines = core::split(core::trim(core::read_file(noted)), "\n");
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(lines, (std::vector<std::string>{"0 " + store, "1 " + store}));
    const auto attempt = core::read_json_file(logs_.path() / name / "run.json").at("attempts").at(0);
    EXPECT_EQ(attempt.at("world_size"), 2);
    EXPECT_EQ(attempt.at("ranks_from"), "torchrun");
  }
  ASSERT_EQ(losses("agent").size(), 3u);
  EXPECT_EQ(losses("agent"), losses("own"));
  ASSERT_EQ(train_on(2, "launched", {"--batch-size", "4", "--max-steps", "3"}).exit_code, 0);
  EXPECT_EQ(losses("agent"), losses("launched"));
}

}  // namespace
}  // namespace lockstep::tests
