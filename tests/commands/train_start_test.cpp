// Ranks that were not started alike are refused by the run itself.
#include "commands/train_fixture.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

class TrainStart : public TrainFixture {
 protected:
  /// Two ranks of `script`, where "$@" are the arguments of a training.
  ProgramResult start(const std::string& script) const {
    std::vector<std::string> args{"launch", "--nproc-per-node", "2", "--program", "/bin/sh", "--", "-c", script, "sh"};
    for (const std::string& arg : train_args("start", {"--max-steps", "1"})) args.push_back(arg);
    return run_lockstep(args, {}, std::chrono::seconds(180));
  }
};

TEST_F(TrainStart, OtherOptionsAreRefusedWithBothValuesAndTheRank) {
  const ProgramResult result = start("[ $RANK = 1 ] && set -- \"$@\" --lr 0.5; exec '" + lockstep_program() +
                                     "' \"$@\" --threads $((RANK + 1))");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("--lr is 0.001 on rank 0 and 0.5 on rank 1"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "start"));
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

}  // namespace
}  // namespace lockstep::tests
