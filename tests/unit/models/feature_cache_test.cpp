#include "models/feature_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/drawn_weights.h"

namespace lockstep::models {
namespace {

using Keys = std::vector<std::string>;

/// A tower of one matrix that counts the rows it computes.
struct CountingTower {
  at::Tensor weight = tests::drawn("weight", {4, 3});
  int64_t num_rows = 0;

  at::Tensor operator()(const at::Tensor& rows) {
    num_rows += rows.size(0);
    return rows.matmul(weight);
  }
};

at::Tensor rows_of(const at::Tensor& all, at::IntArrayRef index) {
  return all.index_select(0, at::tensor(index, at::kLong));
}

TEST(FeatureCache, WhatComesAgainIsNotComputedAgain) {
  FeatureCache cache(1 << 20, at::kCPU);
  CountingTower tower;
  const auto compute = [&](const at::Tensor& rows) { return tower(rows); };
  const at::Tensor input = tests::drawn("input", {5, 4});
  const at::Tensor first = cache.features({"0", "1", "2"}, input.narrow(0, 0, 3), compute);
  EXPECT_EQ(tower.num_rows, 3);
  EXPECT_TRUE(first.equal(input.narrow(0, 0, 3).matmul(tower.weight))) << "as without a cache";
  const at::Tensor mixed = cache.features({"2", "3", "0", "4"}, rows_of(input, {2, 3, 0, 4}), compute);
  EXPECT_EQ(tower.num_rows, 5) << "3 and 4 alone";
  EXPECT_TRUE(mixed.allclose(rows_of(input, {2, 3, 0, 4}).matmul(tower.weight), 1e-6, 1e-7));
  EXPECT_TRUE(mixed[2].equal(first[0]));
  const at::Tensor known = cache.features({"4", "1"}, rows_of(input, {4, 1}), compute);
  EXPECT_EQ(tower.num_rows, 5);
  EXPECT_TRUE(known[1].equal(first[1]));
  EXPECT_TRUE(known[0].equal(mixed[3]));
  EXPECT_EQ(cache.num_asked(), 9);
  EXPECT_EQ(cache.num_found(), 4);
  cache.features({"4"}, rows_of(input, {4}), compute, /*is_counted=*/false);
  EXPECT_EQ(cache.num_asked(), 9);
  EXPECT_EQ(cache.num_found(), 4);
}

TEST(FeatureCache, AFullOneComputesTheRestEachTime) {
  FeatureCache cache(3 * 4 + 1 + 96, at::kCPU);  // one row
  CountingTower tower;
  const auto compute = [&](const at::Tensor& rows) { return tower(rows); };
  const at::Tensor input = tests::drawn("input", {2, 4});
  for (int pass = 0; pass < 3; ++pass)
    EXPECT_TRUE(cache.features({"0", "1"}, input, compute).allclose(input.matmul(tower.weight), 1e-6, 1e-7));
  EXPECT_EQ(tower.num_rows, 2 + 1 + 1);
  EXPECT_EQ(cache.num_found(), 2);
}

TEST(FeatureCache, FeaturesHaveNoGradient) {
  FeatureCache cache(1 << 20, at::kCPU);
  CountingTower tower;
  tower.weight.set_requires_grad(true);
  const at::Tensor input = tests::drawn("input", {2, 4});
  for (int pass = 0; pass < 2; ++pass)
    EXPECT_FALSE(
        cache.features({"0", "1"}, input, [&](const at::Tensor& rows) { return tower(rows); }).requires_grad());
}

}  // namespace
}  // namespace lockstep::models
