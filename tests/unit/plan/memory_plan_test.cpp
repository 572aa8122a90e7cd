#include "plan/memory_plan.h"

#include <gtest/gtest.h>

namespace lockstep::plan {
namespace {

TEST(MemoryPlan, ParametersGradientsAndMomentsAreExact) {
  const auto shape = spec::resolve_clip_shape("ViT-B-32");
  const double parameters = static_cast<double>(spec::clip_cost(shape).parameters());
  const auto fp32 = plan_clip_memory(shape, {.precision = "fp32", .samples_per_micro = 8, .global_batch = 8});
  EXPECT_EQ(fp32.parameters, 4 * parameters);
  EXPECT_EQ(fp32.gradients, 4 * parameters);
  EXPECT_EQ(fp32.optimizer, 8 * parameters);
  const auto pure = plan_clip_memory(shape, {.precision = "pure_bf16", .samples_per_micro = 8, .global_batch = 8});
  EXPECT_EQ(pure.parameters, 2 * parameters);
  EXPECT_EQ(pure.optimizer, 4 * parameters);
  const auto amp = plan_clip_memory(shape, {.precision = "amp_bf16", .samples_per_micro = 8, .global_batch = 8});
  EXPECT_EQ(amp.parameters, fp32.parameters);
  EXPECT_LT(amp.activations, fp32.activations);
  EXPECT_GT(amp.activations, pure.activations);
}

TEST(MemoryPlan, ActivationsGrowWithTheBatchAndShrinkWithRecomputation) {
  for (const char* model : {"ViT-B-32", "RN50"}) {
    const auto shape = spec::resolve_clip_shape(model);
    const auto small = plan_clip_memory(shape, {.samples_per_micro = 8, .global_batch = 8});
    const auto large = plan_clip_memory(shape, {.samples_per_micro = 24, .global_batch = 24});
    EXPECT_DOUBLE_EQ(large.activations, 3 * small.activations) << model;
    EXPECT_DOUBLE_EQ(large.logits, 9 * small.logits) << model;
    EXPECT_EQ(large.optimizer, small.optimizer) << model;
    const auto recomputed = plan_clip_memory(shape, {.samples_per_micro = 24, .global_batch = 24, .grad_checkpointing = true});
    EXPECT_LT(recomputed.activations, large.activations) << model;
  }
}

TEST(MemoryPlan, LocalLossNeedsOnlyItsOwnRows) {
  const auto shape = spec::resolve_clip_shape("ViT-B-32");
  // 616 pairs a device against 315,392: 0.78 GB for one matrix of similarities
  const auto local = plan_clip_memory(shape, {.samples_per_micro = 616, .global_batch = 315392, .local_loss = true});
  EXPECT_NEAR(local.logits / 6 / 1e9, 0.777, 0.001);
}

}  // namespace
}  // namespace lockstep::plan
