// A rank fails, dies or stands still while the others wait in collectives that never end: all of them end, within
// seconds, with exit codes that say why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"

namespace lockstep::tests {
namespace {

class FaultsOnAccelerator : public AcceleratorFixture {
 protected:
  /// A rank has the fault in its third step.
  std::vector<ProgramResult> run_with(const std::string& kind, int rank = 1) const {
    return run_ranks(
        2, clip_args("fault", {"--local-loss", "--gather-with-grad", "--dist-timeout", "1800"}), 2,
        {{"LOCKSTEP_FAULT", fmt::format("{} rank={} from=2", kind, rank)}, {"LOCKSTEP_RUN_FOLDER_FILE", {}}});
  }
};

TEST_F(FaultsOnAccelerator, RankThatThrows) {
  const auto ranks = run_with("throw");
  EXPECT_EQ(ranks[1].exit_code, 1) << ranks[1].err;
  expect_noticed(ranks[0], "rank 1 (pid ");
}

TEST_F(FaultsOnAccelerator, RankThatDiesWithoutAWord) {
  const auto ranks = run_with("die");
  EXPECT_EQ(ranks[1].exit_code, 128 + SIGKILL);
  expect_noticed(ranks[0], "rank 1 (pid ");
}

/// It serves the store and writes the record: the others learn of its end from their connections, and say it there.
TEST_F(FaultsOnAccelerator, RankZeroThatDiesWithoutAWord) {
  const auto ranks = run_with("die", 0);
  EXPECT_EQ(ranks[0].exit_code, 128 + SIGKILL);
  expect_noticed(ranks[1], "served by rank 0 is lost");
  const auto status = record::read_status(logs_.path() / "fault");
  EXPECT_EQ(status.first_failing_rank, 0);
  EXPECT_NE(status.message.find("is gone without a word; rank 1: comm: "), std::string::npos) << status.message;
}

}  // namespace
}  // namespace lockstep::tests
