#include "train/precision.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::train {
namespace {

using c10::DeviceType;

TEST(Precision, TypesPerName) {
  const config::ParamSpec norm{.name = "ln.weight", .shape = {4}, .init = {}, .keeps_fp32 = true};
  const config::ParamSpec weight{.name = "weight", .shape = {4, 4}, .init = {}};
  struct Row {
    const char* name;
    DeviceType device;
    at::ScalarType norm, weight, input;
    std::optional<at::ScalarType> autocast;
  };
  for (const Row& row : {Row{"fp32", DeviceType::CPU, at::kFloat, at::kFloat, at::kFloat, {}},
                         Row{"amp", DeviceType::CUDA, at::kFloat, at::kFloat, at::kFloat, at::kHalf},
                         Row{"amp", DeviceType::CPU, at::kFloat, at::kFloat, at::kFloat, at::kBFloat16},
                         Row{"amp_bf16", DeviceType::CUDA, at::kFloat, at::kFloat, at::kFloat, at::kBFloat16},
                         Row{"amp_bfloat16", DeviceType::CPU, at::kFloat, at::kFloat, at::kFloat, at::kBFloat16},
                         Row{"bf16", DeviceType::CPU, at::kFloat, at::kBFloat16, at::kBFloat16, {}},
                         Row{"pure_bf16", DeviceType::CPU, at::kBFloat16, at::kBFloat16, at::kBFloat16, {}},
                         Row{"bf16_master", DeviceType::CPU, at::kBFloat16, at::kBFloat16, at::kBFloat16, {}},
                         Row{"fp16_master", DeviceType::CUDA, at::kHalf, at::kHalf, at::kHalf, {}}}) {
    const Precision precision(row.name, row.device);
    EXPECT_EQ(precision.parameter_type(norm), row.norm) << row.name;
    EXPECT_EQ(precision.parameter_type(weight), row.weight) << row.name;
    EXPECT_EQ(precision.input_type(), row.input) << row.name;
    EXPECT_EQ(precision.autocast_type(), row.autocast) << row.name;
    EXPECT_EQ(precision.needs_loss_scaler(), row.autocast == at::kHalf || row.weight == at::kHalf) << row.name;
  }
}

TEST(Precision, UnknownNamesAreRefusedWithAHint) {
  const auto hint_of = [](const char* name) {
    try {
      const Precision precision(name, DeviceType::CPU);
    } catch (const UsageError& error) {
      return error.hint();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(hint_of("amp_bf61"), "did you mean --precision amp_bf16?");
  EXPECT_NE(hint_of("pure_fp16").find("use amp"), std::string::npos);
}

TEST(Precision, AutocastHoldsOnlyWithinItsGuard) {
  const auto product_type = [] { return at::ones({2, 2}).matmul(at::ones({2, 2})).scalar_type(); };
  const Precision amp("amp_bf16", DeviceType::CPU), fp32("fp32", DeviceType::CPU);
  {
    const auto outer = amp.autocast();
    EXPECT_EQ(product_type(), at::kBFloat16);
    {
      const auto inner = fp32.autocast();  // does nothing
      EXPECT_EQ(product_type(), at::kBFloat16);
    }
    EXPECT_EQ(product_type(), at::kBFloat16);
  }
  EXPECT_EQ(product_type(), at::kFloat);
}

TEST(Precision, ConvertsHandlesInPlaceAndKeepsRequiresGrad) {
  auto weight = at::ones({2, 2}).set_requires_grad(true), norm = at::ones({2}).set_requires_grad(true),
       frozen = at::ones({2});
  const Precision precision("bf16", DeviceType::CPU);
  precision.convert_parameters({{"w", &weight}, {"n", &norm}, {"f", &frozen}},
                               {{.name = "w", .shape = {2, 2}, .init = {}},
                                {.name = "n", .shape = {2}, .init = {}, .keeps_fp32 = true},
                                {.name = "f", .shape = {2}, .init = {}}});
  EXPECT_EQ(weight.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
  EXPECT_EQ(norm.scalar_type(), at::kFloat);
  EXPECT_EQ(frozen.scalar_type(), at::kBFloat16);
  EXPECT_FALSE(frozen.requires_grad());
}

}  // namespace
}  // namespace lockstep::train
