#include "plan/gpt_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/gpt_memory.h"
#include "support/error_text.h"

namespace lockstep::plan {
namespace {

using tests::holds;
using tests::message_of;

config::GptShape named(const char* model) { return config::resolve_gpt_shape(model); }

/// The recipe of seed 004 on `gpus` GPUs.
GptLayoutRequest nemotron_wish(int64_t gpus) {
  return {.world_size = gpus,
          .tp = 8,
          .pp = 8,
          .is_sequence_parallel = true,
          .is_optimizer_sharded = true,
          .split = {.layers_per_chunk = 1},
          .micro_batch_size = 1,
          .global_batch = gpus / 4};
}

/// GPT-3 175B as its published script lays it out.
GptLayoutRequest gpt3_wish(int64_t gpus, int64_t global_batch) {
  return {.world_size = gpus,
          .tp = 8,
          .pp = 16,
          .is_sequence_parallel = true,
          .is_optimizer_sharded = true,
          .global_batch = global_batch};
}

TEST(GptLayout, RecipeOfSeed004AtEverySize) {
  for (const int64_t gpus : {128, 256, 512, 1024, 2048}) {
    const GptLayout layout = make_gpt_layout(named("nemotron4-340b"), nemotron_wish(gpus));
    EXPECT_EQ(layout.dp(), gpus / 64);
    EXPECT_EQ(layout.batch.num_micro_batches, 16);
    EXPECT_EQ(layout.pipe.num_chunks, 12);
    EXPECT_EQ(layout.pipe.kind, ScheduleKind::kInterleaved);
    EXPECT_NEAR(bubble_over_ideal(layout.pipe), 0.0365, 0.00005);
    EXPECT_EQ(layout.parts.size(), 96u);
    for (size_t i = 0; i < 96; ++i) {
      const config::GptPart expected{static_cast<int64_t>(i), 1, i == 0, i == 95};
      EXPECT_EQ(layout.parts[i], expected) << i;
    }
    EXPECT_EQ(layout.part(3, 2).first_layer, 2 * 8 + 3);
  }
}

TEST(GptLayout, StudyOfSeed003) {
  std::map<int64_t, int64_t> micro;
  for (const int64_t gpus : {128, 256, 512, 1024, 2048, 4096})
    micro[gpus] = make_gpt_layout(named("175b"), gpt3_wish(gpus, 1536)).batch.num_micro_batches;
  EXPECT_EQ(micro,
            (std::map<int64_t, int64_t>{{128, 1536}, {256, 768}, {512, 384}, {1024, 192}, {2048, 96}, {4096, 48}}));
  // Strong scaling: the bubble alone gives these efficiencies against the smallest size (m = 1536 / dp).
  const auto efficiency = [](int64_t gpus) {
    const double own = bubble_over_ideal(make_gpt_layout(named("175b"), gpt3_wish(gpus, 1536)).pipe);
    return (1 + 15.0 / 1536) / (1 + own);
  };
  EXPECT_NEAR(efficiency(256), 0.990, 0.0006);
  EXPECT_NEAR(efficiency(512), 0.972, 0.0006);
  EXPECT_NEAR(efficiency(1024), 0.937, 0.0006);
  EXPECT_NEAR(efficiency(2048), 0.873, 0.0006);
  EXPECT_NEAR(efficiency(4096), 0.769, 0.0006);
}

TEST(GptLayout, EveryParameterHasItsPlace) {
  for (const char* model : {"gpt2", "llama3-8b"})
    for (const int64_t pp : {1, 2, 4})
      for (const int64_t tp : {1, 2, 4})
        for (const int64_t chunks : {1, 2}) {
          if ((pp == 1 && chunks > 1) || named(model).layers % (pp * chunks) != 0) continue;
          GptLayoutRequest request{
              .world_size = pp * tp, .tp = tp, .pp = pp, .split = {.num_chunks = chunks}, .global_batch = 8};
          const GptLayout layout = make_gpt_layout(named(model), request);
          std::map<std::string, int64_t> elements;
          for (int stage = 0; stage < pp; ++stage)
            for (const config::ParamSpec& param : layout.params_of(stage))
              if (!param.is_tied_copy)
                elements[param.name] += param.split_dim ? config::local_numel(param, tp) * tp : param.numel();
          int64_t total = 0;
          for (const auto& param : config::gpt_param_specs(layout.shape, config::whole_gpt(layout.shape), tp)) {
            EXPECT_EQ(elements[param.name], param.numel()) << param.name;
            total += elements[param.name];
          }
          EXPECT_EQ(total, config::gpt_cost(layout.shape, tp).parameters);
          EXPECT_EQ(layout.has_split_embedding(), layout.shape.is_head_tied && pp > 1);
        }
}

TEST(GptLayout, UnevenSplits) {
  config::GptShape shape = named("gpt2");
  const auto layers = [&](const SplitRequest& request) {
    std::vector<int64_t> counts;
    int64_t next = 0;
    for (const config::GptPart& part : split_layers(shape, request)) {
      EXPECT_EQ(part.first_layer, next);
      next += part.num_layers;
      counts.push_back(part.num_layers);
    }
    EXPECT_EQ(next, shape.layers);
    return counts;
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(layers({.num_stages = 4}), (Counts{3, 3, 3, 3}));
  EXPECT_EQ(layers({.num_stages = 4, .first_layers = 2, .last_layers = 2}), (Counts{2, 4, 4, 2}));
  EXPECT_EQ(layers({.num_stages = 3, .last_layers = 2}), (Counts{5, 5, 2}));
  EXPECT_EQ(layers({.num_stages = 2, .num_chunks = 3}), (Counts{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(layers({.num_stages = 4, .num_chunks = 2, .first_layers = 4, .last_layers = 4}),
            (Counts{2, 1, 1, 2, 2, 1, 1, 2}));
  shape.layers = 14;
  EXPECT_EQ(layers({.num_stages = 4, .counts_embedding = true, .counts_head = true}), (Counts{3, 4, 4, 3}));
  EXPECT_EQ(layers({.num_stages = 3, .text = "Ett|(ttt|t|)*2 tttt, L"}), (Counts{2, 3, 1, 3, 1, 4}));
}

TEST(GptLayout, LayoutTexts) {
  config::GptShape shape = named("gpt2");
  shape.layers = 4;
  const auto text = [&](const char* layout, int stages) {
    return split_layers(shape, {.num_stages = stages, .text = layout});
  };
  const auto parts = text("E|(t|)*3,tL", 5);
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[0], (config::GptPart{0, 0, true, false})) << "an empty stage is legal";
  EXPECT_EQ(parts[4], (config::GptPart{3, 1, false, true}));
  EXPECT_EQ(text("Et|t|t|tL", 2).size(), 4u) << "two chunks each";
  EXPECT_EQ(text("Et*4|L", 2)[0].num_layers, 4);
  const auto error = [&](const char* layout, int stages) {
    return message_of<UsageError>([&] { text(layout, stages); });
  };
  EXPECT_NE(error("Et|ttL", 2).find("has 3 layers, expected 4"), std::string::npos);
  EXPECT_NE(error("Et|t|ttL", 2).find("use --pipeline-model-parallel-size 1 or 3"), std::string::npos);
  EXPECT_NE(error("tttt|EL", 2).find("must begin with its only E"), std::string::npos);
  EXPECT_NE(error("Ettt|Lt", 2).find("must end with its only L"), std::string::npos);
  EXPECT_NE(error("Et(tt|t", 2).find("a '(' that is not closed at character 8"), std::string::npos);
  EXPECT_NE(error("Et)tt|tL", 2).find("a ')' that nothing opened at character 3"), std::string::npos);
  EXPECT_NE(error("Etx|L", 2).find("'x' at character 3"), std::string::npos);
  EXPECT_NE(error("Et*99999999999999999999|L", 2).find("no number from 1 on"), std::string::npos);
  EXPECT_NE(error("E(t*99999)*99999|L", 2).find("more than 100000 items"), std::string::npos);
  EXPECT_NE(error("Ett|tm|tL", 3).find("multi-token prediction"), std::string::npos);
  EXPECT_NE(error("((((((((((((((", 3).find("too many nested"), std::string::npos);
}

TEST(GptLayout, MisfitsNameTheNearestLegalLayout) {
  const auto error = [](const char* model, GptLayoutRequest request) {
    return message_of<UsageError>([&] { make_gpt_layout(named(model), request); });
  };
  EXPECT_TRUE(holds(error("nemotron4-340b", {.world_size = 48, .tp = 12}),
                    "does not divide the 8 query groups of 'nemotron4-340b'\n  hint: use "
                    "--tensor-model-parallel-size 8"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 8, .tp = 8}),
                    "12 attention heads of 'gpt2'\n  hint: use --tensor-model-parallel-size 4"));
  config::GptShape odd = named("gpt2");
  odd.sequence = 1023;
  EXPECT_TRUE(holds(
      message_of<UsageError>([&] { make_gpt_layout(odd, {.world_size = 2, .tp = 2, .is_sequence_parallel = true}); }),
      "1023 tokens of a sequence"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 12, .tp = 5}), "hint: use --tensor-model-parallel-size 4 or 6"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 12, .tp = 5, .pp = 3}), "hint: use --tensor-model-parallel-size 4"))
      << "6 x 3 does not divide 12";
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 5, .pp = 5}),
                    "12 layers do not divide among 5 pipeline stages\n  hint: use --pipeline-model-parallel-size 1, or "
                    "set --decoder-first"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 60, .pp = 5}), "hint: use --pipeline-model-parallel-size 4 or 6"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 4, .pp = 4, .split = {.num_chunks = 2}}),
                    "among 4 pipeline stages x 2 virtual stages\n  hint: use "
                    "--pipeline-model-parallel-size 2, or --num-virtual-stages-per-pipeline-rank 1 or 3"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 6, .tp = 2, .pp = 2}),
                    "do not divide the 6 that there are\n  hint: start 4 or 8 ranks; or use "
                    "--pipeline-model-parallel-size 1 or 3; or use --tensor-model-parallel-size 1 or 3"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 7, .tp = 2, .pp = 2}), "hint: start 4 or 8 ranks"))
      << "no number of stages helps";
  EXPECT_TRUE(holds(error("175b", {.world_size = 64, .tp = 8, .pp = 16}), "one copy of the model takes 128 ranks"));
  EXPECT_TRUE(holds(error("175b", {.world_size = 64, .tp = 8, .pp = 16}),
                    "start 128 ranks; or use --pipeline-model-parallel-size 8; or use --tensor-model-parallel-size 4"));
  EXPECT_TRUE(holds(error("nemotron4-340b", {.world_size = 64, .tp = 8, .pp = 6, .split = {.layers_per_chunk = 3}}),
                    "hint: use --pipeline-model-parallel-size 4 or 8"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 8, .tp = 2, .global_batch = 10}),
                    "--global-batch-size=10, expected a multiple of 4"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 4, .pp = 4, .split = {.num_chunks = 3}, .global_batch = 6}),
                    "use --global-batch-size 4 or 8, which is 4 or 8 micro-batches"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 1, .split = {.num_chunks = 2}}), "need several pipeline stages"));
  EXPECT_TRUE(
      holds(error("gpt2", {.world_size = 2, .pp = 2, .is_gpipe = true, .split = {.num_chunks = 2}, .global_batch = 4}),
            "gpipe has no virtual stages"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 2, .pp = 2, .split = {.layers_per_chunk = 4}}),
                    "use --num-layers-per-virtual-pipeline-stage 3 or 6"));
  EXPECT_TRUE(holds(error("gpt2", {.world_size = 2, .pp = 2, .split = {.layers_per_chunk = 3, .num_chunks = 2}}),
                    "at most one of"));
  EXPECT_TRUE(holds(error("175b", {.world_size = 3, .tp = 3}),
                    "51200 rows of the padded vocabulary of 'gpt3-175b'\n  hint: use --tensor-model-parallel-size 1"));
  EXPECT_TRUE(holds(
      error("gpt2", {.world_size = 8, .pp = 2, .split = {.num_chunks = 2}, .micro_batch_size = 3, .global_batch = 12}),
      "use --global-batch-size 24, which is 2 micro-batches"));
  config::GptShape eight = named("gpt2");
  eight.layers = 8;
  const auto error_of_eight = [&](const GptLayoutRequest& request) {
    return message_of<UsageError>([&] { make_gpt_layout(eight, request); });
  };
  EXPECT_TRUE(
      holds(error_of_eight({.world_size = 8, .tp = 2, .pp = 3}), "hint: use --pipeline-model-parallel-size 2 or 4"))
      << "8 layers fit no number of ranks with 3 stages";
  EXPECT_TRUE(holds(error_of_eight({.world_size = 8, .tp = 3, .global_batch = 2}),
                    "hint: start 6 ranks; or use --tensor-model-parallel-size 4"))
      << "2 would leave 4 data ranks";
  EXPECT_TRUE(holds(error_of_eight({.world_size = 8, .tp = 3, .global_batch = 3}), "hint: start 3 or 9 ranks"))
      << "no tensor size fits the batch";
  GptLayoutRequest lowered{.world_size = 4, .global_batch = 10, .lowers_batch = true};
  EXPECT_EQ(make_gpt_layout(named("gpt2"), lowered).batch.global_batch, 8);
}

