// Passes over memory: which of them tensor ranks share.
#include "plan/gpt_memory_bound.h"

#include <gtest/gtest.h>

namespace lockstep::plan {
namespace {

config::GptShape four_layers() {
  return {.name = "small",
          .layers = 4,
          .hidden = 64,
          .heads = 8,
          .query_groups = 8,
          .head_width = 8,
          .ffn = 256,
          .vocab = 256,
          .vocab_multiple = 32,
          .sequence = 32,
          .max_positions = 32,
          .hidden_dropout = 0,
          .attention_dropout = 0};
}

MemoryBoundBytes bytes_of(const config::GptShape& shape, const GptLayoutRequest& request,
                          const GptMemoryInput& input = {}) {
  return count_memory_bound_bytes(make_gpt_layout(shape, request), 0, input);
}

// 32 tokens of width 64 in fp32: 8192 bytes a pass.
TEST(GptMemoryBound, OneLayerByHand) {
  config::GptShape shape = four_layers();
  const double hidden = 32 * 64 * 4;
  const auto replicated = [&](int64_t layers) {
    shape.layers = layers;
    return bytes_of(shape, {.world_size = 1, .global_batch = 1}).replicated;
  };
  // Two norms of 2 + 3 passes, two sums of 3 + 3, two gradients of a bias.
  EXPECT_DOUBLE_EQ(replicated(2) - replicated(1), hidden * (2 * 5 + 2 * 6 + 2));
  // Embedding 2, positions 3, last norm 5.
  EXPECT_DOUBLE_EQ(2 * replicated(1) - replicated(2), hidden * (2 + 3 + 5));
}

// The loss reads the logits once for the statistics of a row, and once more to write their gradient over them.
TEST(GptMemoryBound, LogitsAndActivationByHand) {
  const auto divided = [&](int64_t vocab, bool early, int64_t ffn, config::GptActivation activation) {
    config::GptShape shape = four_layers();
    shape.vocab = vocab, shape.ffn = ffn, shape.activation = activation;
    return bytes_of(shape, {.world_size = 1, .global_batch = 1}, {.early_loss_gradients = early}).divided;
  };
  constexpr auto kGelu = config::GptActivation::kGeluTanh, kSquared = config::GptActivation::kSquaredRelu;
  const double logits = 32 * 256 * 4, table = 256 * 64 * 4;
  // Of a row of the table: two passes of its gradient here, one of the embedding's, three that add it to the step's.
  EXPECT_DOUBLE_EQ(divided(512, true, 256, kGelu) - divided(256, true, 256, kGelu), 3 * logits + 6 * table);
  EXPECT_DOUBLE_EQ(divided(512, false, 256, kGelu) - divided(256, false, 256, kGelu), 4 * logits + 6 * table);
  // The gradient of GELU's bias is a part of its own; squared ReLU has twice as many passes and one for the bias.
  EXPECT_DOUBLE_EQ(divided(256, true, 256, kSquared) - divided(256, true, 256, kGelu),
                   4 * 32 * 256 * 4 * (10 + 1 - 5.0));
}

TEST(GptMemoryBound, TensorRanksRepeatWhatSequenceParallelismShares) {
  const MemoryBoundBytes one = bytes_of(four_layers(), {.world_size = 1, .global_batch = 2}),
                         four = bytes_of(four_layers(), {.world_size = 4, .tp = 4, .global_batch = 2}),
                         split = bytes_of(four_layers(),
                                          {.world_size = 4, .tp = 4, .is_sequence_parallel = true, .global_batch = 2});
  EXPECT_EQ(one.repeated, 0);
  EXPECT_GE(four.replicated, one.replicated);
  EXPECT_DOUBLE_EQ(four.repeated, 0.75 * four.replicated);
  EXPECT_DOUBLE_EQ(split.replicated, four.replicated / 4);
  EXPECT_EQ(split.repeated, 0);
  EXPECT_NEAR(four.divided, one.divided / 4, 0.01 * one.divided);  // norms and biases are held by all
}

TEST(GptMemoryBound, WhatIsComputedAgainOrDrawnIsCounted) {
  const GptLayoutRequest request{.world_size = 1, .global_batch = 2};
  const double plain = bytes_of(four_layers(), request).total();
  config::GptShape dropped = four_layers();
  dropped.hidden_dropout = 0.1;
  // Embedding and two places in each of four layers, two micro-batches; read and written in either direction.
  EXPECT_DOUBLE_EQ(bytes_of(dropped, request).total() - plain, 2 * 9 * 32 * 64 * 4 * 4.0);
  const double scores = bytes_of(four_layers(), request, {.kept_scores = 1000}).total();
  EXPECT_DOUBLE_EQ(scores - plain, 2 * 4 * 8 * 1000 * 4 * 5.0);  // of a softmax
  const auto again = [&](config::GptRecompute recompute) {
    return bytes_of(four_layers(), request, {.recompute = recompute, .kept_scores = 1000}).total();
  };
  EXPECT_GT(again(config::GptRecompute::kSelective), scores);
  EXPECT_GT(again(config::GptRecompute::kUniform), again(config::GptRecompute::kSelective));
}

TEST(GptMemoryBound, MicroBatchesAddUpAndStagesShare) {
  const double one = bytes_of(four_layers(), {.world_size = 1, .global_batch = 1}).total();
  EXPECT_DOUBLE_EQ(bytes_of(four_layers(), {.world_size = 1, .global_batch = 6}).total(), 6 * one);
  const GptLayout layout = make_gpt_layout(four_layers(), {.world_size = 2, .pp = 2, .global_batch = 2});
  const double first = count_memory_bound_bytes(layout, 0, {}).total(),
               last = count_memory_bound_bytes(layout, 1, {}).total();
  EXPECT_LT(first, 2 * one);
  EXPECT_GE(first + last, 2 * one);  // both hold the tied table
}

}  // namespace
}  // namespace lockstep::plan
