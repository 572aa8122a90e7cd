#include "config/best_checkpoints.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lockstep::config {
namespace {

using Names = std::vector<std::string>;

const Names kMetrics = {"image_to_text_mean_rank", "image_to_text_R@1",         "image_to_text_R@10",
                        "text_to_image_mean_rank", "text_to_image_R@1",         "text_to_image_R@10",
                        "clip_val_loss",           "imagenet-zeroshot-val-top1"};

BestCheckpoints meant(const std::string& metric, const std::string& data = "all") {
  return best_checkpoints({.num_best = 1, .data = data, .metric = metric}, kMetrics);
}

std::string refusal(const BestCheckpointOptions& options, const Names& metrics = kMetrics) {
  BestCheckpointOptions declared;
  core::OptionSet none_given("train", "");
  declare_best_checkpoints(none_given, declared);
  return tests::message_of([&] { check_best_checkpoints(options, metrics, none_given); });
}

TEST(BestCheckpoints, MetricsAreMeantByTheEndsOfTheirNames) {
  EXPECT_EQ(meant("_R@10").metrics, (Names{"image_to_text_R@10", "text_to_image_R@10"}));
  EXPECT_EQ(meant("R@1").metrics, (Names{"image_to_text_R@1", "text_to_image_R@1"})) << "not R@10";
  EXPECT_EQ(meant("text_to_image_R@1").metrics, Names{"text_to_image_R@1"});
  EXPECT_EQ(meant("zeroshot").metrics, Names{"imagenet-zeroshot-val-top1"}) << "in the middle, where none ends with it";
  EXPECT_EQ(meant("R@10", "text_to").metrics, Names{"text_to_image_R@10"});
  EXPECT_FALSE(meant("R@10").is_smaller_better);
  EXPECT_TRUE(meant("mean_rank").is_smaller_better);
  EXPECT_TRUE(meant("val_loss").is_smaller_better);
  EXPECT_TRUE(best_checkpoints({}, kMetrics).metrics.empty()) << "off by default";
}

TEST(BestCheckpoints, ANameMeansItsMetricAlone) {
  const Names with_averages = {"top1_pct", "loss", "ema_top1_pct", "ema_loss"};
  for (const std::string& name : with_averages)
    EXPECT_EQ(best_checkpoints({.num_best = 1, .metric = name}, with_averages).metrics, Names{name});
}

TEST(BestCheckpoints, WhatCannotRankIsRefused) {
  EXPECT_EQ(refusal({}), "no error");
  EXPECT_EQ(refusal({.num_best = 3}), "no error");
  EXPECT_TRUE(tests::holds(refusal({.num_best = 3}, {}), "this run has none"));
  const std::string strange = refusal({.num_best = 3, .data = "Clotho-test", .metric = "mAP@10"});
  EXPECT_TRUE(tests::holds(strange, "'mAP@10' of data 'Clotho-test'; it has image_to_text_mean_rank, ")) << strange;
  EXPECT_TRUE(tests::holds(strange, "--top-k-checkpoint-select-dataset all takes")) << strange;
  const std::string unknown = refusal({.num_best = 3, .metric = "mAP@10"});
  EXPECT_TRUE(tests::holds(unknown, "name one of them: --top-k-checkpoint-select-metric image_to_text_mean_rank"))
      << unknown;
  const std::string mixed = refusal({.num_best = 3, .metric = "image_to_text"});
  EXPECT_TRUE(tests::holds(mixed, "of which some are best where they are lowest")) << mixed;
}

TEST(BestCheckpoints, WhatRanksBelongsToTheNumberOfThem) {
  BestCheckpointOptions options;
  core::OptionSet set("train", "");
  declare_best_checkpoints(set, options);
  set.parse(Names{"--top-k-checkpoint-select-metric", "R@1"});
  const std::string said = tests::message_of([&] { check_best_checkpoints(options, kMetrics, set); });
  EXPECT_TRUE(tests::holds(said, "--top-k-checkpoint-select-metric belongs to --save-top-performance")) << said;
}

}  // namespace
}  // namespace lockstep::config
