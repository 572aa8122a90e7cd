// A run on two nodes, each with a launcher of its own, that loses a rank: how the launchers end, and what the ranks
// that are left and the record say.
#include <fmt/format.h>

#include "commands/train_fixture.h"
#include "commands/two_nodes.h"
#include "support/error_text.h"

namespace lockstep::tests {
namespace {

constexpr int kRanksPerNode = 2, kKilledCode = 137, kLostPeerCode = 3;

/// Rank GetParam() is killed by SIGKILL in its fourth step.
class TrainNodes : public TrainFixture, public ::testing::WithParamInterface<int> {};

TEST_P(TrainNodes, ALostRankIsNamedOnTheOtherNode) {
  const int lost = GetParam(), node = lost / kRanksPerNode;
  const auto [first, second] = launch_on_two_nodes(train_args("lost"), kRanksPerNode,
                                                   {{"LOCKSTEP_FAULT", fmt::format("die rank={} from=3", lost)}});
  const ProgramResult& here = node == 0 ? first : second;
  const ProgramResult& elsewhere = node == 0 ? second : first;
  EXPECT_FALSE(first.timed_out || second.timed_out);

  EXPECT_EQ(here.exit_code, kKilledCode) << here.err;
  EXPECT_TRUE(holds(here.err, fmt::format("rank {} on ", lost))) << here.err;
  EXPECT_TRUE(holds(here.err, "failed first: ")) << here.err;

  EXPECT_EQ(elsewhere.exit_code, kLostPeerCode) << elsewhere.err;
  EXPECT_TRUE(holds(elsewhere.err, "was the first here to lose another rank")) << elsewhere.err;
  EXPECT_TRUE(holds(elsewhere.err, fmt::format("rank {} (pid ", lost)) ||
              holds(elsewhere.err, fmt::format("served by rank {} ", lost)))  // does not answer, or is lost
      << elsewhere.err;

  const auto status = record::read_status(logs_.path() / "lost");
  EXPECT_EQ(status.state, "failed");
  EXPECT_EQ(status.first_failing_rank, lost);
  EXPECT_EQ(losses("lost").size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Of, TrainNodes, ::testing::Values(0, 3));  // rank 0 serves the store

}  // namespace
}  // namespace lockstep::tests
