#include "analysis/megatron_flops.h"
#include "analysis/analyse.h"

#include <gtest/gtest.h>

#include "analysis/document.h"
#include "analysis/tables.h"
#include "config/gpt_params.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

std::map<std::string, std::string> llama3_8b() {
  return {{"num_layers", "32"},
          {"hidden_size", "4096"},
          {"num_attention_heads", "32"},
          {"group_query_attention", "True"},
          {"num_query_groups", "8"},
          {"ffn_hidden_size", "14336"},
          {"kv_channels", "128"},
          {"seq_length", "8192"},
          {"swiglu", "True"},
          {"num_experts", "None"},
          {"decoder_num_layers", "None"},
          {"padded_vocab_size", "128256"}};
}

TEST(MegatronFlops, ArgumentsOfAModelCountAsTheNamedModel) {
  const auto count = megatron_flops(llama3_8b());
  ASSERT_TRUE(count);
  config::GptShape shape = config::resolve_gpt_shape("llama3-8b");
  shape.sequence = 8192;
  const double expected = config::gpt_model(config::gpt_dims(shape), config::AttentionCount::kCausal).flops;
  EXPECT_NEAR(count->flops, expected, 1e-3 * expected);
  EXPECT_NE(count->formula.find("arguments in the log"), std::string::npos);
}

TEST(MegatronFlops, TheShapeHasTheParametersOfTheNamedModel) {
  auto options = llama3_8b();
  for (const auto& [name, value] : {std::pair{"position_embedding_type", "rope"},
                                    {"normalization", "RMSNorm"},
                                    {"add_bias_linear", "False"},
                                    {"untie_embeddings_and_output_weights", "True"}})
    options[name] = value;
  const auto shape = megatron_shape(options);
  ASSERT_TRUE(shape);
  EXPECT_EQ(config::gpt_cost(*shape).parameters, config::gpt_cost(config::resolve_gpt_shape("llama3-8b")).parameters);
  options["untie_embeddings_and_output_weights"] = "False";
  EXPECT_EQ(config::gpt_cost(*shape).parameters - config::gpt_cost(*megatron_shape(options)).parameters, 128256 * 4096);
  for (const auto& [name, value] :
       {std::pair{"num_layers", "9999999"}, {"hidden_size", "16777216"}, {"kv_channels", "16777216"}}) {
    auto endless = llama3_8b();
    endless[name] = value;
    EXPECT_FALSE(megatron_shape(endless)) << name << ": its parameters fit no 64 bits";
  }
}

TEST(MegatronFlops, OtherKindsOfModelsAndUnknownShapesHaveNoCount) {
  for (const auto& [name, value] : {std::pair{"num_experts", "8"},
                                    {"decoder_num_layers", "12"},
                                    {"multi_latent_attention", "True"},
                                    {"hidden_size", "None"},
                                    {"seq_length", "many"},
                                    {"padded_vocab_size", "None"}}) {
    auto options = llama3_8b();
    options[name] = value;
    EXPECT_FALSE(megatron_flops(options)) << name;
  }
  EXPECT_FALSE(megatron_flops({}));
}

TEST(MegatronFlops, AReportHasTheMfuWithoutBeingTold) {
  record::RunData run = tests::make_run({.name = "megatron", .step_ms = 1000});
  run.format = "megatron";
  run.options = llama3_8b();
  run.setup.task = "gpt";
  run.setup.sequence_length = 8192;
  run.setup.forward_gflops_per_sample.reset();
  run.setup.flops_formula.clear();
  std::vector<RunSummary> runs;
  runs.push_back(summarise_run(run, {}));
  const Analysis analysis = analyse(std::move(runs), {});
  const Point& point = analysis.curves.at(0).points.at(0);
  EXPECT_NEAR(point.mfu, megatron_flops(llama3_8b())->flops * 8 / 989e12, 0.01 * point.mfu);  // 8 sequences per s
  const draw::Table table = short_scaling_table(analysis.curves[0]);
  const auto has_column = [&](const std::string& key) {
    return std::any_of(table.columns.begin(), table.columns.end(), [&](const auto& one) { return one.key == key; });
  };
  EXPECT_TRUE(has_column("tokens_per_s_per_device")) << "what language models are compared by";
  EXPECT_FALSE(has_column("rate_per_s"));
  for (const std::string& line : analysis.missing) EXPECT_EQ(line.find("forward_gflops"), std::string::npos) << line;
}

// Of programs that tell no shape.
TEST(FlopsByName, AReportHasTheMfuOfAModelOfOurTables) {
  const auto counted = [](const char* task, const char* model, std::optional<int64_t> sequence_length,
                          const std::map<std::string, std::string>& options = {}) {
    record::RunData run = tests::make_run({.name = "by-name", .step_ms = 1000});
    run.format = "torchtitan";
    run.options = options;
    run.setup.task = task, run.setup.model = model, run.setup.sequence_length = sequence_length;
    run.setup.forward_gflops_per_sample.reset();
    run.setup.flops_formula.clear();
    return summarise_run(run, {}).setup;
  };
  const record::RunSetup llama = counted("gpt", "llama3 70B", 8192);
  EXPECT_DOUBLE_EQ(llama.forward_gflops_per_sample.value_or(0),
                   config::find_nominal("lockstep", "llama3-70b").forward_gflops);
  EXPECT_EQ(llama.flops_formula.substr(0, 54), "counted by the model's name, llama3-70b: a third of s ")
      << llama.flops_formula;
  EXPECT_TRUE(counted("clip", "ViT-B-32", {}, {{"force_image_size", "None"}}).forward_gflops_per_sample);
  EXPECT_FALSE(counted("clip", "ViT-B-32", {}, {{"force_image_size", "336"}}).forward_gflops_per_sample);
  EXPECT_FALSE(counted("gpt", "llama3 70B", {}).forward_gflops_per_sample) << "of how many tokens?";
  EXPECT_FALSE(counted("resnet", "ViT-B-16", {}).forward_gflops_per_sample) << "a classifier of that name is no CLIP";
}

}  // namespace
}  // namespace lockstep::analysis
