#include "tasks/contrastive/front/memory_plan.h"

#include <gtest/gtest.h>

#include "tasks/contrastive/front/contrastive_dry_run_memory.h"
#include "tasks/contrastive/front/contrastive_options.h"

namespace lockstep::tasks {
namespace {

TEST(MemoryPlan, ParametersGradientsAndMomentsAreExact) {
  const auto shape = config::resolve_clip_shape("ViT-B-32");
  const double parameters = static_cast<double>(config::clip_cost(shape).parameters());
  const auto fp32 = plan_contrastive_memory({shape}, {.precision = "fp32", .micro_batch_size = 8, .global_batch = 8});
  EXPECT_EQ(fp32.parameters, 4 * parameters);
  EXPECT_EQ(fp32.gradients, 4 * parameters);
  EXPECT_EQ(fp32.optimizer, 8 * parameters);
  const auto pure =
      plan_contrastive_memory({shape}, {.precision = "pure_bf16", .micro_batch_size = 8, .global_batch = 8});
  EXPECT_EQ(pure.parameters, 2 * parameters);
  EXPECT_EQ(pure.optimizer, 4 * parameters);
  const auto amp =
      plan_contrastive_memory({shape}, {.precision = "amp_bf16", .micro_batch_size = 8, .global_batch = 8});
  EXPECT_EQ(amp.parameters, fp32.parameters);
  EXPECT_LT(amp.activations, fp32.activations);
  EXPECT_GT(amp.activations, pure.activations);
}

TEST(MemoryPlan, Zero1DividesMomentsAndMasters) {
  const auto shape = config::resolve_clip_shape("ViT-H-14");
  const double parameters = static_cast<double>(config::clip_cost(shape).parameters());
  const MemoryPlanInput whole{.precision = "bf16_master", .micro_batch_size = 112, .global_batch = 3584};
  MemoryPlanInput shared = whole;
  shared.optimizer_shards = 32;
  const auto one = plan_contrastive_memory({shape}, whole), many = plan_contrastive_memory({shape}, shared);
  EXPECT_EQ(one.parameters + one.gradients + one.optimizer + one.masters, 16 * parameters);  // 2 + 2 + 8 + 4 bytes
  EXPECT_EQ(one.masters, 4 * parameters);
  EXPECT_NEAR(many.optimizer, 8 * parameters / 32, 1);
  EXPECT_NEAR(many.masters, 4 * parameters / 32, 1);
  EXPECT_EQ(many.parameters + many.gradients, 4 * parameters);
  EXPECT_NEAR(one.total() - many.total(), 12 * parameters * 31 / 32, 100);
  shared.has_fp32_gradients = true;
  EXPECT_EQ(plan_contrastive_memory({shape}, shared).gradients, 4 * parameters);
}

TEST(MemoryPlan, ActivationsGrowWithTheBatchAndShrinkWithRecomputation) {
  for (const char* model : {"ViT-B-32", "RN50"}) {
    const auto shape = config::resolve_clip_shape(model);
    const auto small = plan_contrastive_memory({shape}, {.micro_batch_size = 8, .global_batch = 8});
    const auto large = plan_contrastive_memory({shape}, {.micro_batch_size = 24, .global_batch = 24});
    EXPECT_DOUBLE_EQ(large.activations, 3 * small.activations) << model;
    EXPECT_DOUBLE_EQ(large.logits, 9 * small.logits) << model;
    EXPECT_EQ(large.optimizer, small.optimizer) << model;
    const auto recomputed =
        plan_contrastive_memory({shape}, {.micro_batch_size = 24, .global_batch = 24, .grad_checkpointing = true});
    EXPECT_LT(recomputed.activations, large.activations) << model;
  }
}

TEST(MemoryPlan, SoundsAndTextsOfClapAreCounted) {
  const config::ContrastiveShape tiny{config::resolve_clap_shape("HTSAT-tiny-Roberta-base")},
      base{config::resolve_clap_shape("HTSAT-base-Roberta-base")};
  const MemoryPlanInput input{
      .precision = "amp_bf16", .micro_batch_size = 8, .global_batch = 8, .keeps_attention = true};
  const auto plan = plan_contrastive_memory(tiny, input);
  const auto trained = static_cast<double>(config::contrastive_cost(tiny).parameters);
  EXPECT_EQ(plan.gradients, 4 * trained);
  EXPECT_EQ(plan.optimizer, 8 * trained);
  EXPECT_GT(plan.parameters, 4 * trained);  // what is carried
  EXPECT_EQ(plan.batch, 8 * (480000.0 * 4 + 77 * 8));
  EXPECT_GT(plan_contrastive_memory(base, input).activations, 1.3 * plan.activations);
  MemoryPlanInput recomputed = input;
  recomputed.grad_checkpointing = true;
  EXPECT_LT(plan_contrastive_memory(tiny, recomputed).activations, plan.activations / 2);
  MemoryPlanInput large = input;
  large.micro_batch_size = 24;
  EXPECT_DOUBLE_EQ(plan_contrastive_memory(tiny, large).activations, 3 * plan.activations);
  MemoryPlanInput device = input;
  device.batches_held = 2;
  EXPECT_EQ(plan_contrastive_memory(tiny, device).batch, 2 * plan.batch);
  EXPECT_EQ(plan_contrastive_memory(tiny, device).total(), plan.total() + plan.batch);
}

/// A fused kernel reads queries, keys and values where their product wrote them: 3 widths, with copies by head 6. The
/// last block keeps norm, keys and values of all tokens, and the rest of one.
TEST(MemoryPlan, WhatBlocksOfAClipModelKeepOnAGpuIsCounted) {
  const auto shape = config::resolve_clip_shape("ViT-B-32");
  const auto planned = [&](bool keeps_attention) {
    return plan_contrastive_memory(
               {shape},
               {.precision = "amp_bf16", .micro_batch_size = 1, .global_batch = 1, .keeps_attention = keeps_attention})
        .activations;
  };
  const auto of_stack = [](double tokens, double width) {
    const double block = 2 * width * 4 + (2 + 3 + 1 + 2 * 4) * width * 2;  // of a token
    const double last = width * 4 + (1 + 2) * width * 2;
    return 11 * tokens * block + tokens * last + block;
  };
  EXPECT_DOUBLE_EQ(planned(/*keeps_attention=*/false), of_stack(50, 768) + of_stack(77, 512));
  EXPECT_GT(planned(/*keeps_attention=*/true), 1.1 * planned(false));
}

/// Autocast computes the softmax of windows in fp32 and keeps it, beside the copy that the next product reads.
TEST(MemoryPlan, ProbabilitiesOfWindowsAreKeptTwiceUnderAutocastOnAGpu) {
  const config::ContrastiveShape clap{config::resolve_clap_shape("HTSAT-tiny-Roberta-base")};
  const auto planned = [&](const char* precision, bool keeps_attention) {
    return plan_contrastive_memory(
               clap,
               {.precision = precision, .micro_batch_size = 1, .global_batch = 1, .keeps_attention = keeps_attention})
        .activations;
  };
  // Tokens x heads x tokens of a window, of 2, 2, 6 and 2 blocks.
  const double probabilities = 64.0 * (2 * 4096 * 4 + 2 * 1024 * 8 + 6 * 256 * 16 + 2 * 64 * 32);
  // On the CPU the windows keep none, and the twelve layers of texts theirs: 12 heads x 77 tokens.
  const double of_texts = 12.0 * 77 * 12 * 77;
  EXPECT_DOUBLE_EQ(planned("amp_bf16", false) - planned("amp_bf16", true), probabilities * (4 + 2) - of_texts * 2);
  EXPECT_DOUBLE_EQ(planned("fp32", false) - planned("fp32", true), (probabilities - of_texts) * 4);
  EXPECT_DOUBLE_EQ(planned("pure_bf16", false) - planned("pure_bf16", true), (probabilities - of_texts) * 2);
}

TEST(MemoryPlan, LogitsAreHeldInTiles) {
  const auto shape = config::resolve_clip_shape("ViT-B-32");
  const auto small = plan_contrastive_memory({shape}, {.micro_batch_size = 100, .global_batch = 200});
  EXPECT_EQ(small.logits, 3 * 2 * 100 * 200 * 4);
  const auto large = plan_contrastive_memory(
      {shape}, {.micro_batch_size = 616, .global_batch = 315392});  // 0.78 GB a direction, were they held at once
  EXPECT_EQ(large.logits, 3.0 * (64 << 20));
}

TEST(MemoryPlan, ATeachersLogitsAreHeldInTilesToo) {
  const config::ContrastiveShape shape{config::resolve_clip_shape("ViT-B-32")};
  const auto logits = [&](int64_t micro, int64_t global, double teacher_parameters) {
    return plan_contrastive_memory(
               shape, {.micro_batch_size = micro, .global_batch = global, .teacher_parameters = teacher_parameters})
        .logits;
  };
  EXPECT_EQ(logits(100, 200, 1e6) - logits(100, 200, 0), 4 * 100 * 200 * 4);
  EXPECT_EQ(logits(616, 315392, 1e6) - logits(616, 315392, 0), 4.0 * (32 << 20));
}

TEST(MemoryPlan, CachedFeaturesAreCountedWhereTheyLie) {
  ContrastiveOptions options;
  options.model = "ViT-B-32";
  options.lock_text = true;
  options.cache_locked_features = "3G";
  const config::ContrastiveShape shape = contrastive_shape_of(options);
  const auto planned = [&](bool is_gpu) {
    return planned_memory(options, shape, {.micro_batch_size = 8, .num_micro_batches = 1, .global_batch = 8}, 1,
                          RankMemory{.bytes = 1e12, .source = "", .is_gpu = is_gpu});
  };
  const double bytes = static_cast<double>(int64_t{3} << 30);
  EXPECT_EQ(planned(/*is_gpu=*/false).cached_features, bytes);
  EXPECT_EQ(planned(/*is_gpu=*/true).cached_features, 0) << "host memory";
  options.cache_locked_features.clear();
  const double without = planned(/*is_gpu=*/false).total();
  options.cache_locked_features = "3G";
  EXPECT_EQ(planned(/*is_gpu=*/false).total(), without + bytes);
}

}  // namespace
}  // namespace lockstep::tasks
