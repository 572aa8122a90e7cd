#include "checkpoint/ranking.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::checkpoint {
namespace {

const RankingRule kBestTwo{.metrics = {"R@10"}, .num_best = 2};
using Names = std::vector<std::string>;

Names names(const Ranking& ranking) {
  Names out;
  for (const RankedCheckpoint& entry : ranking.entries) out.push_back(entry.name);
  return out;
}

TEST(Ranking, TheBestComeFirstAndOfEqualOnesTheEarlier) {
  Ranking ranking;
  EXPECT_EQ(ranking.enter({.name = "a", .value = 0.5}, kBestTwo), 1);
  EXPECT_EQ(ranking.enter({.name = "b", .value = 0.7}, kBestTwo), 1);
  EXPECT_EQ(ranking.enter({.name = "c", .value = 0.5}, kBestTwo), 0) << "no better than the last of them";
  EXPECT_EQ(ranking.enter({.name = "d", .value = 0.6}, kBestTwo), 2);
  EXPECT_EQ(names(ranking), (Names{"b", "d", "a", "c"}));
  EXPECT_EQ(ranking.enter({.name = "b", .value = 0.1}, kBestTwo), 0) << "evaluated again";
  EXPECT_EQ(names(ranking), (Names{"d", "a", "c", "b"}));
}

TEST(Ranking, LossesAreBestWhereTheyAreLowest) {
  Ranking ranking;
  const RankingRule rule{.metrics = {"loss"}, .is_smaller_better = true, .num_best = 2};
  for (const auto& [name, value] : {std::pair("a", 2.0), {"b", 1.0}, {"c", 3.0}})
    ranking.enter({.name = name, .value = value}, rule);
  EXPECT_EQ(names(ranking), (Names{"b", "a", "c"}));
}

TEST(Ranking, TheBestAreThoseThatAreThere) {
  Ranking ranking;
  for (const auto& [name, value] : {std::pair("a", 1.0), {"b", 2.0}, {"c", 3.0}, {"d", 0.0}})
    ranking.enter({.name = name, .value = value}, kBestTwo);
  EXPECT_EQ(ranking.best_of({"a", "b", "c", "d"}), (Names{"c", "b"}));
  EXPECT_EQ(ranking.best_of({"a", "b", "d"}), (Names{"b", "a"})) << "c is still on its way, or was never saved";
  EXPECT_EQ(ranking.best_of({"e"}), Names{});
}

TEST(Ranking, WhatIsSavedForItsRankAloneIsKnownAsThat) {
  Ranking ranking;
  ranking.enter({.name = "a", .value = 1, .is_extra = true}, kBestTwo);
  ranking.enter({.name = "b", .value = 2, .is_extra = false}, kBestTwo);
  EXPECT_EQ(ranking.enter({.name = "not-saved", .value = 0, .is_extra = true}, kBestTwo), 0);
  EXPECT_EQ(names(ranking), (Names{"b", "a"}));
  ranking.enter({.name = "a", .value = 3}, kBestTwo);
  EXPECT_TRUE(ranking.is_extra("a")) << "also where a resumed run evaluates it again";
  EXPECT_FALSE(ranking.is_extra("b"));
}

TEST(Ranking, ValuesOfOtherMetricsRankLast) {
  Ranking ranking;
  ranking.enter({.name = "a", .value = 1}, kBestTwo);
  ranking.enter({.name = "b", .value = 2}, kBestTwo);
  EXPECT_EQ(ranking.enter({.name = "c", .value = -1}, {.metrics = {"R@1"}, .num_best = 1}), 1);
  EXPECT_EQ(names(ranking), (Names{"c", "b", "a"}));
  EXPECT_EQ(ranking.best_of({"a", "b"}), Names{"b"}) << "until one of the new metric is there";
  EXPECT_EQ(ranking.best_of({"a", "b", "c"}), Names{"c"});
}

TEST(Ranking, AFileKeepsIt) {
  const core::TempDir dir;
  std::filesystem::create_directories(dir.path() / "checkpoints");
  EXPECT_TRUE(read_ranking(dir.path()).entries.empty());
  Ranking ranking{.metrics = {"R@1"}, .num_best = 0, .entries = {{.name = "z", .epoch = 3}}};
  ranking.enter({.name = "a", .epoch = 1, .value = 0.25, .is_extra = true}, kBestTwo);
  ranking.enter({.name = "b", .epoch = 2, .value = 0.5}, kBestTwo);
  write_ranking(dir.path(), ranking);
  const Ranking read = read_ranking(dir.path());
  EXPECT_EQ(read.metrics, ranking.metrics);
  EXPECT_EQ(read.num_best, 2);
  EXPECT_EQ(names(read), (Names{"b", "a", "z"}));
  EXPECT_EQ(read.entries[1].value, 0.25);
  EXPECT_EQ(read.entries[1].epoch, 1);
  EXPECT_TRUE(read.entries[1].is_extra);
  EXPECT_FALSE(read.entries[2].value.has_value());
  const std::string head = "{\"metrics\": [], \"others\": [], \"num_best\": ";
  for (const std::string& text :
       {std::string("[]"), std::string("{\"metrics\": 3}"), head + "1, \"best\": [{}]}", head + "-1, \"best\": []}",
        head + "18446744073709551615, \"best\": []}", head + "1.5, \"best\": []}", std::string("nothing")}) {
    core::write_file_atomic(dir.path() / "checkpoints" / "best.json", text);
    EXPECT_THROW(read_ranking(dir.path()), DataError) << text;
  }
  core::write_file_atomic(dir.path() / "checkpoints" / "best.json", head + "1, \"best\": []}");
  EXPECT_EQ(read_ranking(dir.path()).num_best, 1);
  set_aside_damaged_ranking(dir.path());
  EXPECT_EQ(read_ranking(dir.path()).num_best, 1) << "it is whole";
  EXPECT_FALSE(has_damaged_ranking(dir.path()));
  core::write_file_atomic(dir.path() / "checkpoints" / "best.json", "{\"metrics");
  set_aside_damaged_ranking(dir.path());
  EXPECT_TRUE(read_ranking(dir.path()).metrics.empty());
  EXPECT_TRUE(has_damaged_ranking(dir.path()));
  EXPECT_EQ(core::read_file(dir.path() / "checkpoints" / "best.json.damaged"), "{\"metrics");
}

}  // namespace
}  // namespace lockstep::checkpoint