TEST(GptLayout, SequenceParallelismNeedsTensorRanks) {
  EXPECT_FALSE(make_gpt_layout(named("gpt2"), {.world_size = 2, .is_sequence_parallel = true}).is_sequence_parallel);
  EXPECT_TRUE(
      make_gpt_layout(named("gpt2"), {.world_size = 2, .tp = 2, .is_sequence_parallel = true}).is_sequence_parallel);
}

constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;

TEST(GptMemory, FormulasOfThePaper) {
  const GptMemoryInput flash{.bytes = state_bytes(/*is_16bit=*/true, true)};
  GptMemoryInput plain = flash;
  plain.kept_scores = int64_t{2048} * 2048;
  const double s = 2048, h = 12288, a = 96;
  const auto bytes = [&](int64_t tp, bool is_sequence_parallel, const GptMemoryInput& input) {
    return layer_activation_bytes(
        make_gpt_layout(named("175b"), {.world_size = tp, .tp = tp, .is_sequence_parallel = is_sequence_parallel}),
        input);
  };
  // Korthikanti et al. without masks, which are drawn again: 8 of a block instead of 10, and 4 instead of 5 for the
  // core.
  for (const double t : {1.0, 2.0, 8.0}) {
    const int64_t tp = static_cast<int64_t>(t);
    EXPECT_NEAR(bytes(tp, false, plain) / (s * h * (8 + 24 / t + 4 * a * s / (h * t))), 1, 1e-12);
    EXPECT_NEAR(bytes(tp, false, flash) / (s * h * (8 + 24 / t)), 1, 1e-12);
    if (tp > 1) {
      EXPECT_NEAR(bytes(tp, true, plain) / (s * h * (32 + 4 * a * s / h) / t), 1, 1e-12);
    }
    GptMemoryInput selective = plain;
    selective.recompute = config::GptRecompute::kSelective;
    if (tp > 1) {
      EXPECT_NEAR(bytes(tp, true, selective) / (32 * s * h / t), 1, 1e-12);
    }
  }
  EXPECT_NEAR(bytes(8, true, flash) / kMiB, 96, 0.5);
}

