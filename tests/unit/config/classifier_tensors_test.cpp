// Which classifier a file of weights is of, by the names and shapes of its tensors.
#include <gtest/gtest.h>

#include <algorithm>

#include "config/imagenet_models.h"

namespace lockstep::config {
namespace {

std::vector<NamedShape> tensors_of(const ClassifierShape& shape) {
  std::vector<NamedShape> tensors;
  for (const ParamSpec& spec : classifier_params(shape, false)) tensors.push_back({spec.name, spec.shape});
  return tensors;
}

TEST(ClassifierTensors, EveryClassifierIsKnownByItsOwn) {
  for (const std::string& name : classifier_names()) {
    const bool is_vit = name.starts_with("vit");
    const int64_t pixels = is_vit ? 384 : 224;
    auto tensors = tensors_of(classifier_shape(name, 17, pixels));
    std::reverse(tensors.begin(), tensors.end());
    const auto found = classifier_of_tensors(tensors);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_EQ(found->name, name);
    EXPECT_EQ(found->num_classes, 17) << name;
    EXPECT_EQ(found->image_pixels, pixels) << name;
  }
}

TEST(ClassifierTensors, CountersOfBatchNormMayBeMissing) {
  auto tensors = tensors_of(classifier_shape("resnet18", 10, 224));
  std::erase_if(tensors, [](const NamedShape& tensor) { return tensor.name.ends_with("num_batches_tracked"); });
  ASSERT_TRUE(classifier_of_tensors(tensors).has_value());
  EXPECT_EQ(classifier_of_tensors(tensors)->name, "resnet18");
}

TEST(ClassifierTensors, OthersAreNotTakenForOneOfThem) {
  const auto whole = tensors_of(classifier_shape("resnet50", 10, 224));
  auto wider = whole;  // ResNeXt and wide ResNets have the names of a ResNet
  for (NamedShape& tensor : wider)
    if (tensor.name == "layer1.0.conv2.weight") tensor.shape[1] = 2;
  EXPECT_FALSE(classifier_of_tensors(wider).has_value());
  auto missing = whole;
  std::erase_if(missing, [](const NamedShape& tensor) { return tensor.name == "layer4.2.conv3.weight"; });
  EXPECT_FALSE(classifier_of_tensors(missing).has_value());
  auto more = whole;
  more.push_back({"visual.proj", {512, 512}});
  EXPECT_FALSE(classifier_of_tensors(more).has_value());
  auto headless = whole;
  std::erase_if(headless, [](const NamedShape& tensor) { return tensor.name.starts_with("fc."); });
  EXPECT_FALSE(classifier_of_tensors(headless).has_value());
  EXPECT_FALSE(classifier_of_tensors({}).has_value());
}

}  // namespace
}  // namespace lockstep::config
