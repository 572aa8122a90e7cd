#include <gtest/gtest.h>

#include <map>

#include "core/rng.h"
#include "models/contrastive_task.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"
#include "support/tiny_towers.h"
#include "tasks/contrastive/engine/contrastive_cache_step.h"

namespace lockstep::tasks {
namespace {

using comm::Comm;
using models::Batch;
using tests::expect_close;
using tests::run_ranks;
using tests::TinyTowers;

constexpr double kFp32 = 1e-5;   // logits of about 14 carry fp32 errors of 1e-6, and so do their exponentials
constexpr double kScale = 1e-4;  // the gradient of logit_scale is a sum of terms that mostly cancel
constexpr uint64_t kStepKey = 17;

/// Pairs [first, first + count) of one endless set.
Batch pairs(int64_t first, int64_t count) {
  Batch batch;
  const auto index = at::arange(first * 12, (first + count) * 12, at::kFloat);
  batch.image_BCYX = at::sin(index * 0.37 + at::cos(index)).reshape({count, 3, 2, 2});
  batch.text_BT = at::arange(first * 3, (first + count) * 3, at::kLong)
                      .pow(2)
                      .add(first)
                      .remainder(TinyTowers::kVocabulary)
                      .reshape({count, 3});
  batch.num_samples = count;
  return batch;
}

struct Layout {
  int num_ranks, num_micro_batches;
  int64_t pairs_per_micro;
  Batch batch(int rank, int micro) const {
    return pairs((rank * num_micro_batches + micro) * pairs_per_micro, pairs_per_micro);
  }
};

struct Reference {
  double loss;
  std::map<std::string, at::Tensor> gradients;
};

/// Plain autograd on one rank over all pairs at once and the whole logit matrix; no loss function, runner or GradSync
/// of ours.
Reference plain_autograd(const Layout& layout, bool drops_features) {
  TinyTowers towers(drops_features);
  std::vector<at::Tensor> images, texts;
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, {1}, true); };
  for (int rank = 0; rank < layout.num_ranks; ++rank)
    for (int micro = 0; micro < layout.num_micro_batches; ++micro) {
      const auto batch = layout.batch(rank, micro);
      towers.set_context(
          {.random_key = core::stream_key({kStepKey, static_cast<uint64_t>(rank), static_cast<uint64_t>(micro)})});
      images.push_back(unit(towers.encode_image(batch.image_BCYX)));
      texts.push_back(unit(towers.encode_text(batch.text_BT)));
    }
  const auto logits = towers.logit_scale().exp() * at::cat(images).matmul(at::cat(texts).t());
  const auto target = at::arange(logits.size(0), at::kLong);
  const auto loss = 0.5 * (at::cross_entropy_loss(logits, target) + at::cross_entropy_loss(logits.t(), target));
  loss.backward();
  Reference out{loss.item<double>(), {}};
  for (const auto& [name, tensor] : towers.named_parameters()) out.gradients[name] = tensor->grad().clone();
  return out;
}

double scalar_of(const train::StepOutcome& outcome, const std::string& name) {
  for (const auto& [key, value] : outcome.scalars)
    if (key == name) return value.item<double>();
  ADD_FAILURE() << "no scalar " << name;
  return 0;
}

struct Ran {
  std::map<std::string, at::Tensor> gradients;
  train::StepOutcome outcome;
  int num_image_forwards;
  at::Tensor running_mean;
};

/// One step of the real thing on this rank.
Ran run_step(Comm& comm, const Layout& layout, bool drops_features, const optim::LossScaler* scaler = nullptr,
             int64_t bucket_bytes = 100) {
  auto owned = std::make_unique<TinyTowers>(drops_features);
  auto* towers = owned.get();
  models::ContrastiveTask task(std::move(owned), comm, {.loss = {.local_loss = true, .gather_with_grad = true}});
  const auto sync = parallel::make_grad_sync_ddp(towers->named_parameters(), comm, bucket_bytes);
  const train::Precision precision("fp32", c10::DeviceType::CPU);
  const auto runner = make_contrastive_cache_step(
      {.task = task, .sync = *sync, .precision = precision, .scaler = scaler, .data_rank = comm.rank()});
  std::vector<Batch> batches;
  for (int micro = 0; micro < layout.num_micro_batches; ++micro) batches.push_back(layout.batch(comm.rank(), micro));
  Ran out;
  out.outcome = runner->run(batches, kStepKey);
  for (const auto& [name, tensor] : towers->named_parameters()) out.gradients[name] = tensor->grad().clone();
  out.num_image_forwards = towers->num_image_forwards();
  out.running_mean = towers->running_mean();
  return out;
}

