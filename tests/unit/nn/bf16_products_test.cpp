#include "nn/bf16_products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using Tensors = std::vector<at::Tensor>;
using Compute = std::function<at::Tensor(const Tensors&)>;

/// The result and the gradients of its inputs, of their numbers in `type`.
Tensors results_in(at::ScalarType type, const Tensors& inputs, const Compute& compute) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.to(type).clone().requires_grad_());
  const at::Tensor out = compute(leaves);
  at::manual_seed(3);
  out.backward(at::randn(out.sizes()).to(at::kBFloat16).to(type));
  Tensors all{out.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

Tensors bf16_numbers(std::vector<std::vector<int64_t>> shapes) {
  at::manual_seed(11);
  Tensors all;
  for (const auto& shape : shapes) all.push_back(at::randn(shape).to(at::kBFloat16));
  return all;
}

/// Half a unit in the last place of a bf16 number is at most 2^-8 of it.
constexpr double kOneRounding = 1.0 / 256 + 1e-5;

void expect_one_rounding(const Tensors& inputs, const Compute& compute) {
  const Tensors expected = results_in(at::kDouble, inputs, compute);
  const Bf16Products products;
  const Tensors seen = results_in(at::kBFloat16, inputs, compute);
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i].scalar_type(), at::kBFloat16) << i;
    const at::Tensor apart = (seen[i].to(at::kDouble) - expected[i]).abs();
    const double beside_rounding = 1e-5 * expected[i].abs().max().item<double>();  // sums in fp32
    EXPECT_TRUE((apart <= expected[i].abs() * kOneRounding + beside_rounding).all().item<bool>())
        << i << ": " << tests::relative_difference(seen[i], expected[i]);
  }
}

TEST(Bf16Products, OfMatricesAreRoundedOnce) {
  expect_one_rounding(bf16_numbers({{130, 200}, {70, 200}, {70}}),
                      [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); });
  expect_one_rounding(bf16_numbers({{5, 26, 200}, {70, 200}, {70}}),
                      [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); });
  expect_one_rounding(bf16_numbers({{30, 40}, {40, 50}}), [](const Tensors& t) { return t[0].matmul(t[1]); });
  expect_one_rounding(bf16_numbers({{6, 30, 40}, {6, 40, 50}}), [](const Tensors& t) { return at::bmm(t[0], t[1]); });
  expect_one_rounding(bf16_numbers({{6, 30, 50}, {6, 30, 40}, {6, 40, 50}}),
                      [](const Tensors& t) { return at::baddbmm(t[0], t[1], t[2], 1.0, 0.125); });
}

TEST(Bf16Products, WrittenIntoATensorAreRoundedOnce) {
  const Tensors t = bf16_numbers({{30, 50}, {30, 40}, {40, 50}});
  const at::Tensor exact = t[1].to(at::kDouble).mm(t[2].to(at::kDouble));
  const Bf16Products products;
  at::Tensor out = at::empty({30, 50}, at::kBFloat16), sum = t[0].clone();
  at::mm_out(out, t[1], t[2]);
  EXPECT_TRUE(at::equal(out, t[1].to(at::kFloat).mm(t[2].to(at::kFloat)).to(at::kBFloat16)));
  sum.addmm_(t[1], t[2], 0.5, 2.0);
  const at::Tensor expected = t[0].to(at::kDouble) * 0.5 + exact * 2.0;
  EXPECT_TRUE(((sum.to(at::kDouble) - expected).abs() <= expected.abs() * kOneRounding + 1e-3).all().item<bool>());
}

TEST(Bf16Products, OfConvolutionsAreRoundedOnce) {
  // By minimal filtering where winograd_conv() is taken.
  expect_one_rounding(bf16_numbers({{2, 32, 16, 16}, {32, 32, 3, 3}}), [](const Tensors& t) {
    return at::conv2d(t[0].contiguous(at::MemoryFormat::ChannelsLast), t[1], {}, {1, 1}, {1, 1});
  });
  for (const int64_t groups : {1, 4}) {
    expect_one_rounding(bf16_numbers({{2, 8, 9, 10}, {16, 8 / groups, 3, 3}, {16}}), [groups](const Tensors& t) {
      return at::conv2d(t[0], t[1], t[2], {2, 2}, {1, 1}, {1, 1}, groups);
    });
  }
}

TEST(Bf16Products, OfAttentionAreNearThoseOfExactNumbers) {
  const Tensors inputs = bf16_numbers({{2, 3, 40, 16}, {2, 3, 40, 16}, {2, 3, 40, 16}});
  for (const bool is_causal : {false, true}) {
    const Compute attend = [is_causal](const Tensors& t) {
      return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, is_causal);
    };
    const Tensors expected = results_in(at::kDouble, inputs, attend);
    const Bf16Products products;
    const Tensors seen = results_in(at::kBFloat16, inputs, attend);
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].scalar_type(), at::kBFloat16);
      EXPECT_LT(tests::relative_difference(seen[i], expected[i]), 0.01) << i;  // gradients read the rounded result
    }
  }
}

TEST(Bf16Products, LeaveOtherTypesAlone) {
  at::manual_seed(5);
  const at::Tensor a = at::randn({64, 48}), b = at::randn({48, 32}), x = at::randn({2, 8, 9, 9}),
                   weight = at::randn({4, 8, 3, 3});
  const at::Tensor product = a.mm(b), convolved = at::conv2d(x, weight);
  const Bf16Products products;
  EXPECT_TRUE(at::equal(a.mm(b), product));
  EXPECT_TRUE(at::equal(at::conv2d(x, weight), convolved));
  EXPECT_EQ(a.to(at::kDouble).mm(b.to(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(Bf16Products, AreThoseOfFp32NumbersToTheBit) {
  const Tensors t = bf16_numbers({{8, 4096}, {4096, 8}});
  const Bf16Products products;
  EXPECT_TRUE(at::equal(t[0].mm(t[1]), t[0].to(at::kFloat).mm(t[1].to(at::kFloat)).to(at::kBFloat16)));
}

}  // namespace
}  // namespace lockstep::nn
