// A step of ResNet-50 against torchvision, by the rule of ref/make_imagenet_goldens.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/imagenet/classifier_task.h"
#include "models/imagenet/make_classifier.h"
#include "nn/init.h"
#include "support/drawn_weights.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"

namespace lockstep::tasks {
namespace {

constexpr int64_t kBatch = 8, kPixels = 64, kClasses = 1000;
constexpr double kLoss = 1e-5;
// Pictures of noise look alike, and batch norm over 32 values widens the roundings of gradients.
constexpr double kNorms = 1e-3;

at::Tensor golden_labels(int64_t step) {
  return at::arange(kBatch, at::kLong).mul(101).add(37 * step + 5).remainder(kClasses);
}

TEST(ClassifierTraining, LossAndGradientsOfTheFirstStepAreTorchvisions) {
  const auto golden = tests::load_golden("imagenet/resnet50.safetensors");
  tests::run_ranks(1, [&](comm::Comm& comm) {
    const auto shape = config::classifier_shape("resnet50", kClasses, 224);
    auto network = models::make_classifier(shape, {});
    nn::initialize(*network, config::classifier_params(shape, false), 0);
    tests::draw_weights(*network);
    models::ClassifierTask task(std::move(network), comm, {.channels_last = false});
    models::Batch batch;
    batch.image_BCYX = tests::drawn_pictures("step0", kBatch, kPixels);
    batch.label_B = golden_labels(0);
    batch.num_samples = kBatch;
    const models::LossReport report = task.loss(task.forward(batch));
    report.loss.backward();
    std::vector<at::Tensor> norms;
    for (const auto& [name, tensor] : task.network().named_parameters()) norms.push_back(tensor->grad().norm());
    tests::expect_close(at::stack(norms), golden.at("grad_norms"), kNorms, "norms of gradients");
    const double want = golden.at("losses")[0].item<double>();
    EXPECT_NEAR(report.parts.at(0).second.item<double>(), want, kLoss * want);
  });
}

}  // namespace
}  // namespace lockstep::tasks
