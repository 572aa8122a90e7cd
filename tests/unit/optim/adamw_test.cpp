#include "optim/adamw.h"

#include <gtest/gtest.h>

#include "optim/grad_norm.h"
#include "support/tensor_golden.h"

namespace lockstep::optim {
namespace {

using tests::expect_close;
using tests::load_golden;

constexpr double kFp32 = 1e-6;  // one rounding per element and step, relative to the largest value
const std::vector<std::pair<std::string, bool>> kNames = {
    {"bias", false}, {"scale", false}, {"weight", true}, {"conv", true}};

at::Tensor parameter_like(const at::Tensor& value, bool channels_last = false) {
  auto out = value.clone();
  if (channels_last && out.dim() == 4) out = out.contiguous(at::MemoryFormat::ChannelsLast);
  return out.set_requires_grad(true);
}

/// Five steps of ref/make_loss_goldens.py; even steps do not clip, odd steps clip to norm 1.
void follow_golden(bool channels_last, double loss_scale) {
  const auto golden = load_golden("optim/adamw.safetensors");
  std::vector<Segment> segments;
  for (const auto& [name, decays] : kNames)
    segments.push_back({name, parameter_like(golden.at("start." + name), channels_last), decays, {}});
  AdamW optimizer(segments, {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.2});
  for (int step = 0; step < 5; ++step) {
    for (auto& segment : segments)
      segment.parameter.mutable_grad() = golden.at(fmt::format("grad.{}.{}", step, segment.name)) * loss_scale;
    const auto scale = loss_scale == 1.0 ? at::Tensor() : at::full({}, loss_scale);
    const auto summary = summarise_gradients(optimizer.gradients(), step % 2 == 1 ? 1.0 : 1e6, scale);
    expect_close(summary.norm, golden.at(fmt::format("norm.{}", step)), kFp32, "norm");
    optimizer.step(1e-2 * (step + 1), summary.grad_divisor, summary.found_inf);
    for (const auto& segment : segments)
      expect_close(segment.parameter, golden.at(fmt::format("param.{}.{}", step, segment.name)), kFp32, segment.name);
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto state = optimizer.state()[i];
    EXPECT_EQ(state.at("exp_avg").strides(), segments[i].parameter.strides());
    expect_close(state.at("exp_avg"), golden.at("exp_avg." + state.name), kFp32, state.name);
    expect_close(state.at("exp_avg_sq"), golden.at("exp_avg_sq." + state.name), kFp32, state.name);
    EXPECT_EQ(state.at("step").item<float>(), 5.0f);
  }
}

TEST(AdamW, FollowsTorchWithBothGroupsAndClipping) { follow_golden(false, 1.0); }
TEST(AdamW, FollowsTorchUnderALossScale) { follow_golden(false, 1024.0); }
TEST(AdamW, GradientsWithOtherStridesAreMatched) { follow_golden(true, 1.0); }

TEST(AdamW, FoundInfLeavesEverythingAsItWas) {
  const auto golden = load_golden("optim/adamw.safetensors");
  std::vector<Segment> segments = {{"weight", parameter_like(golden.at("start.weight")), true, {}}};
  AdamW optimizer(segments, {});
  segments[0].parameter.mutable_grad() = golden.at("grad.0.weight").clone();
  optimizer.step(0.1);
  const auto before = segments[0].parameter.detach().clone();
  const auto average = optimizer.state()[0].at("exp_avg").clone();
  segments[0].parameter.mutable_grad() = golden.at("grad.1.weight").clone();
  segments[0].parameter.grad().view({-1})[3] = std::numeric_limits<float>::quiet_NaN();
  const auto summary = summarise_gradients(optimizer.gradients(), 1.0, {});
  EXPECT_EQ(summary.found_inf.item<float>(), 1.0f);
  optimizer.step(0.1, summary.grad_divisor, summary.found_inf);
  EXPECT_TRUE(segments[0].parameter.equal(before));
  EXPECT_TRUE(optimizer.state()[0].at("exp_avg").equal(average));
  EXPECT_EQ(optimizer.state()[0].at("step").item<float>(), 1.0f);
}

TEST(AdamW, ASegmentWithoutGradientIsLeftAlone) {
  std::vector<Segment> segments = {{"used", parameter_like(at::ones({3})), true, {}},
                                   {"unused", parameter_like(at::ones({3})), true, {}}};
  AdamW optimizer(segments, {});
  segments[0].parameter.mutable_grad() = at::ones({3});
  optimizer.step(0.1);
  EXPECT_FALSE(segments[0].parameter.equal(at::ones({3})));
  EXPECT_TRUE(segments[1].parameter.equal(at::ones({3})));
  EXPECT_EQ(optimizer.state()[1].at("step").item<float>(), 0.0f);
}

TEST(AdamW, BoundsHoldAfterEveryUpdate) {
  for (const auto& [start, gradient, want] : {std::tuple{4.6, -1.0, 4.605}, {0.01, 1.0, 0.0}, {2.0, 1.0, 1.9}}) {
    auto parameter = parameter_like(at::full({}, start));
    AdamW optimizer({{.name = "scale", .parameter = parameter, .bounds = std::pair{0.0, 4.605}}}, {});
    parameter.mutable_grad() = at::full({}, gradient);
    optimizer.step(0.1);
    EXPECT_NEAR(parameter.item<double>(), want, 1e-5);
  }
}

TEST(AdamW, NarrowGradientsAreWidenedForAMasterCopy) {
  const auto golden = load_golden("optim/adamw.safetensors");
  const auto gradient = golden.at("grad.0.weight").to(at::kBFloat16);
  auto wide = parameter_like(golden.at("start.weight")), narrow = parameter_like(golden.at("start.weight"));
  AdamW wanted({{.name = "weight", .parameter = wide, .decays = true, .gradient = gradient.to(at::kFloat)}}, {});
  AdamW got({{.name = "weight", .parameter = narrow, .decays = true, .gradient = gradient}}, {});
  wanted.step(1e-2);
  got.step(1e-2);
  EXPECT_FALSE(wide.equal(golden.at("start.weight")));
  EXPECT_TRUE(narrow.equal(wide));
}

TEST(AdamW, MixedTypesAreUpdatedEachInTheirOwn) {
  const auto golden = load_golden("optim/adamw.safetensors");
  std::vector<Segment> segments = {{"weight", parameter_like(golden.at("start.weight").to(at::kBFloat16)), true, {}},
                                   {"bias", parameter_like(golden.at("start.bias")), false, {}}};
  AdamW optimizer(segments, {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.2});
  for (auto& segment : segments)
    segment.parameter.mutable_grad() = golden.at("grad.0." + segment.name).to(segment.parameter.scalar_type());
  optimizer.step(1e-2);
  EXPECT_EQ(optimizer.state()[0].at("exp_avg").scalar_type(), at::kBFloat16);
  expect_close(segments[0].parameter, golden.at("param.0.weight"), 1e-2, "weight");  // bf16: 8 bits of mantissa
  expect_close(segments[1].parameter, golden.at("param.0.bias"), kFp32, "bias");
}

TEST(AdamW, StateHandlesImportAndExport) {
  const auto golden = load_golden("optim/adamw.safetensors");
  const auto run = [&](AdamW& optimizer, at::Tensor parameter, int from, int to) {
    for (int step = from; step < to; ++step) {
      parameter.mutable_grad() = golden.at(fmt::format("grad.{}.weight", step)).clone();
      optimizer.step(1e-2);
    }
  };
  auto whole = parameter_like(golden.at("start.weight"));
  AdamW one({{"weight", whole, true, {}}}, {});
  run(one, whole, 0, 4);

  auto first = parameter_like(golden.at("start.weight"));
  AdamW before({{"weight", first, true, {}}}, {});
  run(before, first, 0, 2);
  auto second = parameter_like(first.detach());
  AdamW after({{"weight", second, true, {}}}, {});
  after.state()[0].at("exp_avg").copy_(before.state()[0].at("exp_avg"));
  after.state()[0].at("exp_avg_sq").copy_(before.state()[0].at("exp_avg_sq"));
  after.state()[0].at("step").copy_(before.state()[0].at("step"));
  run(after, second, 2, 4);
  EXPECT_TRUE(second.equal(whole));
}

/// Equal elements are the worst case of sums in fp32: torch's own norm of these on the CPU is 1 % low and more.
TEST(GradNorm, IsRightForManyEqualElements) {
  constexpr int64_t kCount = (int64_t{1} << 26) + 77;
  const at::Tensor same = at::full({kCount}, 0.1f);
  const double expected = static_cast<double>(kCount) * static_cast<double>(0.1f) * static_cast<double>(0.1f);
  EXPECT_NEAR(squared_norm({same, at::Tensor(), at::empty({0})}).item<double>() / expected, 1, 1e-6);
  EXPECT_NEAR(squared_norm({same.view({kCount, 1}).narrow(0, 0, 1001).expand({1001, 3})}).item<double>(), 30.03,
              1e-6 * 30.03);  // overlaps in memory
  EXPECT_NEAR(squared_norm({at::full({1 << 20}, 0.5, at::kBFloat16)}).item<double>(), (1 << 20) * 0.25,
              1e-6 * (1 << 18));
}

TEST(GradNorm, ZerosAreCounted) {
  EXPECT_EQ(count_zeros({at::arange(6).remainder(3).to(at::kFloat).view({2, 3}), at::Tensor(), at::empty({0}),
                         at::zeros({5}, at::kBFloat16)})
                .item<double>(),
            2 + 5);
  EXPECT_EQ(count_zeros({}).item<double>(), 0);
}

TEST(GradNorm, EmptyListIsZero) { EXPECT_EQ(summarise_gradients({}, 1.0, {}).norm.item<float>(), 0.0f); }

}  // namespace
}  // namespace lockstep::optim
