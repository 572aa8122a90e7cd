// Training steps and evaluation of a classifier: several ranks against one with the same global batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>

#include "core/error.h"
#include "support/drawn_weights.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"
#include "tasks/imagenet/engine/imagenet_evaluation.h"
#include "tasks/imagenet/engine/imagenet_training.h"

namespace lockstep::tasks {
namespace {

using comm::Comm;

constexpr int64_t kPictures = 8, kClasses = 7, kPixels = 32;
constexpr int kTrainedSteps = 3;
constexpr double kGradients = 2e-4;  // of a tensor's largest value: fp32 sums in another order through 20 batch norms

ImagenetOptions options_of(const std::string& arch, bool sync_bn) {
  ImagenetOptions options;
  options.model = arch;
  options.num_classes = kClasses;
  options.image_pixels = kPixels;
  options.sync_bn = sync_bn;
  options.bucket_mib = 4;
  return options;
}

models::Batch make_pictures(int step, int64_t first, int64_t count) {
  models::Batch batch;
  batch.num_samples = count;
  batch.image_BCYX = tests::drawn_pictures(fmt::format("ranks{}", step), kPictures, kPixels).narrow(0, first, count);
  batch.label_B = at::arange(kPictures, at::kLong).mul(3).add(step).remainder(kClasses).narrow(0, first, count);
  return batch;
}

struct RunState {
  std::map<std::string, at::Tensor> first_gradients, statistics;  // of the first step
  std::map<std::string, at::Tensor> parameters;
  std::vector<double> losses;
};

/// Three steps on so many ranks; what rank 0 holds then.
RunState train_on(int num_ranks, int num_micro, const ImagenetOptions& options) {
  RunState state;
  std::atomic<int> num_ran = 0;
  tests::run_ranks(num_ranks, [&](Comm& data) {
    if (data.size() != num_ranks) throw std::runtime_error("wrong world size");
    ImagenetTraining training = build_imagenet_training(options, data, at::kCPU, {});
    const int64_t mine = kPictures / num_ranks, size = mine / num_micro;
    for (int step = 0; step < kTrainedSteps; ++step) {
      std::vector<models::Batch> batches;
      for (int micro = 0; micro < num_micro; ++micro)
        batches.push_back(make_pictures(step, data.rank() * mine + micro * size, size));
      const auto outcome = training.runner->run(batches, 5);
      if (data.rank() == 0 && step == 0)
        for (const auto& [name, tensor] : training.task->network().named_parameters())
          state.first_gradients[name] = tensor->grad().clone();
      if (data.rank() == 0 && step == 0)
        for (const auto& [name, tensor] : training.task->network().named_buffers())
          state.statistics[name] = tensor->clone();
      training.update(0.05, 0);
      if (data.rank() != 0) continue;
      for (const auto& [name, value] : outcome.scalars)
        if (name == "loss") state.losses.push_back(value.item<double>());
    }
    training.sync->wait_params();
    ++num_ran;
    if (data.rank() != 0) return;
    for (const auto& [name, tensor] : training.task->network().named_parameters())
      state.parameters[name] = tensor->detach().clone();
  });
  EXPECT_EQ(num_ran, num_ranks);
  return state;
}

void expect_same(const RunState& got, const RunState& want) {
  ASSERT_EQ(want.losses.size(), static_cast<size_t>(kTrainedSteps));
  for (size_t step = 0; step < want.losses.size(); ++step)
    EXPECT_NEAR(got.losses.at(step), want.losses[step], 1e-4 * want.losses[step]) << step;
  EXPECT_GT(want.first_gradients.size(), 50u);
  for (const auto& [name, gradient] : want.first_gradients)
    tests::expect_close(got.first_gradients.at(name), gradient, kGradients, "gradient of " + name);
}

TEST(ImagenetRanks, SynchronisedBatchNormMakesFourRanksOne) {
  const ImagenetOptions options = options_of("resnet18", true);
  const RunState one = train_on(1, 1, options), four = train_on(4, 1, options);
  expect_same(four, one);
  for (const auto& [name, value] : one.statistics)
    if (!name.ends_with("num_batches_tracked")) tests::expect_close(four.statistics.at(name), value, kGradients, name);
}

TEST(ImagenetRanks, WithoutItRanksDiffer) {
  const ImagenetOptions options = options_of("resnet18", false);
  const RunState one = train_on(1, 1, options), four = train_on(4, 1, options);
  EXPECT_GT(tests::relative_difference(four.first_gradients.at("conv1.weight"), one.first_gradients.at("conv1.weight")),
            1e-2);
}

TEST(ImagenetRanks, AccumulationWithFrozenStatisticsAndZero1AreTheLargeBatch) {
  ImagenetOptions options = options_of("resnet18", false);
  options.freeze_bn = true;
  const RunState one = train_on(1, 1, options);
  expect_same(train_on(1, 4, options), one);
  expect_same(train_on(2, 2, options), one);
  options.grad_sync = "zero1";
  const RunState sharded = train_on(2, 1, options);
  for (const auto& [name, value] : one.parameters)
    tests::expect_close(sharded.parameters.at(name), value, kGradients, name);
}

TEST(ImagenetRanks, NoSynchronisationOnSeveralRanksIsRefused) {
  ImagenetOptions options = options_of("resnet18", false);
  options.grad_sync = "none";
  EXPECT_THROW(tests::run_ranks(2, [&](Comm& data) { build_imagenet_training(options, data, at::kCPU, {}); }),
               UsageError);
}

// Averages of the weights, which each rank keeps of what it updates.

struct AveragedState {
  std::map<std::string, at::Tensor> weights, averages;  ///< Of the network, before and while they are swapped.
  bool came_back = false;
};

/// With frozen statistics weights move far and stay what they are on one rank; with statistics over all ranks the
/// weights hardly move, since through 20 batch norms rounding would grow in them.
AveragedState train_with_average(int num_ranks, const std::string& grad_sync, bool moves_statistics) {
  ImagenetOptions options = options_of("resnet18", moves_statistics);
  options.freeze_bn = !moves_statistics;
  options.grad_sync = grad_sync;
  options.has_average = true;
  options.average_steps = 1;
  options.average_decay = 0.9;
  options.epochs = kPictures;  // the decay is then that of the flag
  AveragedState state;
  std::mutex lock;
  tests::run_ranks(num_ranks, [&](Comm& data) {
    if (data.size() != num_ranks) throw std::runtime_error("wrong world size");
    ImagenetTraining training = build_imagenet_training(options, data, at::kCPU, {});
    keep_averages(training, options, kPictures, /*steps_per_epoch=*/kTrainedSteps);
    const int64_t mine = kPictures / num_ranks;
    for (int step = 0; step < kTrainedSteps; ++step) {
      std::vector<models::Batch> batches = {make_pictures(step, data.rank() * mine, mine)};
      training.runner->run(batches, 5);
      training.update(moves_statistics ? 1e-7 : 0.05, 0);
    }
    training.sync->wait_params();
    const auto values = [&] {
      std::map<std::string, at::Tensor> out;
      for (const auto& tensors :
           {training.task->network().named_parameters(), training.task->network().named_buffers()})
        for (const auto& [name, tensor] : tensors) out[name] = tensor->detach().clone();
      return out;
    };
    const auto before = values();
    training.swap_averages();
    const auto swapped = values();
    training.swap_averages();
    const auto after = values();
    bool is_back = true;
    for (const auto& [name, value] : before) is_back = is_back && value.equal(after.at(name));
    const std::lock_guard guard(lock);
    if (data.rank() + 1 != num_ranks) return;  // the last rank holds no statistics of its own with zero1
    state = {before, swapped, is_back};
  });
  return state;
}

TEST(ImagenetRanks, AveragesAreThoseOfOneRank) {
  for (const bool moves_statistics : {false, true}) {
    const AveragedState one = train_with_average(1, "auto", moves_statistics);
    EXPECT_TRUE(one.came_back);
    const char* const moved = moves_statistics ? "bn1.running_mean" : "conv1.weight";
    EXPECT_GT(tests::relative_difference(one.averages.at(moved), one.weights.at(moved)), 10 * kGradients);
    for (const char* grad_sync : {"ddp", "zero1"}) {
      const AveragedState two = train_with_average(2, grad_sync, moves_statistics);
      EXPECT_TRUE(two.came_back) << grad_sync;
      for (const auto& [name, value] : one.averages)
        if (!name.ends_with("num_batches_tracked") && (name.find("running") != std::string::npos) == moves_statistics)
          tests::expect_close(two.averages.at(name), value, kGradients, std::string(grad_sync) + " " + name);
    }
  }
}

TEST(ImagenetRanks, HitsAreThoseOfAllMicroBatches) {
  const auto top5_of = [](int num_micro) {
    double top5 = -1;
    tests::run_ranks(1, [&](Comm& data) {
      ImagenetOptions options = options_of("resnet18", false);
      options.freeze_bn = true;
      ImagenetTraining training = build_imagenet_training(options, data, at::kCPU, {});
      std::vector<models::Batch> batches;
      for (int micro = 0; micro < num_micro; ++micro)
        batches.push_back(make_pictures(0, micro * (kPictures / num_micro), kPictures / num_micro));
      for (const auto& [name, value] : training.runner->run(batches, 5).scalars)
        if (name == "top5_pct") top5 = value.item<double>();
    });
    return top5;
  };
  const double of_one_batch = top5_of(1);
  EXPECT_GT(of_one_batch, 0);
  EXPECT_LT(of_one_batch, 100);
  for (const int num_micro : {2, 4, 8}) EXPECT_NEAR(top5_of(num_micro), of_one_batch, 1e-4) << num_micro;
}

// Evaluation.

/// Scores of a picture: its first pixel's number picks the class with the highest one, neighbours follow.
class PixelClassifier final : public models::Classifier {
 public:
  at::Tensor forward(const at::Tensor& image_BCYX) override {
    const at::Tensor number_B = image_BCYX.select(1, 0).select(1, 0).select(1, 0).round();
    return at::arange(kClasses, at::kFloat).unsqueeze(0).sub(number_B.unsqueeze(1)).abs().neg();
  }
};

/// Samples rank, rank + ranks, ... of a set; sample n shows class n % 7 and has label n * n % 7.
class NumberedSource final : public data::SampleSource {
 public:
  NumberedSource(int64_t num_samples, int64_t rank, int64_t num_ranks)
      : num_samples_(num_samples), next_(rank), num_ranks_(num_ranks) {}
  std::optional<data::RawSample> next() override {
    if (next_ >= num_samples_) return std::nullopt;
    data::RawSample sample;
    sample.id = static_cast<uint64_t>(next_);
    sample.label = next_ * next_ % kClasses;
    next_ += num_ranks_;
    return sample;
  }
  core::Json position() const override { return next_; }
  void seek(const core::Json& position) override { next_ = position.get<int64_t>(); }
  data::SourceReport report() const override { return {}; }
  void interrupt() override {}