TEST(GptMemory, NemotronOfSeed004) {
  const GptLayout layout = make_gpt_layout(named("nemotron4-340b"), nemotron_wish(128));
  const PipeSchedule schedule = make_pipe_schedule(layout.pipe);
  GptMemoryInput input{.bytes = state_bytes(/*is_16bit=*/true, true), .recompute = config::GptRecompute::kSelective};
  EXPECT_NEAR(layer_activation_bytes(layout, input) / kMiB, 255, 0.6);
  const GptMemory wide = plan_gpt_memory(layout, schedule, 0, input);
  // By hand: 12 layers of (18432 x (112 x 192) + 18432 x 18432 + 2 x 18432 x 73728) / 8 + 4 x 18432, and 256000 x 18432
  // / 8 of the embedding.
  EXPECT_EQ(wide.num_parameters, 12 * ((18432LL * 112 * 192 + 18432LL * 18432 + 2 * 18432LL * 73728) / 8 + 4 * 18432) +
                                     256000LL * 18432 / 8);
  EXPECT_NEAR(wide.activations / kGiB, 103 * 255 / 1024.0, 0.06) << "103 chunks";
  EXPECT_NEAR((wide.parameters + wide.gradients + wide.optimizer) / static_cast<double>(wide.num_parameters), 12, 1e-9)
      << "2 + 4 + 12 / dp";
  EXPECT_GT(wide.total() / 1e9, 80);
  input.bytes = state_bytes(/*is_16bit=*/true, false);
  const GptMemory narrow = plan_gpt_memory(layout, schedule, 0, input);
  EXPECT_NEAR((narrow.parameters + narrow.gradients + narrow.optimizer) / static_cast<double>(narrow.num_parameters),
              10, 1e-9);
  EXPECT_LT(narrow.total() / kGiB, 80) << "the smallest size fits with bf16 gradients alone";
  double total = 0, sum = 0;
  for (int stage = 0; stage < 8; ++stage) {
    const GptMemory memory = plan_gpt_memory(layout, schedule, stage, input);
    EXPECT_EQ(memory.logits > 0, stage == 7);
    total += static_cast<double>(memory.num_parameters);
    sum += memory.activations;
  }
  EXPECT_NEAR(total / 64 * 8, 5.33e9, 0.01e9);
  EXPECT_NEAR(sum / layer_activation_bytes(layout, input), 103 + 101 + 99 + 97 + 95 + 93 + 91 + 89, 1e-6);
  // In FP8, a token of a rank: (2 norms x 2 + 2 x 1) x 18432, queries and result 5 x 18432, keys and values 4 x 1536, 3
  // x 73728; by 8 ranks.
  input.has_fp8 = true;
  EXPECT_NEAR(layer_activation_bytes(layout, input) / kMiB,
              4096.0 * (6 * 18432 + 5 * 18432 + 4 * 1536 + 3 * 73728) / 8 / kMiB, 1e-9);
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 0, input).parameters - narrow.parameters,
              2 * 12 * (18432.0 * 112 * 192 + 18432.0 * 18432 + 2 * 18432.0 * 73728) / 8, 1);
}

