// A rank fails, dies or stands still while the others wait in collectives that never end: all of them end, within
// seconds, with exit codes that say why.
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"

namespace lockstep::tests {
namespace {

class FaultsOnAccelerator : public AcceleratorFixture {
 protected:
  /// Rank 1 has the fault in its third step.
  std::vector<ProgramResult> run_with(const std::string& kind) const {
    return run_ranks(
        2, on_any_device(train_args("fault", {"--local-loss", "--gather-with-grad", "--dist-timeout", "1800"})), 2,
        {{"LOCKSTEP_FAULT", kind + " rank=1 from=2"}});
  }
  void expect_noticed(const ProgramResult& survivor, const char* text) const {
    EXPECT_FALSE(survivor.timed_out);
    EXPECT_EQ(survivor.exit_code, 3) << survivor.err;
    EXPECT_NE(survivor.err.find(text), std::string::npos) << survivor.err;
    EXPECT_EQ(record::read_status(logs_.path() / "fault").state, "failed");
  }
};

TEST_F(FaultsOnAccelerator, RankThatThrows) {
  const auto ranks = run_with("throw");
  EXPECT_EQ(ranks[1].exit_code, 1) << ranks[1].err;
  expect_noticed(ranks[0], "rank 1");
}

TEST_F(FaultsOnAccelerator, RankThatDiesWithoutAWord) {
  const auto ranks = run_with("die");
  EXPECT_EQ(ranks[1].exit_code, 128 + SIGKILL);
  expect_noticed(ranks[0], "rank 1");
}

}  // namespace
}  // namespace lockstep::tests
