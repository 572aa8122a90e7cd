#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/flops.h"
#include "config/gpt_params.h"

namespace lockstep::config {
namespace {

int64_t whole(const FlopCount& count) { return std::llround(count.flops); }

TEST(GptFlops, ShapesGiveTheConstants) {
  struct Row {
    const char* model;
    int64_t full, causal;
  };
  for (const Row& row :
       {Row{"345m", 467'480'346'624, 428'825'640'960}, Row{"857m", 5'580'773'130'240, 4'962'297'839'616},
        Row{"gpt-854m", 13'031'870'300'160, 11'743'380'111'360},
        Row{"175b", 2'204'555'173'429'248, 2'174'868'359'479'296},
        Row{"nemotron4-340b", 8'621'236'313'653'248, 8'443'115'429'953'536},
        Row{"nemotron4-15b", 385'000'868'413'440, 365'209'659'113'472}}) {
    const GptDims dims = gpt_dims(resolve_gpt_shape(row.model), 4);
    EXPECT_EQ(dims.layers, resolve_gpt_shape(row.model).layers);
    GptDims one_rank = dims;
    one_rank.vocab = resolve_gpt_shape(row.model).padded_vocab(1);
    EXPECT_EQ(whole(gpt_model(one_rank, AttentionCount::kFull)), row.full) << row.model;
    EXPECT_EQ(whole(gpt_model(one_rank, AttentionCount::kCausal)), row.causal) << row.model;
  }
}

TEST(GptFlops, CausalCountsLessThanFull) {
  const auto ratio = [](const char* model) {
    const GptDims dims = gpt_dims(resolve_gpt_shape(model));
    return fmt::format("{:.4f}",
                       gpt_model(dims, AttentionCount::kFull).flops / gpt_model(dims, AttentionCount::kCausal).flops);
  };
  EXPECT_EQ(ratio("nemotron4-340b"), "1.0211");
  EXPECT_EQ(ratio("nemotron4-15b"), "1.0542");
  EXPECT_EQ(ratio("175b"), "1.0136");
  EXPECT_EQ(ratio("857m"), "1.1246");
}

TEST(GptFlops, PublishedTableOfTheRecipe) {
  // s/step at 128 and 2048 GPUs, in BF16 and FP8 -> MFU by query groups, full and causal.
  const GptDims dims = gpt_dims(resolve_gpt_shape("nemotron4-340b"), 8);
  const auto row = [&](double step_s, double devices, double batch, double peak) {
    const auto percent = [&](const FlopCount& count) {
      return 100 * batch * count.flops / (step_s * devices * peak * 1e12);
    };
    return fmt::format("{:.1f} {:.1f}", percent(gpt_model(dims, AttentionCount::kFull)),
                       percent(gpt_model(dims, AttentionCount::kCausal)));
  };
  EXPECT_EQ(row(4.61, 128, 32, 989), "47.3 46.3");
  EXPECT_EQ(row(4.84, 2048, 512, 989), "45.0 44.1");
  EXPECT_EQ(row(3.16, 128, 32, 1979), "34.5 33.8");
  EXPECT_EQ(row(3.49, 2048, 512, 1979), "31.2 30.6");
}

TEST(GptFlops, SixPerMatrixElementAndToken) {
  // Apart from the core every matrix costs 6 FLOPs an element and token: the count follows from the parameter list
  // alone.
  for (const std::string& name : gpt_model_names()) {
    const GptShape shape = resolve_gpt_shape(name);
    double elements = shape.is_head_tied ? static_cast<double>(shape.padded_vocab(1) * shape.hidden) : 0;
    for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape)))
      if (spec.shape.size() > 1 && !spec.name.starts_with("embedding.") && !spec.name.ends_with(".bias"))
        elements += static_cast<double>(spec.numel());
    const double s = static_cast<double>(shape.sequence), q = static_cast<double>(shape.query_width()),
                 l = static_cast<double>(shape.layers);
    EXPECT_NEAR(gpt_model(gpt_dims(shape), AttentionCount::kFull).flops / (s * (6 * elements + 12 * l * q * s)), 1,
                1e-12)
        << name;
  }
}

TEST(GptFlops, HeadsNeedNotAddUpToTheWidth) {
  GptDims dims{
      .layers = 2, .hidden = 64, .sequence = 32, .vocab = 128, .heads = 4, .query_groups = 4, .head_width = 32};
  GptDims narrow = dims;
  narrow.head_width = 0;
  EXPECT_GT(gpt_model(dims, AttentionCount::kFull).flops, gpt_model(narrow, AttentionCount::kFull).flops);
  EXPECT_NE(gpt_model(dims, AttentionCount::kFull).formula.find("12 L h q"), std::string::npos);
  EXPECT_NE(gpt_model(dims, AttentionCount::kFull).formula.find("q=128"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::config
