#include "infer/embed_progress.h"

#include <gtest/gtest.h>

namespace lockstep::infer {
namespace {

TEST(EmbedProgress, CountsTheSamplesOfTheIndexBeforeAShardIsDone) {
  EmbedProgress progress(10);
  EXPECT_FALSE(progress.num_left());
  progress.begin({.num_samples = 100, .num_bytes = 5'000});
  EXPECT_EQ(progress.num_left(), 1000);
  progress.add(25, 3'000);
  EXPECT_EQ(progress.num_left(), 75 + 9 * 100) << "bytes do not count beside an index";
  progress.add(75, 4'900);
  progress.end();
  EXPECT_EQ(progress.num_left(), 900);
  progress.begin({.num_samples = 50, .num_bytes = 0});
  EXPECT_EQ(progress.num_left(), 50 + 8 * 75) << "as many on average";
  EXPECT_EQ(progress.num_done(), 100);
}

TEST(EmbedProgress, ExtrapolatesByTheBytesThatWereRead) {
  EmbedProgress progress(3);
  progress.begin({.num_samples = {}, .num_bytes = 1'000});
  EXPECT_FALSE(progress.num_left());
  progress.add(1, 0);
  EXPECT_FALSE(progress.num_left()) << "of one sample alone nothing was passed";
  progress.add(4, 400);
  EXPECT_EQ(progress.num_left(), 5 + 2 * 10) << "the fifth of ten begins at 400";
  progress.add(5, 900);
  progress.end();
  EXPECT_EQ(progress.num_left(), 20);
}

TEST(EmbedProgress, OfStreamsWholeShardsAloneTell) {
  EmbedProgress progress(4);
  progress.begin({});
  progress.add(6, 3'000);
  EXPECT_FALSE(progress.num_left());
  progress.end();
  progress.begin({});
  progress.add(2, 1'000);
  EXPECT_EQ(progress.num_left(), 4 + 2 * 6);
  progress.add(9, 9'000);
  EXPECT_EQ(progress.num_left(), 2 * 6) << "more than the shard before";
}

TEST(EmbedProgress, ShardsThatCannotBeReadTakeNoTime) {
  EmbedProgress progress(3);
  progress.begin({.num_samples = {}, .num_bytes = 1'000});
  progress.end();
  EXPECT_FALSE(progress.num_left());
  progress.begin({.num_samples = 8, .num_bytes = 1'000});
  progress.add(8, 900);
  progress.end();
  EXPECT_EQ(progress.num_left(), 4);
}

}  // namespace
}  // namespace lockstep::infer
