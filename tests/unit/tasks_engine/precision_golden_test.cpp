// Whole CLIP models in low precision against OpenCLIP's.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "models/contrastive_task.h"
#include "support/clip_golden.h"
#include "tasks/contrastive/engine/towers_build.h"
#include "train/precision.h"

namespace lockstep::tasks {
namespace {

using ::lockstep::tests::expect_close;
using ::lockstep::tests::load_golden;

class PrecisionGolden : public ::testing::TestWithParam<const char*> {};

// bf16 carries 8 bits: sums in another order differ by a few units in the last place, 2^-9 each.
TEST_P(PrecisionGolden, LowPrecisionFollowsOpenClip) {
  const auto golden = load_golden(tests::file_of(GetParam()));
  if (tests::golden_shape(GetParam()).vision.layer_scale) {
    EXPECT_FALSE(golden.contains("output/bf16_image"));  // OpenCLIP cannot run it
    return;
  }
  const at::NoGradGuard no_gradients;
  for (const char* name : {"bf16", "pure_bf16"}) {
    SCOPED_TRACE(name);
    const std::string label = std::string("output/") + name;
    const train::Precision precision(name, c10::DeviceType::CPU);
    for (const bool exact_shortcuts : {false, true}) {
      auto model = tests::golden_model(GetParam(), golden, {.exact_shortcuts = exact_shortcuts});
      auto tensors = tests::all_tensors(*model);
      std::erase_if(tensors, [](const auto& entry) { return !entry.tensor->is_floating_point(); });
      precision.convert_parameters(tensors, model->param_specs());
      model->set_training(false);
      const auto image = model->encode_image(golden.at("input/image").to(precision.input_type()));
      expect_close(models::normalise_rows(image), golden.at(label + "_image"), 0.02, "image");
      expect_close(models::normalise_rows(model->encode_text(golden.at("input/text"))), golden.at(label + "_text"),
                   0.02, "text");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PrecisionGolden, ::testing::Values("vit", "vit_quickgelu", "vit_one_block", "resnet"),
                         [](const auto& entry) { return std::string(entry.param); });

TEST(Precision, AWholeModelOfBatchNormIsBuiltInPureBf16) {
  const train::Precision precision("pure_bf16", c10::DeviceType::CPU);
  const auto shape = tests::golden_shape("resnet");
  const auto model = build_towers({shape}, {.precision = &precision, .pretrained = {}, .seed = 3});
  for (const auto& [name, tensor] : tests::all_tensors(*model))
    EXPECT_EQ(tensor->scalar_type(), name.ends_with("num_batches_tracked") ? at::kLong : at::kBFloat16) << name;
  const auto image = at::rand({4, 3, shape.vision.image_size, shape.vision.image_size}).to(precision.input_type());
  const auto loss = model->encode_image(image).to(at::kFloat).square().sum();
  loss.backward();
  EXPECT_TRUE(loss.isfinite().item<bool>());
  EXPECT_GT(model->named_parameters().front().tensor->grad().abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace lockstep::tasks