void expect_equal_to(const Ran& got, const Reference& want, double factor, const std::string& where) {
  EXPECT_NEAR(scalar_of(got.outcome, "loss"), want.loss, kFp32 * want.loss) << where;
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (const auto& [name, gradient] : want.gradients)
    expect_close(got.gradients.at(name) / factor, gradient, name == "logit_scale" ? kScale : kFp32, where + name);
}

TEST(ContrastiveCacheStep, AnyRanksAndAnyAccumulationEqualPlainAutograd) {
  for (const int num_ranks : {1, 2, 3, 4})
    for (const int num_micro_batches : {1, 2, 3}) {
      const Layout layout{num_ranks, num_micro_batches, 3};
      const auto want = plain_autograd(layout, true);
      run_ranks(num_ranks, [&](Comm& comm) {
        ASSERT_EQ(comm.size(), num_ranks);
        expect_equal_to(run_step(comm, layout, true), want, 1.0,
                        fmt::format("ranks {} micro {}: ", num_ranks, num_micro_batches));
      });
    }
}

TEST(ContrastiveCacheStep, LossScaleMultipliesEveryGradient) {
  const Layout layout{2, 2, 3};
  const auto want = plain_autograd(layout, false);
  run_ranks(2, [&](Comm& comm) {
    const optim::LossScaler scaler(at::kCPU, {.initial_scale = 64.0});
    expect_equal_to(run_step(comm, layout, false, &scaler), want, 64.0, "");
  });
}

TEST(ContrastiveCacheStep, OneLossAndOneForwardPassLessThanTwiceEach) {
  run_ranks(2, [&](Comm& comm) {
    const auto ran = run_step(comm, {2, 3, 2}, false, nullptr, 1 << 20);
    EXPECT_EQ(ran.num_image_forwards, 5);
    EXPECT_EQ(comm.count("all_gather"), 2);  // of one loss
    EXPECT_EQ(comm.count("all_reduce"), 1);  // of one bucket
    EXPECT_EQ(ran.outcome.num_samples, 6);
  });
}

TEST(ContrastiveCacheStep, CachePassLeavesRunningStatisticsAlone) {
  Comm alone;
  const Layout layout{1, 3, 2};
  const auto ran = run_step(alone, layout, false);
  TinyTowers plain;
  for (int micro = 0; micro < 3; ++micro) plain.encode_image(layout.batch(0, micro).image_BCYX);  // each once, in order
  EXPECT_TRUE(ran.running_mean.equal(plain.running_mean()));
}

TEST(ContrastiveCacheStep, OneMoreTimeOverGloo) {
  const Layout layout{2, 2, 3};
  const auto want = plain_autograd(layout, true);
  run_ranks(
      2, [&](Comm& comm) { expect_equal_to(run_step(comm, layout, true), want, 1.0, ""); },
      tests::ThreadBackend::kGloo);
}

TEST(PlainStep, OneMicroBatchEqualsPlainAutogradAndMoreAverage) {
  const Layout layout{2, 1, 4};
  const auto want = plain_autograd(layout, false);
  run_ranks(2, [&](Comm& comm) {
    for (const int repeat : {1, 3}) {  // the same micro-batch again and again: the mean is that of one
      auto owned = std::make_unique<TinyTowers>();
      auto* towers = owned.get();
      models::ContrastiveTask task(std::move(owned), comm, {});
      const auto sync = parallel::make_grad_sync_ddp(towers->named_parameters(), comm, 200);
      const train::Precision precision("fp32", c10::DeviceType::CPU);
      const auto runner =
          train::make_plain_step({.task = task, .sync = *sync, .precision = precision, .data_rank = comm.rank()});
      std::vector<Batch> batches(static_cast<size_t>(repeat), layout.batch(comm.rank(), 0));
      Ran got;
      got.outcome = runner->run(batches, kStepKey);
      for (const auto& [name, tensor] : towers->named_parameters()) got.gradients[name] = tensor->grad().clone();
      expect_equal_to(got, want, 1.0, fmt::format("micro-batches {}: ", repeat));
      EXPECT_NEAR(scalar_of(got.outcome, "logit_scale"), 1 / 0.07, 1e-4);
      EXPECT_EQ(got.outcome.num_samples, 4 * repeat);
    }
  });
}

}  // namespace
}  // namespace lockstep::tasks