TEST(GptMemory, EndsThatFp8Spares) {
  const GptLayout layout = make_gpt_layout(named("gpt2"), {.world_size = 2, .pp = 2, .global_batch = 2});
  const PipeSchedule schedule = make_pipe_schedule(layout.pipe);
  GptMemoryInput wide{.bytes = state_bytes(/*is_16bit=*/true, true)}, narrow = wide;
  narrow.has_fp8 = true;
  GptMemoryInput spared = narrow;
  spared.fp8_spares_ends = true;
  const double wide_layer = layer_activation_bytes(layout, wide), narrow_layer = layer_activation_bytes(layout, narrow);
  // In 8 bits two inputs of width h and one of width 4 h are half as large, and the attention's result is there once
  // more: -2 h - 4 h + h.
  EXPECT_EQ(wide_layer - narrow_layer, 1024.0 * 5 * 768);
  const double weights = 12.0 * 768 * 768;
  for (int stage = 0; stage < 2; ++stage) {
    const auto plan = [&](const GptMemoryInput& input) { return plan_gpt_memory(layout, schedule, stage, input); };
    const double in_flight = stage == 0 ? 2 : 1;
    EXPECT_EQ(plan(narrow).parameters - plan(wide).parameters, 6 * 2 * weights);
    EXPECT_EQ(plan(spared).parameters - plan(wide).parameters, 5 * 2 * weights) << "one of six layers is an end";
    EXPECT_EQ(plan(spared).activations - plan(narrow).activations, in_flight * (wide_layer - narrow_layer));
    const auto recomputed = [&](GptMemoryInput input, config::GptRecompute kind, int64_t layers) {
      input.recompute = kind;
      input.recompute_layers = layers;
      return plan(input).recomputed;
    };
    EXPECT_EQ(recomputed(narrow, config::GptRecompute::kUniform, 2), 2 * narrow_layer);
    EXPECT_EQ(recomputed(spared, config::GptRecompute::kUniform, 2), wide_layer + narrow_layer)
        << "the unit with the end";
    EXPECT_EQ(recomputed(spared, config::GptRecompute::kBlock, 1), stage == 0 ? wide_layer : narrow_layer)
        << "the first layer of the chunk";
  }
}

