// Ten steps of ResNet-50 against torchvision, by the rule of ref/make_imagenet_goldens.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/imagenet/classifier_task.h"
#include "models/imagenet/make_classifier.h"
#include "nn/init.h"
#include "optim/make_optimizer.h"
#include "support/drawn_weights.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"
#include "train/precision.h"

namespace lockstep::tasks {
namespace {

constexpr int64_t kBatch = 8, kPixels = 64, kClasses = 1000;
constexpr double kLearningRate = 0.002;
constexpr double kFirstLoss = 1e-5, kLosses = 1e-4, kNorms = 1e-3;

at::Tensor golden_labels(int64_t step) {
  return at::arange(kBatch, at::kLong).mul(101).add(37 * step + 5).remainder(kClasses);
}

TEST(ClassifierTraining, LossesOfTenSgdStepsAndGradientsAreTorchvisions) {
  const auto golden = tests::load_golden("imagenet/resnet50.safetensors");
  for (const bool channels_last : {false, true})
    tests::run_ranks(1, [&](comm::Comm& comm) {
      const auto shape = config::classifier_shape("resnet50", kClasses, 224);
      auto network = models::make_classifier(shape, {});
      nn::initialize(*network, config::classifier_params(shape, false), 0);
      tests::draw_weights(*network);
      tests::calm_blocks(*network);
      models::ClassifierTask task(std::move(network), comm, {.channels_last = channels_last});
      std::vector<optim::Segment> segments;
      for (const auto& [name, tensor] : task.network().named_parameters())
        segments.push_back({.name = name, .parameter = *tensor, .decays = true});
      const auto optimizer =
          optim::make_optimizer({.name = "sgd", .weight_decay = 1e-4, .momentum = 0.9}, std::move(segments));
      const at::Tensor want = golden.at("losses");
      for (int64_t step = 0; step < want.numel(); ++step) {
        models::Batch batch;
        batch.image_BCYX = tests::drawn_pictures("step" + std::to_string(step), kBatch, kPixels);
        batch.label_B = golden_labels(step);
        batch.num_samples = kBatch;
        const models::LossReport report = task.loss(task.forward(batch));
        for (const auto& [name, tensor] : task.network().named_parameters()) tensor->mutable_grad() = at::Tensor();
        report.loss.backward();
        const double expected = want[step].item<double>();
        EXPECT_NEAR(report.parts.at(0).second.item<double>(), expected, (step == 0 ? kFirstLoss : kLosses) * expected)
            << "step " << step << ", channels-last " << channels_last;
        if (step == 0) {
          std::vector<at::Tensor> norms;
          for (const auto& [name, tensor] : task.network().named_parameters()) norms.push_back(tensor->grad().norm());
          tests::expect_close(at::stack(norms), golden.at("grad_norms"), kNorms, "norms of gradients");
        }
        optimizer->step(kLearningRate);
      }
    });
}

/// torchvision keeps the sums that its blocks add to in fp32. With bf16 sums scores are half as far off again.
TEST(ClassifierTraining, AutocastOfVitB16IsAsNearToSinglePrecisionAsTorchvisions) {
  const auto golden = tests::load_golden("imagenet/vit_b_16.safetensors");
  const c10::NoGradGuard no_grad;
  const auto shape = config::classifier_shape("vit_b_16", kClasses, 224);
  const auto network = models::make_classifier(shape, {});
  nn::initialize(*network, config::classifier_params(shape, false), 0);
  tests::draw_weights(*network);
  network->set_training(false);
  const train::Precision precision("amp", at::kCPU);
  const auto autocast = precision.autocast();
  const at::Tensor exact = golden.at("eval_scores");
  const double torchvisions = tests::relative_difference(golden.at("autocast_scores"), exact),
               ours = tests::relative_difference(
                   models::class_scores(*network, tests::drawn_pictures("eval", 2, 224), true), exact);
  EXPECT_GT(ours, 1e-4) << "nothing had 16 bits";
  EXPECT_LT(ours, 1.25 * torchvisions);
}

}  // namespace
}  // namespace lockstep::tasks
