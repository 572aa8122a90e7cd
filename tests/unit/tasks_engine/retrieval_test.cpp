#include "tasks/contrastive/engine/retrieval.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/guarded_products.h"
#include "support/ranks/run_ranks.h"

namespace lockstep::tasks {
namespace {

at::Tensor unit_rows(int64_t rows, int64_t columns, uint64_t seed) {
  const auto x = at::randn({rows, columns}, at::make_generator<at::CPUGeneratorImpl>(seed));
  return x / x.norm(2, {1}, true);
}

TEST(Retrieval, RanksEqualASortedSearchWhateverTheChunk) {
  comm::Comm alone;
  const auto rows = unit_rows(37, 5, 1), columns = unit_rows(37, 5, 2);
  const auto order = std::get<1>(rows.matmul(columns.t()).sort(/*stable=*/true, 1, /*descending=*/true));
  std::vector<int64_t> want;
  for (int64_t row = 0; row < 37; ++row) want.push_back(order[row].eq(row).nonzero().item<int64_t>());
  for (const int64_t chunk : {1, 2, 10, 37, 100}) EXPECT_EQ(matching_ranks(rows, columns, alone, chunk), want) << chunk;
}

/// With 10 bits behind the point places would be exchanged.
TEST(Retrieval, SimilaritiesAreNotRoundedToTf32) {
  comm::Comm alone;
  const auto rows = unit_rows(9, 4, 1), columns = unit_rows(9, 4, 2);
  const auto of_ranks = tests::counted_products([&] { matching_ranks(rows, columns, alone, 3); });
  EXPECT_EQ(of_ranks.num_all, 3);
  EXPECT_EQ(of_ranks.num_in_fp32, 3);
  const auto of_loss = tests::counted_products([&] { batched_contrastive_loss(rows, columns, 20.0, 3, alone); });
  EXPECT_EQ(of_loss.num_all, 3);
  EXPECT_EQ(of_loss.num_in_fp32, 3);
  EXPECT_EQ(tests::counted_products([&] { rows.matmul(columns.t()); }).num_in_fp32, 0) << "elsewhere they may be";
}

TEST(Retrieval, TiesRankByIndex) {
  comm::Comm alone;
  const auto same = at::ones({4, 2}) / std::sqrt(2.0);
  EXPECT_EQ(matching_ranks(same, same, alone), (std::vector<int64_t>{0, 1, 2, 3}));
}

/// Whoever shares: each metric is that of one rank, and each rank computed only its part.
TEST(Retrieval, SharedOutMetricsAreThoseOfOneRank) {
  const auto image = unit_rows(23, 6, 5), text = unit_rows(23, 6, 6);
  comm::Comm alone;
  const auto want = retrieval_metrics("image", image, text, alone);
  const double want_loss = batched_contrastive_loss(image, text, 20.0, 4, alone);
  for (const int num_ranks : {2, 3, 5})
    tests::run_ranks(num_ranks, [&](comm::Comm& ranks) {
      if (ranks.size() != num_ranks) throw std::runtime_error("wrong world size");
      at::Tensor own = image.clone(), others = text.clone();
      const int64_t share = (23 + num_ranks - 1) / num_ranks, begin = share * ranks.rank();
      EXPECT_EQ(retrieval_metrics("image", own, others, ranks), want);
      EXPECT_NEAR(batched_contrastive_loss(own, others, 20.0, 4, ranks), want_loss, 1e-12);
      // Rows of others are theirs: nonsense in them here changes no rank of theirs.
      const at::Tensor rows = at::full_like(own, std::nan(""));
      const int64_t count = std::max<int64_t>(0, std::min<int64_t>(share, 23 - begin));
      if (count > 0) rows.narrow(0, begin, count).copy_(own.narrow(0, begin, count));
      EXPECT_EQ(matching_ranks(rows, others, ranks), matching_ranks(image, text, alone));
    });
}

TEST(Retrieval, MetricsOfKnownRanks) {
  const train::Metrics metrics = rank_metrics("x", {0, 0, 3, 7, 20, 1});
  const std::map<std::string, double> by_name(metrics.begin(), metrics.end());
  EXPECT_DOUBLE_EQ(by_name.at("x_mean_rank"), 31.0 / 6 + 1);
  EXPECT_DOUBLE_EQ(by_name.at("x_median_rank"), 3);  // median of the ranks is 2, floor(2) + 1
  EXPECT_DOUBLE_EQ(by_name.at("x_R@1"), 2.0 / 6);
  EXPECT_DOUBLE_EQ(by_name.at("x_R@5"), 4.0 / 6);
  EXPECT_DOUBLE_EQ(by_name.at("x_R@10"), 5.0 / 6);
}

TEST(Retrieval, MeanAveragePrecisionCountsTheFirstTenPlaces) {
  EXPECT_DOUBLE_EQ(mean_average_precision_at_10({0, 1, 9, 10, 300}), (1.0 + 1.0 / 2 + 1.0 / 10) / 5);
}

TEST(Retrieval, SoundsHaveTheirOwnNamesAndTheMeanAveragePrecision) {
  comm::Comm alone;
  const auto names_of = [&](const std::string& kind) {
    std::vector<std::string> names;
    for (const auto& [name, value] : retrieval_metrics(kind, unit_rows(5, 3, 1), unit_rows(5, 3, 2), alone))
      names.push_back(name);
    return names;
  };
  const auto audio = names_of("audio"), image = names_of("image");
  EXPECT_EQ(std::count(audio.begin(), audio.end(), "audio_to_text_mAP@10"), 1);
  EXPECT_EQ(std::count(audio.begin(), audio.end(), "text_to_audio_R@1"), 1);
  EXPECT_EQ(audio.size(), 12u);
  EXPECT_EQ(image.size(), 10u);  // OpenCLIP's list
}

TEST(Retrieval, BatchedLossIsTheMeanOverPairs) {
  comm::Comm alone;
  const auto image = unit_rows(10, 4, 3), text = unit_rows(10, 4, 4);
  const auto loss_of = [&](int64_t first, int64_t count) {
    return batched_contrastive_loss(image.narrow(0, first, count), text.narrow(0, first, count), 20.0, count, alone);
  };
  EXPECT_NEAR(batched_contrastive_loss(image, text, 20.0, 4, alone),
              (4 * loss_of(0, 4) + 4 * loss_of(4, 4) + 2 * loss_of(8, 2)) / 10, 1e-6);
  EXPECT_GT(std::abs(batched_contrastive_loss(image, text, 20.0, 10, alone) -
                     batched_contrastive_loss(image, text, 20.0, 4, alone)),
            1e-3);
}

}  // namespace
}  // namespace lockstep::tasks
