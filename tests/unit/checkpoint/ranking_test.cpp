#include "checkpoint/ranking.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::checkpoint {
namespace {

const RankingRule kBestTwo{.metrics = {"R@10"}, .num_best = 2};

std::vector<std::string> names(const Ranking& ranking) {
  std::vector<std::string> out;
  for (const RankedCheckpoint& entry : ranking.best) out.push_back(entry.name);
  return out;
}

TEST(Ranking, TheBestComeFirstAndOfEqualOnesTheEarlier) {
  Ranking ranking;
  EXPECT_EQ(ranking.enter({.name = "a", .value = 0.5}, kBestTwo), 1);
  EXPECT_EQ(ranking.enter({.name = "b", .value = 0.7}, kBestTwo), 1);
  EXPECT_EQ(ranking.enter({.name = "c", .value = 0.5}, kBestTwo), 0) << "no better than the last of them";
  EXPECT_EQ(names(ranking), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(ranking.enter({.name = "d", .value = 0.6}, kBestTwo), 2);
  EXPECT_EQ(names(ranking), (std::vector<std::string>{"b", "d"}));
  EXPECT_TRUE(ranking.is_best("d"));
  EXPECT_FALSE(ranking.is_best("a"));
  EXPECT_TRUE(ranking.superfluous.empty()) << "what was saved anyway is not the ranking's to remove";
}

TEST(Ranking, LossesAreBestWhereTheyAreLowest) {
  Ranking ranking;
  const RankingRule rule{.metrics = {"loss"}, .is_smaller_better = true, .num_best = 2};
  for (const auto& [name, value] : {std::pair("a", 2.0), {"b", 1.0}, {"c", 3.0}})
    ranking.enter({.name = name, .value = value}, rule);
  EXPECT_EQ(names(ranking), (std::vector<std::string>{"b", "a"}));
}

TEST(Ranking, WhatWasSavedForItsRankAloneIsSuperfluousWithoutIt) {
  Ranking ranking;
  ranking.enter({.name = "a", .value = 1, .is_extra = true}, kBestTwo);
  ranking.enter({.name = "b", .value = 2, .is_extra = false}, kBestTwo);
  EXPECT_EQ(ranking.enter({.name = "never-saved", .value = 0, .is_extra = true}, kBestTwo), 0);
  EXPECT_TRUE(ranking.superfluous.empty());
  ranking.enter({.name = "c", .value = 3, .is_extra = true}, kBestTwo);
  EXPECT_EQ(ranking.superfluous, std::vector<std::string>{"a"});
  EXPECT_TRUE(ranking.is_superfluous("a"));
}

TEST(Ranking, OtherMetricsAndFewerPlacesBeginAnew) {
  Ranking ranking;
  ranking.enter({.name = "a", .value = 1, .is_extra = true}, kBestTwo);
  ranking.enter({.name = "b", .value = 2, .is_extra = true}, kBestTwo);
  EXPECT_EQ(ranking.enter({.name = "c", .value = 3}, {.metrics = {"R@10"}, .num_best = 1}), 1);
  EXPECT_EQ(ranking.superfluous, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ranking.enter({.name = "d", .value = -1}, {.metrics = {"R@1"}, .num_best = 1}), 1)
      << "values of another metric say nothing";
  EXPECT_EQ(names(ranking), std::vector<std::string>{"d"});
}

TEST(Ranking, CheckpointsThatAreNotThereAreForgotten) {
  Ranking ranking;
  ranking.enter({.name = "a", .value = 1, .is_extra = true}, kBestTwo);
  ranking.enter({.name = "b", .value = 2}, kBestTwo);
  ranking.enter({.name = "c", .value = 3}, kBestTwo);
  ranking.keep_only({"c"});
  EXPECT_EQ(names(ranking), std::vector<std::string>{"c"});
  EXPECT_TRUE(ranking.superfluous.empty());
}

TEST(Ranking, AFileKeepsIt) {
  const core::TempDir dir;
  std::filesystem::create_directories(dir.path() / "checkpoints");
  EXPECT_TRUE(read_ranking(dir.path()).best.empty());
  Ranking ranking;
  ranking.enter({.name = "a", .epoch = 1, .value = 0.25, .is_extra = true}, kBestTwo);
  ranking.enter({.name = "b", .epoch = 2, .value = 0.5}, kBestTwo);
  ranking.superfluous = {"z"};
  write_ranking(dir.path(), ranking);
  const Ranking read = read_ranking(dir.path());
  EXPECT_EQ(read.metrics, ranking.metrics);
  EXPECT_EQ(names(read), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(read.best[1].value, 0.25);
  EXPECT_EQ(read.best[1].epoch, 1);
  EXPECT_TRUE(read.best[1].is_extra);
  EXPECT_EQ(read.superfluous, ranking.superfluous);
  for (const char* text :
       {"[]", "{\"metrics\": 3}", "{\"metrics\": [], \"superfluous\": [], \"best\": [{}]}", "nothing"}) {
    core::write_file_atomic(dir.path() / "checkpoints" / "best.json", text);
    EXPECT_THROW(read_ranking(dir.path()), DataError) << text;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
