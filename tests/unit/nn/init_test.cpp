#include "nn/init.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "nn/layers.h"

namespace lockstep::nn {
namespace {

using Kind = config::InitLaw::Kind;

config::ParamSpec law(Kind kind, std::vector<int64_t> shape, double mean, double deviation,
                      std::string name = "weight") {
  return {.name = std::move(name), .shape = std::move(shape), .init = {kind, mean, deviation}};
}

at::Tensor drawn(const config::ParamSpec& spec, uint64_t seed) {
  at::Tensor tensor = at::empty(spec.shape);
  initialize(tensor, spec, seed);
  return tensor;
}

TEST(Init, MomentsAreThoseOfTheLaw) {
  // Bounds are five standard errors of a million draws.
  const at::Tensor normal = (drawn(law(Kind::kNormal, {1'000'001}, 0.5, 2.0), 1).to(at::kDouble) - 0.5) / 2.0;
  EXPECT_NEAR(normal.mean().item<double>(), 0.0, 5e-3);
  EXPECT_NEAR(normal.square().mean().item<double>(), 1.0, 5e-3 * std::sqrt(2.0));
  EXPECT_NEAR(normal.pow(4).mean().item<double>(), 3.0, 5e-3 * std::sqrt(96.0));
  const at::Tensor uniform = drawn(law(Kind::kUniform, {1'000'001}, 0.0, 0.25), 1).to(at::kDouble);
  EXPECT_NEAR(uniform.mean().item<double>(), 0.0, 5e-3 * 0.25 / std::sqrt(3.0));
  EXPECT_NEAR(uniform.square().mean().item<double>(), 0.0625 / 3, 5e-3 * 0.0625 * std::sqrt(4.0 / 45));
  EXPECT_GE(uniform.min().item<double>(), -0.25);
  EXPECT_LT(uniform.max().item<double>(), 0.25);
  EXPECT_TRUE(drawn(law(Kind::kConstant, {3}, 4.5, 0), 1).equal(at::full({3}, 4.5)));
  EXPECT_TRUE(drawn(law(Kind::kOnes, {3}, 0, 0), 1).equal(at::ones({3})));
  EXPECT_TRUE(drawn(law(Kind::kZeros, {3}, 0, 0), 1).equal(at::zeros({3})));
}

TEST(Init, NeighboursAreUncorrelated) {
  const at::Tensor x = drawn(law(Kind::kNormal, {400'000}, 0.0, 1.0), 3).to(at::kDouble);
  for (const int64_t lag : {1, 2, 3, 4, 8}) {
    const int64_t count = x.numel() - lag;
    EXPECT_LT(std::abs((x.narrow(0, 0, count) * x.narrow(0, lag, count)).mean().item<double>()), 5.0 / 632) << lag;
  }
}

TEST(Init, DependsOnSeedAndName) {
  const at::Tensor base = drawn(law(Kind::kNormal, {100}, 0, 1), 1);
  EXPECT_TRUE(drawn(law(Kind::kNormal, {100}, 0, 1), 1).equal(base));
  EXPECT_FALSE(drawn(law(Kind::kNormal, {100}, 0, 1), 2).equal(base));
  EXPECT_FALSE(drawn(law(Kind::kNormal, {100}, 0, 1, "other"), 1).equal(base));
}

TEST(Init, SlicesAreTheElementsOfTheWhole) {
  for (const Kind kind : {Kind::kNormal, Kind::kUniform}) {
    const auto spec = law(kind, {6, 7, 5}, 0.0, 1.0);
    const at::Tensor whole = drawn(spec, 9);
    for (const auto& [dim, begin, count] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{0, 2, 3}, {1, 1, 5}, {2, 3, 2}}) {
      std::vector<int64_t> shape = spec.shape;
      shape[static_cast<size_t>(dim)] = count;
      at::Tensor slice = at::empty(shape);
      initialize_slice(slice, spec, 9, dim, begin);
      EXPECT_TRUE(slice.equal(whole.narrow(dim, begin, count))) << dim;
    }
  }
}

TEST(Init, NumberOfThreadsDoesNotMatter) {
  const auto spec = law(Kind::kNormal, {1'100'003}, 0.0, 1.0);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = drawn(spec, 4);
  at::set_num_threads(3);
  const at::Tensor three = drawn(spec, 4);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
}

TEST(Init, AnyTypeAndStrides) {
  const auto spec = law(Kind::kNormal, {4, 3, 5, 5}, 0.0, 1.0);
  const at::Tensor whole = drawn(spec, 2);
  at::Tensor half = at::empty(spec.shape, at::kBFloat16),
             strided = at::empty(spec.shape).contiguous(at::MemoryFormat::ChannelsLast);
  initialize(half, spec, 2);
  initialize(strided, spec, 2);
  EXPECT_TRUE(half.equal(whole.to(at::kBFloat16)));
  EXPECT_TRUE(strided.equal(whole));
  EXPECT_TRUE(strided.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(Init, TheStreamIsPinned) {  // parameters of published runs must stay reproducible
  const at::Tensor normal = drawn(law(Kind::kNormal, {3}, 0.0, 1.0, "visual.proj"), 0);
  const at::Tensor uniform = drawn(law(Kind::kUniform, {3}, 0.0, 1.0, "visual.proj"), 0);
  const std::vector<double> expected_normal{1.13676059, 0.33301115, -0.22703013},
      expected_uniform{0.99162197, 0.09071004, -0.57044899};
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(normal[i].item<double>(), expected_normal[static_cast<size_t>(i)],
                1e-6);  // libm may differ in the last bit
    EXPECT_NEAR(uniform[i].item<double>(), expected_uniform[static_cast<size_t>(i)], 1e-7);
  }
}

TEST(Init, WrongShapeOrNameIsAnInvariant) {
  at::Tensor tensor = at::empty({4});
  EXPECT_THROW(initialize(tensor, law(Kind::kZeros, {5}, 0, 0), 0), Error);
  Linear linear(2, 3, {});
  EXPECT_THROW(initialize(linear, {law(Kind::kZeros, {3, 2}, 0, 0, "weight")}, 0), Error);
  EXPECT_THROW(initialize(linear, {law(Kind::kZeros, {3, 2}, 0, 0, "weight"), law(Kind::kZeros, {3}, 0, 0, "bia")}, 0),
               Error);
}

}  // namespace
}  // namespace lockstep::nn
