// Classifiers against torchvision, by the rule of ref/make_imagenet_goldens.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/json.h"
#include "models/imagenet/classifier_task.h"
#include "models/imagenet/make_classifier.h"
#include "nn/init.h"
#include "support/drawn_weights.h"
#include "support/tensor_golden.h"

namespace lockstep::models {
namespace {

using tests::calm_blocks;
using tests::drawn_pictures;
using tests::expect_close;
using tests::load_golden;

constexpr int64_t kBatch = 8, kPixels = 64, kClasses = 1000;
constexpr double kScores = 1e-5;     // of the largest value
constexpr double kGradients = 1e-4;  // of a gradient's norm: fp32 sums in another order through twelve blocks

std::unique_ptr<Classifier> drawn_classifier(const std::string& name) {
  auto network = make_classifier(config::classifier_shape(name, kClasses, 224), {});
  nn::initialize(*network, config::classifier_params(config::classifier_shape(name, kClasses, 224), false), 0);
  tests::draw_weights(*network);
  return network;
}

/// Names and sizes in torchvision's order but for buffers, which our networks list behind the parameters.
void expect_torchvision_tensors(Classifier& network, const std::string& golden) {
  std::map<std::string, std::vector<int64_t>> got, want;
  for (const auto& [name, tensor] : network.named_parameters()) got[name] = tensor->sizes().vec();
  for (const auto& [name, tensor] : network.named_buffers()) got[name] = tensor->sizes().vec();
  const auto names = core::parse_json(tests::golden_metadata(golden, "names"), golden);
  const auto sizes = core::parse_json(tests::golden_metadata(golden, "sizes"), golden);
  for (size_t i = 0; i < names.size(); ++i) want[names[i]] = sizes[i].get<std::vector<int64_t>>();
  EXPECT_GT(want.size(), 100u);
  EXPECT_EQ(got, want);
}

TEST(Classifier, Resnet50HasTorchvisionsTensorsAndScores) {
  const auto golden = load_golden("imagenet/resnet50.safetensors");
  const c10::NoGradGuard no_grad;
  const auto network = drawn_classifier("resnet50");
  expect_torchvision_tensors(*network, "imagenet/resnet50.safetensors");
  for (const bool channels_last : {false, true}) {
    network->set_training(false);
    expect_close(class_scores(*network, drawn_pictures("eval", 2, 224), channels_last), golden.at("eval_scores"),
                 kScores, fmt::format("evaluation, channels_last={}", channels_last));
  }
  network->set_training(true);
  calm_blocks(*network);
  for (const bool channels_last : {false, true}) {
    expect_close(class_scores(*network, drawn_pictures("train", kBatch, kPixels), channels_last),
                 golden.at("train_scores"), kScores, fmt::format("training, channels_last={}", channels_last));
  }
}

TEST(Classifier, VitB16HasTorchvisionsTensorsAndScores) {
  const c10::NoGradGuard no_grad;
  const auto network = drawn_classifier("vit_b_16");
  expect_torchvision_tensors(*network, "imagenet/vit_b_16.safetensors");
  network->set_training(false);
  expect_close(class_scores(*network, drawn_pictures("eval", 2, 224), true),
               load_golden("imagenet/vit_b_16.safetensors").at("eval_scores"), kScores, "scores");
}

/// Of each parameter the norm of its gradient, and its product with drawn numbers, which tells where its entries lie.
TEST(Classifier, VitB16HasTorchvisionsGradients) {
  const char* const file = "imagenet/vit_b_16.safetensors";
  const auto golden = load_golden(file);
  const auto names = core::parse_json(tests::golden_metadata(file, "names"), file);
  const auto network = drawn_classifier("vit_b_16");
  network->set_training(true);
  const at::Tensor scores = class_scores(*network, drawn_pictures("train", 2, 224), true);
  const at::Tensor loss = at::cross_entropy_loss(scores, at::tensor({5, 106}, at::kLong));
  loss.backward();
  const double want_loss = golden.at("loss").item<double>();
  EXPECT_NEAR(loss.item<double>(), want_loss, kScores * want_loss);
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, tensor] : network->named_parameters()) gradients[name] = tensor->grad();
  ASSERT_EQ(gradients.size(), 152u);
  ASSERT_EQ(names.size(), gradients.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i];
    const at::Tensor& gradient = gradients.at(name);
    const auto index = static_cast<int64_t>(i);
    const double norm = golden.at("grad_norms")[index].item<double>();
    ASSERT_GT(norm, 0) << name;
    EXPECT_NEAR(gradient.norm().item<double>(), norm, kGradients * norm) << name;
    const double product = (gradient * tests::drawn("gradient." + name, gradient.sizes())).sum().item<double>();
    EXPECT_NEAR(product, golden.at("grad_products")[index].item<double>(), kGradients * norm) << name;
  }
}

