#include "models/contrastive_task.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"
#include "support/tiny_towers.h"

namespace lockstep::models {
namespace {

using tests::TinyTowers;

Batch tiny_batch(int64_t num_pairs) {
  Batch batch;
  batch.image_BCYX = at::sin(at::arange(num_pairs * 12, at::kFloat)).reshape({num_pairs, 3, 2, 2});
  batch.text_BT = at::arange(num_pairs * 3, at::kLong).remainder(TinyTowers::kVocabulary).reshape({num_pairs, 3});
  batch.num_samples = num_pairs;
  return batch;
}

TEST(ContrastiveTask, ForwardNormalisesAndExponentiates) {
  comm::Comm alone;
  ContrastiveTask task(std::make_unique<TinyTowers>(), alone, {});
  const auto outputs = task.forward(tiny_batch(5));
  tests::expect_close(outputs.image_BE.norm(2, {1}).sum(), at::full({}, 5.0), 1e-6, "image norms");
  tests::expect_close(outputs.text_BE.norm(2, {1}).sum(), at::full({}, 5.0), 1e-6, "text norms");
  EXPECT_NEAR(outputs.logit_scale.item<double>(), 1 / 0.07, 1e-4);
}

TEST(ContrastiveTask, NormalisationIsFp32AndSurvivesAZeroRow) {
  const auto out = normalise_rows(at::zeros({2, 4}, at::kBFloat16));
  EXPECT_EQ(out.scalar_type(), at::kFloat);
  EXPECT_TRUE(out.equal(at::zeros({2, 4})));
}

TEST(ContrastiveTask, ContextReachesTheNetwork) {
  comm::Comm alone;
  auto owned = std::make_unique<TinyTowers>();
  auto* towers = owned.get();
  ContrastiveTask task(std::move(owned), alone, {});
  auto batch = tiny_batch(5);
  batch.context = {.random_key = 77, .updates_statistics = false};
  task.forward(batch);
  EXPECT_EQ(towers->last_context().random_key, 77u);
  EXPECT_FALSE(towers->last_context().updates_statistics);
}

TEST(ContrastiveTask, ReportsOnePartThatIsTheGlobalMean) {
  tests::run_ranks(2, [&](comm::Comm& comm) {
    ContrastiveTask task(std::make_unique<TinyTowers>(), comm, {});
    const auto report = task.loss(task.forward(tiny_batch(4)));
    ASSERT_EQ(report.parts.size(), 1u);
    EXPECT_EQ(report.parts[0].first, "contrastive_loss");
    EXPECT_FALSE(report.parts[0].second.requires_grad());
    EXPECT_TRUE(report.loss.requires_grad());
  });
}

TEST(ContrastiveTask, ABatchWithoutCaptionsIsRefused) {
  comm::Comm alone;
  ContrastiveTask task(std::make_unique<TinyTowers>(), alone, {});
  auto batch = tiny_batch(4);
  batch.text_BT = at::Tensor();
  EXPECT_THROW(task.forward(batch), DataError);
}

}  // namespace
}  // namespace lockstep::models
