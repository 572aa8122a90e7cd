#include "plan/gpt_traffic.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"

namespace lockstep::plan {
namespace {

config::GptShape small(bool is_tied = true) {
  config::GptShape shape{.name = "small",
                         .layers = 4,
                         .hidden = 64,
                         .heads = 8,
                         .query_groups = 8,
                         .head_width = 8,
                         .ffn = 256,
                         .vocab = 250,
                         .vocab_multiple = 32,
                         .sequence = 32,
                         .max_positions = 32};
  shape.is_head_tied = is_tied;
  return shape;
}

std::vector<CollectiveCount> traffic_of(const GptLayout& layout, int stage, const GptTrafficInput& input = {}) {
  return predict_gpt_traffic(layout, make_pipe_schedule(layout.pipe), stage, input);
}

using Key = std::tuple<std::string, std::string, int64_t>;
std::map<Key, int64_t> merged(const std::vector<CollectiveCount>& traffic) {
  std::map<Key, int64_t> counts;
  for (const CollectiveCount& entry : traffic) counts[{entry.axis, entry.kind, entry.bytes}] += entry.count;
  return counts;
}

constexpr int64_t kLossAndNorm = 2;  // of 8 bytes each, over all ranks
Key world_key() { return {"world", "all_reduce", 8}; }

TEST(GptTraffic, OneRankSendsNothing) {
  EXPECT_TRUE(traffic_of(make_gpt_layout(small(), {.world_size = 1, .global_batch = 4}), 0).empty());
}

TEST(GptTraffic, TensorRanks) {
  const GptLayout layout =
      make_gpt_layout(small(), {.world_size = 2, .tp = 2, .micro_batch_size = 3, .global_batch = 6});
  const int64_t hidden = 32 * 3 * 64 * 4, loss = 2 * 3 * 32 * 3 * 4;
  // Two micro-batches; each layer 2 + 2, embedding 1, head 1; one gather for the loss.
  EXPECT_EQ(merged(traffic_of(layout, 0)), (std::map<Key, int64_t>{{{"tp", "all_reduce", hidden}, 2 * (4 * 4 + 2)},
                                                                   {{"tp", "all_gather", loss}, 2},
                                                                   {world_key(), kLossAndNorm}}));
  GptTrafficInput chunked{.loss_chunk_tokens = 40, .early_loss_gradients = false};
  const auto again = merged(traffic_of(layout, 0, chunked));
  EXPECT_EQ(again.at({"tp", "all_gather", 2 * 3 * 40 * 4}), 2 * 2 * 2) << "two whole chunks, two micro-batches, twice";
  EXPECT_EQ(again.at({"tp", "all_gather", 2 * 3 * 16 * 4}), 2 * 2) << "the rest of 96 tokens";
}

TEST(GptTraffic, SequenceParallelism) {
  const GptLayout layout =
      make_gpt_layout(small(), {.world_size = 4, .tp = 4, .is_sequence_parallel = true, .global_batch = 1});
  const int64_t hidden = 32 * 64 * 4, loss = 4 * 3 * 32 * 4;
  // Norms, biases of both output layers, positions: what every rank holds whole.
  const int64_t replicated = 4 * (2 * 2 * 64 + 2 * 64) + 2 * 64 + 32 * 64;
  EXPECT_EQ(merged(traffic_of(layout, 0)), (std::map<Key, int64_t>{{{"tp", "all_gather", hidden}, 4 * 6 + 1 + 1},
                                                                   {{"tp", "reduce_scatter", hidden}, 4 * 4 + 1 + 1},
                                                                   {{"tp", "all_gather", loss}, 1},
                                                                   {{"tp", "all_reduce", replicated * 4}, 1},
                                                                   {world_key(), kLossAndNorm}}));
  GptTrafficInput full{.recompute = config::GptRecompute::kUniform};
  EXPECT_EQ(merged(traffic_of(layout, 0, full)).at({"tp", "reduce_scatter", hidden}), 4 * 6 + 2);
  full.recompute = config::GptRecompute::kBlock;
  EXPECT_EQ(merged(traffic_of(layout, 0, full)).at({"tp", "reduce_scatter", hidden}), 4 * 4 + 2 + 2)
      << "one layer of the chunk";
}

TEST(GptTraffic, Fp8GathersBytesAndAgreesOnScales) {
  const GptLayout layout =
      make_gpt_layout(small(), {.world_size = 8, .tp = 4, .is_sequence_parallel = true, .global_batch = 4});
  const int64_t hidden = 32 * 64;
  GptTrafficInput input{.fp8 = Fp8Scaling::kDelayed};
  auto delayed = merged(traffic_of(layout, 0, input));
  EXPECT_EQ(delayed.at({"tp", "all_gather", hidden}), 2 * 4 * 6) << "two micro-batches, four layers";
  EXPECT_EQ(delayed.at({"tp", "all_gather", hidden * 4}), 2 * 2) << "embedding and head";
  EXPECT_EQ(delayed.at({"tp", "reduce_scatter", hidden * 4}), 2 * (4 * 4 + 2));
  EXPECT_EQ(delayed.at({"tp", "all_reduce", 4 * 12 * 4}), 1);
  EXPECT_EQ(delayed.at({"dp", "all_reduce", 4 * 12 * 4}), 1);
  input.fp8_spares_ends = true;
  delayed = merged(traffic_of(layout, 0, input));
  EXPECT_EQ(delayed.at({"tp", "all_gather", hidden}), 2 * 2 * 6);
  EXPECT_EQ(delayed.at({"tp", "all_gather", hidden * 4}), 2 * (2 * 6 + 2));
  EXPECT_EQ(delayed.at({"tp", "all_reduce", 2 * 12 * 4}), 1);
  // Each of two inner layers: four weights once; per micro-batch inputs and gradients of four linear layers.
  input.fp8 = Fp8Scaling::kTensorwise;
  EXPECT_EQ(merged(traffic_of(layout, 0, input)).at({"tp", "all_reduce", 4}), 2 * (4 + 2 * 8));
  const GptLayout whole_tokens = make_gpt_layout(small(), {.world_size = 8, .tp = 4, .global_batch = 4});
  EXPECT_EQ(merged(traffic_of(whole_tokens, 0, input)).at({"tp", "all_reduce", 4}), 2 * (4 + 2 * 4))
      << "what every rank holds whole needs none";
  EXPECT_FALSE(merged(traffic_of(whole_tokens, 0, input)).contains({"dp", "all_reduce", 4}));
}

TEST(GptTraffic, DataRanks) {
  GptLayoutRequest request{.world_size = 4, .global_batch = 8};
  GptTrafficInput input{.bytes = state_bytes(/*is_16bit=*/true, true), .bucket_elements = 20'000};
  const auto plain = traffic_of(make_gpt_layout(small(), request), 0, input);
  request.is_optimizer_sharded = true;
  const GptLayout sharded = make_gpt_layout(small(), request);
  int64_t reduced = 0, scattered = 0, gathered = 0;
  for (const CollectiveCount& entry : plain) {
    EXPECT_EQ(entry.kind, "all_reduce");
    if (entry.axis != "dp") continue;
    reduced += entry.bytes * entry.count;
  }
  for (const CollectiveCount& entry : traffic_of(sharded, 0, input))
    if (entry.axis == "dp") (entry.kind == "all_gather" ? gathered : scattered) += entry.bytes * entry.count;
  const int64_t parameters = config::gpt_cost(small()).parameters;
  EXPECT_GE(reduced, 4 * parameters);
  EXPECT_LT(reduced, 4 * parameters + 64 * 60) << "gaps of less than 64 bytes a parameter";
  EXPECT_GE(scattered, reduced);
  EXPECT_EQ(gathered * 2, scattered) << "bf16 parameters, fp32 gradients";
  EXPECT_EQ(ring_bytes(plain, "dp", 4), static_cast<double>(reduced) * 1.5);
  input.counts_tokens = true;
  EXPECT_EQ(merged(traffic_of(sharded, 0, input)).at({"dp", "all_reduce", 8}), 1) << "tokens that count in the loss";
}

TEST(GptTraffic, PipelineMessagesAndTiedEmbedding) {
  const GptLayoutRequest request{.world_size = 8,
                                 .tp = 2,
                                 .pp = 2,
                                 .is_sequence_parallel = true,
                                 .is_optimizer_sharded = true,
                                 .split = {.num_chunks = 2},
                                 .global_batch = 8};
  const int64_t message = 32 * 64 * 4 / 2;
  for (const bool is_tied : {true, false}) {
    const GptLayout layout = make_gpt_layout(small(is_tied), request);
    for (int stage = 0; stage < 2; ++stage) {
      auto counts = merged(traffic_of(layout, stage));
      // 4 micro-batches, 3 borders between 4 parts, forward and back: stage 0 sends over borders 0 and 2 forward and
      // over border 1 back.
      EXPECT_EQ(counts.at({"pp", "send", message}), 12);
      EXPECT_EQ(counts.at({"pp", "receive", message}), 12);
      const int64_t shard = 256 / 2 * 64 / 2 * 4;
      EXPECT_EQ(counts.contains({"embedding", "all_reduce", shard}), is_tied) << "half of the rank's rows";
    }
  }
}

TEST(GptTraffic, TiedEmbeddingHasTheSameShardsOnBothStages) {
  const GptLayout layout =
      make_gpt_layout(small(), {.world_size = 12, .pp = 2, .is_optimizer_sharded = true, .global_batch = 12});
  const auto segments = [&](int stage, int64_t shard) {
    std::vector<std::pair<int64_t, int64_t>> found;
    const auto params = layout.params_of(stage);
    for (const Bucket& bucket : gpt_buckets(layout, stage, {}))
      for (const ShardSegment& segment : shard_segments(bucket, layout.dp(), shard))
        if (params[static_cast<size_t>(segment.item)].name == "embedding.word.weight")
          found.emplace_back(segment.item_offset, segment.num_elements);
    return found;
  };
  int64_t covered = 0;
  for (int64_t shard = 0; shard < 6; ++shard) {
    EXPECT_EQ(segments(0, shard), segments(1, shard));
    for (const auto& [offset, count] : segments(0, shard)) covered += count;
  }
  EXPECT_EQ(covered, 256 * 64);
}

/// Each rank of a line of stages receives what its neighbours send.
TEST(GptTraffic, WhatIsSentIsReceived) {
  for (const int64_t chunks : {1, 2}) {
    const GptLayout layout =
        make_gpt_layout(small(), {.world_size = 2, .pp = 2, .split = {.num_chunks = chunks}, .global_batch = 6});
    std::map<std::string, int64_t> bytes;
    for (int stage = 0; stage < 2; ++stage)
      for (const CollectiveCount& entry : traffic_of(layout, stage))
        if (entry.axis == "pp") bytes[entry.kind] += entry.bytes * entry.count;
    EXPECT_EQ(bytes["send"], bytes["receive"]);
    EXPECT_GT(bytes["send"], 0);
  }
}

TEST(GptTraffic, NemotronOfSeed004) {
  const GptLayout layout =
      make_gpt_layout(config::resolve_gpt_shape("nemotron4-340b"), {.world_size = 256,
                                                                    .tp = 8,
                                                                    .pp = 8,
                                                                    .is_sequence_parallel = true,
                                                                    .is_optimizer_sharded = true,
                                                                    .split = {.layers_per_chunk = 1},
                                                                    .global_batch = 64});
  const GptTrafficInput input{.bytes = state_bytes(/*is_16bit=*/true, false),
                              .recompute = config::GptRecompute::kSelective};
  const auto traffic = traffic_of(layout, 3, input);
  const auto counts = merged(traffic);
  const int64_t hidden = 4096LL * 18432 * 2;
  EXPECT_EQ(counts.at({"tp", "all_gather", hidden}), 16 * 12 * 6);
  EXPECT_EQ(counts.at({"tp", "reduce_scatter", hidden}), 16 * 12 * 4);
  EXPECT_EQ(counts.at({"pp", "send", hidden / 8}), 16 * 24);
  // Gradients and parameters in 2 bytes each: (dp - 1) / dp x 4 x N / (t p).
  const double parameters = 12.0 * ((18432.0 * 112 * 192 + 18432.0 * 18432 + 2 * 18432.0 * 73728) / 8 + 4 * 18432);
  EXPECT_NEAR(ring_bytes(traffic, "dp", 4) / (0.75 * 4 * parameters), 1, 1e-4);
}

}  // namespace
}  // namespace lockstep::plan