TEST(GptMemory, Gpt3OfSeed003) {
  const GptLayout layout = make_gpt_layout(named("175b"), gpt3_wish(1024, 1536));
  const PipeSchedule schedule = make_pipe_schedule(layout.pipe);
  const GptMemoryInput input{.bytes = state_bytes(/*is_16bit=*/true, false), .early_loss_gradients = false};
  const GptMemory first = plan_gpt_memory(layout, schedule, 0, input),
                  last = plan_gpt_memory(layout, schedule, 15, input);
  EXPECT_NEAR((first.parameters + first.gradients + first.optimizer) / static_cast<double>(first.num_parameters),
              4 + 12 / 8.0, 1e-9);
  EXPECT_NEAR(first.activations / kGiB, 9.0, 0.05) << "a whole model's worth of layers on the first stage";
  EXPECT_NEAR(last.activations / layer_activation_bytes(layout, input), 6, 1e-9) << "one micro-batch, six layers";
  EXPECT_NEAR(last.logits, 2048.0 * (4.0 * 12288 / 8 + 2 * 51200.0 / 8), 1) << "6400 rows: a chunk is a whole sequence";
  EXPECT_EQ(first.logits, 0);
}

TEST(GptMemory, RecomputationKeepsInputs) {
  const GptLayout layout =
      make_gpt_layout(named("gpt2"), {.world_size = 2, .pp = 2, .micro_batch_size = 4, .global_batch = 16});
  const PipeSchedule schedule = make_pipe_schedule(layout.pipe);
  GptMemoryInput input{.bytes = state_bytes(/*is_16bit=*/false, true), .kept_scores = int64_t{1024} * 1024};
  const double layer = layer_activation_bytes(layout, input), inputs = 4.0 * 1024 * 768 * 4;
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 0, input).activations, 2 * 6 * layer, 1);
  input.recompute = config::GptRecompute::kUniform;
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 0, input).activations, 2 * 6 * inputs, 1);
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 0, input).recomputed, layer, 1);
  input.recompute_layers = 4;
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 1, input).activations, 2 * inputs, 1)
      << "two units of at most four layers";
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 1, input).recomputed, 4 * layer, 1);
  input.recompute = config::GptRecompute::kBlock;
  EXPECT_NEAR(plan_gpt_memory(layout, schedule, 1, input).activations, 4 * inputs + 2 * layer, 1);
  input.recompute = config::GptRecompute::kSelective;
  GptMemoryInput flash = input;
  flash.kept_scores = 0;
  EXPECT_EQ(plan_gpt_memory(layout, schedule, 1, input).activations,
            plan_gpt_memory(layout, schedule, 1, flash).activations);
  EXPECT_EQ(plan_gpt_memory(layout, schedule, 1, flash).recomputed, 0);
  EXPECT_EQ(plan_gpt_memory(layout, schedule, 1, input).recomputed, 4.0 * 12 * 1024 * 1024 * (2 * 4))
      << "softmax and what is left of it of one layer, made again";
}