TEST(Classifier, CountsParametersAndOperationsAsPublished) {
  const auto count = [](const char* name) {
    int64_t sum = 0;
    for (const auto& spec : config::classifier_params(config::classifier_shape(name, 1000, 224), false))
      sum += spec.is_buffer ? 0 : spec.numel();
    return sum;
  };
  EXPECT_EQ(count("resnet18"), 11'689'512);  // torchvision's table of models
  EXPECT_EQ(count("resnet34"), 21'797'672);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("resnet101"), 44'549'160);
  EXPECT_EQ(count("resnet152"), 60'192'808);
  EXPECT_EQ(count("vit_b_16"), 86'567'656);
  EXPECT_EQ(count("vit_l_16"), 304'326'632);
  const auto gmac = [](const char* name) {
    return config::classifier_forward(config::classifier_shape(name, 1000, 224)).flops / 2e9;
  };
  EXPECT_NEAR(gmac("resnet50"), 4.089, 5e-4);
  EXPECT_NEAR(gmac("resnet18"), 1.814, 5e-4);
  EXPECT_NEAR(gmac("vit_b_16"), 17.56, 5e-3);
}

TEST(Classifier, HitsAreCountedByRankWithTheFirstOfEqualScoresAhead) {
  const at::Tensor score = at::tensor({0.f, 1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).view({1, 7}).repeat({7, 1});
  const at::Tensor label = at::arange(7, at::kLong);
  EXPECT_TRUE(count_hits(score, label).equal(at::tensor({1.f, 5.f})));
  EXPECT_TRUE(count_hits(at::zeros({7, 7}), label).equal(at::tensor({1.f, 5.f})));
  EXPECT_TRUE(count_hits(at::full({7, 7}, NAN), label).equal(at::zeros({2})));
  EXPECT_TRUE(count_hits(at::zeros({3, 2}), at::tensor({0, 1, 0}, at::kLong)).equal(at::tensor({2.f, 3.f})));
}

TEST(Classifier, ZeroLastNormMakesBlocksIdentitiesAndFrozenStatisticsStay) {
  const auto shape = config::classifier_shape("resnet50", 10, 32);
  auto network = make_classifier(shape, {.freezes_statistics = true});
  nn::initialize(*network, config::classifier_params(shape, true), 3);
  int num_zeros = 0;
  for (const auto& [name, tensor] : network->named_parameters())
    if (name.ends_with("bn3.weight")) num_zeros += static_cast<int>(tensor->abs().max().item<float>() == 0);
  EXPECT_EQ(num_zeros, 16);
  network->set_training(true);
  const c10::NoGradGuard no_grad;
  const at::Tensor picture = drawn_pictures("frozen", 4, 32);
  const at::Tensor all = network->forward(picture), one = network->forward(picture.narrow(0, 1, 1));
  expect_close(one, all.narrow(0, 1, 1), kScores, "a sample does not depend on the others");
  for (const auto& [name, tensor] : network->named_buffers())
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(tensor->item<int64_t>(), 0) << name;
    }
}

// Mixed samples.

TEST(MixSamples, BetaDrawsHaveTheirMeanAndVariance) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    core::CounterRng rng(core::stream_key({7, static_cast<uint64_t>(alpha * 10)}));
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int draw = 0; draw < kDraws; ++draw) {
      const double value = draw_beta(alpha, rng);
      ASSERT_TRUE(value >= 0 && value <= 1) << value;
      sum += value, squares += value * value;
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.02) << alpha;
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
  }
}

TEST(MixSamples, SharesOfLabelsAreThoseOfPixels) {
  const at::Tensor picture = at::arange(4, at::kFloat).view({4, 1, 1, 1}).expand({4, 3, 16, 16}).contiguous();
  const at::Tensor label = at::arange(4, at::kLong);
  std::set<double> shares;
  bool saw_box = false;
  for (uint64_t key = 0; key < 24; ++key) {
    for (const MixOptions& options : {MixOptions{.mixup_alpha = 0.4}, MixOptions{.cutmix_alpha = 1.0},
                                      MixOptions{.mixup_alpha = 0.4, .cutmix_alpha = 1.0}}) {
      const MixedSamples mixed = mix_samples(picture, label, options, key);
      ASSERT_TRUE(mixed.other_label_B.equal(at::tensor({3, 0, 1, 2}, at::kLong)));
      const at::Tensor want = mixed.own_share * label + (1 - mixed.own_share) * mixed.other_label_B;
      EXPECT_LT((mixed.image_BCYX.mean({1, 2, 3}) - want).abs().max().item<double>(), 1e-5) << key;
      EXPECT_TRUE(mix_samples(picture, label, options, key).image_BCYX.equal(mixed.image_BCYX));
      shares.insert(mixed.own_share);
      const at::Tensor is_whole = mixed.image_BCYX.eq(picture).logical_or_(mixed.image_BCYX.eq(picture.roll(1, 0)));
      saw_box |= is_whole.all().item<bool>() && mixed.own_share > 0 && mixed.own_share < 1;
    }
  }
  EXPECT_TRUE(saw_box);
  EXPECT_GT(shares.size(), 30u);
}

TEST(MixSamples, AreOffWithoutAnAlpha) {
  const at::Tensor picture = drawn_pictures("off", 2, 16);
  const MixedSamples mixed = mix_samples(picture, at::arange(2, at::kLong), {}, 1);
  EXPECT_TRUE(mixed.image_BCYX.is_same(picture));
  EXPECT_FALSE(mixed.other_label_B.defined());
}

}  // namespace
}  // namespace lockstep::models