 private:
  int64_t num_samples_, next_, num_ranks_;
};

/// Pictures whose number leaves 2 by `bad_period` cannot be read; 0: all can.
train::Metrics evaluate_on(int num_ranks, int64_t num_samples, int64_t micro_batch, uint64_t bad_period = 0) {
  train::Metrics metrics;
  std::mutex lock;
  tests::run_ranks(num_ranks, [&](Comm& data) {
    PixelClassifier network;
    const train::BatchMover mover(at::kCPU, at::kFloat, {0, 0, 0}, {1.f / 255, 1.f / 255, 1.f / 255});
    const train::Precision precision("fp32", at::kCPU);
    data::Loader loader(std::make_unique<NumberedSource>(num_samples, data.rank(), num_ranks),
                        [bad_period](const data::RawSample& sample, data::SampleSlot& slot) {
                          if (bad_period > 0 && sample.id % bad_period == 2) throw DataError("data: bad");
                          std::fill(slot.image_YXC.begin(), slot.image_YXC.end(),
                                    static_cast<uint8_t>(sample.id % kClasses));
                        },
                        {.micro_batch_size = micro_batch,
                         .image_pixels = 2,
                         .num_workers = 2,
                         .on_bad_sample = bad_period > 0 ? data::OnBadSample::kLeaveOut : data::OnBadSample::kStop});
    const auto mine = evaluate_classifier({network, data, mover, precision}, loader);
    const std::lock_guard guard(lock);
    if (!metrics.empty() && metrics != mine) throw std::runtime_error("ranks disagree");
    metrics = mine;
  });
  return metrics;
}

TEST(ImagenetRanks, EveryPictureCountsOnceOnAnyNumberOfRanks) {
  for (const int64_t num_samples : {1, 5, 23, 64}) {
    int64_t top1 = 0, top5 = 0;
    for (int64_t n = 0; n < num_samples; ++n) {
      const int64_t shown = n % kClasses, label = n * n % kClasses;
      int64_t rank = 0;  // classes nearer to the one shown, and of equally near ones the lower
      for (int64_t other = 0; other < kClasses; ++other) {
        const int64_t distance = std::abs(other - shown), own = std::abs(label - shown);
        rank += distance < own || (distance == own && other < label) ? 1 : 0;
      }
      top1 += rank < 1, top5 += rank < 5;
    }
    const auto one = evaluate_on(1, num_samples, 4);
    for (int num_ranks = 1; num_ranks <= 7; ++num_ranks)
      for (const int64_t micro_batch : {1, 3, 8}) {
        const auto metrics = evaluate_on(num_ranks, num_samples, micro_batch);
        ASSERT_EQ(metrics.size(), 5u);
        const double samples = static_cast<double>(num_samples);
        EXPECT_EQ(metrics[0].second, 100 * static_cast<double>(top1) / samples) << num_ranks << " " << num_samples;
        EXPECT_EQ(metrics[1].second, 100 * static_cast<double>(top5) / samples) << num_ranks << " " << num_samples;
        EXPECT_NEAR(metrics[2].second, one[2].second, 1e-6) << num_ranks << " " << num_samples;
        EXPECT_EQ(metrics[3].second, samples) << num_ranks;
        EXPECT_EQ(metrics[4].second, 0) << num_ranks;
      }
  }
  EXPECT_THROW(evaluate_on(3, 0, 4), DataError);
}

TEST(ImagenetRanks, PicturesThatCannotBeReadAreCountedAndNothingElse) {
  constexpr int64_t kSamples = 23, kBadPeriod = 5;  // 2, 7, 12, 17, 22 are bad
  int64_t top1 = 0;
  for (int64_t n = 0; n < kSamples; ++n) top1 += n % kBadPeriod != 2 && n % kClasses == n * n % kClasses ? 1 : 0;
  const auto whole = evaluate_on(1, kSamples, 4), one = evaluate_on(1, kSamples, 4, kBadPeriod);
  EXPECT_NE(one[2].second, whole[2].second) << "the loss is that of the others";
  for (const int num_ranks : {1, 2, 3, 7})
    for (const int64_t micro_batch : {1, 3, 8}) {  // of 1: whole batches are left out
      const auto metrics = evaluate_on(num_ranks, kSamples, micro_batch, kBadPeriod);
      EXPECT_EQ(metrics[0].second, 100 * static_cast<double>(top1) / 18) << num_ranks << " " << micro_batch;
      EXPECT_NEAR(metrics[2].second, one[2].second, 1e-6) << num_ranks << " " << micro_batch;
      EXPECT_EQ(metrics[3], (std::pair<std::string, double>("num_samples", 18))) << num_ranks;
      EXPECT_EQ(metrics[4], (std::pair<std::string, double>("num_failed", 5))) << num_ranks;
    }
}

}  // namespace
}  // namespace lockstep::tasks
