// The loss of classifiers beside the same sums in doubles: label smoothing, mixup and CutMix.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "models/imagenet/classifier_task.h"
#include "support/ranks/run_ranks.h"

namespace lockstep::tasks {
namespace {

constexpr int64_t kPictures = 4, kSide = 6, kClassCount = 3;
constexpr double kSingle = 1e-5;  // sums of a few fp32 numbers

/// Scores that are given, whatever the pictures show; keeps the pictures that it saw.
class FixedScores final : public models::Classifier {
 public:
  explicit FixedScores(at::Tensor score_BK) : score_BK_(std::move(score_BK)) {}
  at::Tensor forward(const at::Tensor& image_BCYX) override {
    seen_BCYX = image_BCYX.clone();
    return score_BK_;
  }
  at::Tensor seen_BCYX;

 private:
  at::Tensor score_BK_;
};

/// Picture b is b + 1 everywhere: what is mixed tells its shares.
at::Tensor flat_pictures() {
  return at::arange(1, kPictures + 1, at::kFloat)
      .view({kPictures, 1, 1, 1})
      .expand({kPictures, 3, kSide, kSide})
      .clone();
}

/// The share of picture 1 (which is 2 everywhere) in what the network saw of it, the rest being picture 0 (1
/// everywhere): by means this is mixup's share and CutMix's.
double own_share_seen(const at::Tensor& seen_BCYX) { return seen_BCYX[1].mean().item<double>() - 1; }

double mean_loss(const at::Tensor& score_BK, const std::vector<int64_t>& labels, double own_share, double smoothing) {
  double sum = 0;
  for (int64_t b = 0; b < kPictures; ++b) {
    const int64_t before = (b + kPictures - 1) % kPictures;
    double exp_sum = 0;
    for (int64_t k = 0; k < kClassCount; ++k) exp_sum += std::exp(score_BK[b][k].item<double>());
    for (int64_t k = 0; k < kClassCount; ++k) {
      const double hard = (labels[static_cast<size_t>(b)] == k ? own_share : 0) +
                          (labels[static_cast<size_t>(before)] == k ? 1 - own_share : 0);
      const double target = (1 - smoothing) * hard + smoothing / kClassCount;
      sum -= target * (score_BK[b][k].item<double>() - std::log(exp_sum));
    }
  }
  return sum / kPictures;
}

TEST(ClassifierLoss, SmoothedAndMixedTargetsAreThoseOfDoubles) {
  const at::Tensor score_BK = at::tensor({1.5F, -0.5F, 0.25F, -2.0F, 0.75F, 1.0F, 0.5F, 3.0F, -1.0F, 0.0F, 0.5F, -3.0F})
                                  .view({kPictures, kClassCount});
  const std::vector<int64_t> labels = {0, 2, 1, 1};
  int num_unequal_shares = 0;
  tests::run_ranks(1, [&](comm::Comm& comm) {
    for (const double smoothing : {0.0, 0.1})
      for (const models::MixOptions mix :
           {models::MixOptions{}, models::MixOptions{.mixup_alpha = 0.8}, models::MixOptions{.cutmix_alpha = 1.0}})
        for (const uint64_t key : {1, 2, 3}) {
          auto network = std::make_unique<FixedScores>(score_BK);
          const FixedScores& seen = *network;
          models::ClassifierTask task(std::move(network), comm, {.label_smoothing = smoothing, .mix = mix});
          models::Batch batch;
          batch.image_BCYX = flat_pictures();
          batch.label_B = at::tensor(labels, at::kLong);
          batch.num_samples = kPictures;
          batch.context.random_key = key;
          const double loss = task.loss(task.forward(batch)).loss.item<double>();
          const double own_share = own_share_seen(seen.seen_BCYX);
          if (std::abs(own_share - 0.5) > 0.05 && own_share < 1) ++num_unequal_shares;
          EXPECT_NEAR(loss, mean_loss(score_BK, labels, own_share, smoothing), kSingle)
              << "smoothing " << smoothing << ", mixup " << mix.mixup_alpha << ", cutmix " << mix.cutmix_alpha
              << ", share " << own_share;
        }
  });
  EXPECT_GT(num_unequal_shares, 4) << "shares near a half would not tell whether they are swapped";
}

/// Picture b is told to be class b. Labels are that, or one more: then it is the label of the picture before.
TEST(ClassifierLoss, HitsOfMixedSamplesAreThoseOfTheLargerShare) {
  const at::Tensor score_BK = at::eye(kPictures);
  const at::Tensor own_B = at::arange(kPictures, at::kLong), next_B = own_B.roll(-1, 0);
  int num_own = 0, num_other = 0;
  tests::run_ranks(1, [&](comm::Comm& comm) {
    for (uint64_t key = 0; key < 12; ++key)
      for (const bool labels_own : {true, false}) {
        auto network = std::make_unique<FixedScores>(score_BK);
        const FixedScores& seen = *network;
        models::ClassifierTask task(std::move(network), comm, {.mix = {.mixup_alpha = 1.0}});
        models::Batch batch;
        batch.image_BCYX = flat_pictures();
        batch.label_B = labels_own ? own_B : next_B;
        batch.num_samples = kPictures;
        batch.context.random_key = key;
        const double top1 = task.loss(task.forward(batch)).scalars.at(0).second.item<double>();
        const bool is_own = own_share_seen(seen.seen_BCYX) >= 0.5;
        ++(is_own ? num_own : num_other);
        EXPECT_EQ(top1, is_own == labels_own ? 100 : 0) << "key " << key;
      }
  });
  EXPECT_GT(num_own, 4);
  EXPECT_GT(num_other, 4);
}

}  // namespace
}  // namespace lockstep::tasks
