#include "comm/join_notice.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

TEST(JoinNotice, RanksAreNamedInRunsAndByNode) {
  EXPECT_EQ(ranks_text({1}, 0), "rank 1");
  EXPECT_EQ(ranks_text({1}, 1), "rank 1 (node 1)");
  EXPECT_EQ(ranks_text({2, 3, 6}, 0), "ranks 2-3,6");
  EXPECT_EQ(ranks_text({4, 5, 6, 7}, 4), "ranks 4-7 (node 1)");
  EXPECT_EQ(ranks_text({4, 5, 6, 7, 12, 13, 14, 15}, 4), "ranks 4-7,12-15 (nodes 1,3)");
  EXPECT_EQ(ranks_text({4, 5, 6}, 4), "ranks 4-6") << "one rank of the node is here";
  EXPECT_EQ(ranks_text({6, 7, 8, 9}, 4), "ranks 6-9") << "halves of two nodes";
  std::vector<int> odd;
  for (int rank = 1; rank < 40; rank += 2) odd.push_back(rank);
  EXPECT_EQ(ranks_text(odd, 0), "ranks 1,3,5,7,9,11,13,15 and 12 more");
}

TEST(JoinNotice, TimesAreTheFirstAndThenTheDistance) {
  NoticeClock clock({.first = milliseconds(0), .distance = std::chrono::hours(1)});
  EXPECT_TRUE(clock.is_due());
  EXPECT_EQ(clock.left(), milliseconds(1));
  clock.told();
  EXPECT_FALSE(clock.is_due());
  EXPECT_GT(clock.left(), std::chrono::minutes(59));
  EXPECT_EQ(NoticeTimes{}.first, std::chrono::seconds(5));
}

}  // namespace
}  // namespace lockstep::comm