TEST(GptMemory, LogitsInChunksAndGpipe) {
  GptLayoutRequest request{.world_size = 2, .pp = 2, .is_gpipe = true, .micro_batch_size = 4, .global_batch = 24};
  const GptLayout gpipe = make_gpt_layout(named("gpt2"), request);
  request.is_gpipe = false;
  const GptLayout plain = make_gpt_layout(named("gpt2"), request);
  GptMemoryInput input{.bytes = state_bytes(/*is_16bit=*/true, true), .early_loss_gradients = false};
  const auto logits = [&](const GptLayout& layout) {
    return plan_gpt_memory(layout, make_pipe_schedule(layout.pipe), 1, input).logits;
  };
  const double norm = 4.0 * 4 * 1024 * 768;
  EXPECT_NEAR(logits(plain), norm + 2.0 * 1334 * 50304, 1) << "2^26 logits by default";
  input.loss_chunk_tokens = 128;
  EXPECT_NEAR(logits(plain), norm + 2.0 * 128 * 50304, 1);
  EXPECT_NEAR(logits(gpipe), 6 * norm + 2.0 * 128 * 50304, 1);
  input.loss_chunk_tokens = 1 << 20;
  EXPECT_NEAR(logits(plain), norm + 2.0 * 4096 * 50304, 1) << "never more tokens than there are";
  input.early_loss_gradients = true;
  EXPECT_NEAR(logits(plain), norm + 2.0 * 4096 * 50304 + 4.0 * 50304 * 768, 1);
}

}  // namespace
}  // namespace lockstep::plan
