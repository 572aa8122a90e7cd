// Generated tokens against Hugging Face's generate (ref/make_gpt_goldens.py), and what ends a text.
#include "infer/generation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "models/gpt/gpt_weights.h"
#include "support/tensor_golden.h"

namespace lockstep::infer {
namespace {

using Ids = std::vector<int32_t>;

Ids to_ids(const at::Tensor& tensor) {
  const at::Tensor ids = tensor.to(at::kInt).contiguous();
  return {ids.const_data_ptr<int32_t>(), ids.const_data_ptr<int32_t>() + ids.numel()};
}

/// A golden model, its prompts, and what Hugging Face adds to each.
struct Golden {
  std::unique_ptr<models::GptModel> model;
  std::vector<Ids> prompts, added;

  explicit Golden(const std::string& name) {
    at::set_num_threads(1);  // threads that wait for each other at every small operator are slow where others work, too
    const std::string file = "gpt/" + name + ".safetensors";
    config::GptShape shape = config::parse_gpt_shape(tests::golden_metadata(file, "config"), name);
    shape.vocab_multiple = 8;  // padding must not matter
    model = std::make_unique<models::GptModel>(shape, config::whole_gpt(shape), nn::ShardCtx{});
    models::WeightFile weights{.path = file, .tensors = {}, .ignored = {}, .epoch = {}};
    const auto tensors = tests::load_golden(file);
    for (const auto& [key, value] : tensors)
      if (key.starts_with("param/")) weights.tensors.emplace_back(key.substr(6), value);
    models::load_gpt_weights(*model, weights);
    model->set_training(false);
    for (int i = 0; tensors.contains("generate/prompt/" + std::to_string(i)); ++i) {
      prompts.push_back(to_ids(tensors.at("generate/prompt/" + std::to_string(i))));
      added.push_back(to_ids(tensors.at("generate/ids/" + std::to_string(i))));
    }
  }
  GenerationConfig config() const {
    return {.choice = {}, .max_new_tokens = std::ssize(added.at(0)), .num_ids = model->shape().vocab, .stop_ids = {}};
  }
};

class Generate : public ::testing::TestWithParam<const char*> {};

TEST_P(Generate, GreedyTextIsHuggingFaces) {
  const Golden golden(GetParam());
  ASSERT_EQ(golden.prompts.size(), 3u);
  ASSERT_NE(golden.prompts[0].size(), golden.prompts[1].size());
  const auto together = generate_tokens(*golden.model, golden.prompts, 0, golden.config());
  for (size_t i = 0; i < golden.prompts.size(); ++i) {
    EXPECT_EQ(together[i].ids, golden.added[i]) << "prompt " << i << " beside others";
    EXPECT_EQ(together[i].reason, StopReason::kLength);
    const auto alone = generate_tokens(*golden.model, std::span(golden.prompts).subspan(i, 1), i, golden.config());
    EXPECT_EQ(alone.at(0).ids, golden.added[i]) << "prompt " << i << " alone";
  }
}

TEST_P(Generate, DrawnTextDependsOnSeedAndNumberAlone) {
  const Golden golden(GetParam());
  GenerationConfig config = golden.config();
  config.choice = {.is_greedy = false, .temperature = 2.0};
  config.seed = 4;
  const auto together = generate_tokens(*golden.model, golden.prompts, 10, config);
  for (size_t i = 0; i < golden.prompts.size(); ++i) {
    EXPECT_EQ(generate_tokens(*golden.model, std::span(golden.prompts).subspan(i, 1), 10 + i, config).at(0).ids,
              together[i].ids)
        << i;
    EXPECT_NE(generate_tokens(*golden.model, std::span(golden.prompts).subspan(i, 1), 11 + i, config).at(0).ids,
              together[i].ids)
        << i;
  }
  config.seed = 5;
  EXPECT_NE(generate_tokens(*golden.model, golden.prompts, 10, config).at(0).ids, together[0].ids);
}

/// What packed weights are read for shows when the plain ones are overwritten behind them.
TEST_P(Generate, ManyTextsReadPackedWeightsAndOneReadsPlainOnes) {
  const Golden golden(GetParam());
  std::vector<Ids> twice = golden.prompts;
  twice.insert(twice.end(), golden.prompts.begin(), golden.prompts.end());
  prepare_generation(*golden.model, twice.size());
  const c10::NoGradGuard no_grad;
  for (const auto& parameter : golden.model->named_parameters())
    for (const char* product : {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight", "head.weight"})
      if (parameter.name.ends_with(product)) parameter.tensor->zero_();
  const auto together = generate_tokens(*golden.model, twice, 0, golden.config());
  for (size_t i = 0; i < twice.size(); ++i)
    EXPECT_EQ(together[i].ids, golden.added[i % golden.added.size()]) << "prompt " << i;
  const auto first = std::span(golden.prompts).first(1);
  EXPECT_NE(generate_tokens(*golden.model, first, 0, golden.config()).at(0).ids, golden.added[0]);
  prepare_generation(*golden.model, 3);
  EXPECT_NE(generate_tokens(*golden.model, twice, 0, golden.config()).at(1).ids, golden.added[1]);
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, Generate, ::testing::Values("gpt2", "llama", "llama_stretched", "nemotron"));

/// The head that is the embedding has a packed copy, too, and results differ by rounding alone.
TEST(Generation, PackedWeightsOfATiedHeadAndOfBf16GiveThePlainLogits) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Golden golden("gpt2");
    ASSERT_TRUE(golden.model->shape().is_head_tied);
    const c10::NoGradGuard no_grad;
    for (const auto& parameter : golden.model->named_parameters())
      parameter.tensor->set_data(parameter.tensor->to(type));
    const at::Tensor hidden_TBD = at::randn({3, 2, golden.model->shape().hidden}).to(type);
    const at::Tensor plain = golden.model->logits(hidden_TBD).to(at::kFloat);
    prepare_generation(*golden.model, 4);
    const at::Tensor packed = golden.model->logits(hidden_TBD).to(at::kFloat);
    ASSERT_GT(plain.abs().max().item<float>(), 0);
    const float tolerance = type == at::kFloat ? 1e-6f : 8e-3f;  // one rounding of bf16 is 2^-8
    EXPECT_LE((packed - plain).abs().max().item<float>(), tolerance * plain.abs().max().item<float>());
    golden.model->named_parameters().front().tensor->zero_();
    EXPECT_TRUE(golden.model->logits(hidden_TBD).to(at::kFloat).equal(packed));
    const at::Tensor row = golden.model->logits(hidden_TBD.narrow(0, 0, 1).narrow(1, 0, 1));
    EXPECT_EQ(row.abs().max().item<float>() == 0, type == at::kFloat) << "of one row plain weights are read in fp32";
  }
}

TEST(Generation, AStopTokenEndsItsOwnTextAlone) {
  const Golden golden("llama");
  GenerationConfig config = golden.config();
  config.stop_ids = {500, golden.added[0][4], golden.added[1][9]};  // the second is none of the others' before that
  const auto results = generate_tokens(*golden.model, golden.prompts, 0, config);
  size_t num_stopped = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    Ids want;
    for (const int32_t id : golden.added[i]) {
      want.push_back(id);
      if (std::count(config.stop_ids.begin(), config.stop_ids.end(), id) > 0) break;
    }
    EXPECT_EQ(results[i].ids, want) << i;
    const bool is_stopped = want.size() < golden.added[i].size();
    EXPECT_EQ(results[i].reason, is_stopped ? StopReason::kEod : StopReason::kLength) << i;
    num_stopped += is_stopped ? 1 : 0;
  }
  EXPECT_GE(num_stopped, 2u);
  EXPECT_NE(results[0].ids.size(), results[1].ids.size());
}

TEST(Generation, TextsEndWithThePositions) {
  const Golden golden("gpt2");
  const int64_t positions = golden.model->shape().max_positions;
  GenerationConfig config = golden.config();
  config.max_new_tokens = 1000;
  std::vector<Ids> prompts = golden.prompts;
  prompts.emplace_back(static_cast<size_t>(positions), 7);
  const auto results = generate_tokens(*golden.model, prompts, 0, config);
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(results[i].reason, StopReason::kPositions) << i;
    EXPECT_EQ(std::ssize(results[i].ids), positions - std::ssize(prompts[i]) + 1) << i;
    if (i == golden.added.size()) continue;
    EXPECT_TRUE(std::equal(golden.added[i].begin(), golden.added[i].end(), results[i].ids.begin())) << i;
  }
}

TEST(Generation, OnlyIdsBelowTheLimitAreChosen) {
  const Golden golden("nemotron");
  GenerationConfig config = golden.config();
  config.num_ids = 40;
  bool is_other = false;
  const auto results = generate_tokens(*golden.model, golden.prompts, 0, config);
  for (size_t i = 0; i < results.size(); ++i) {
    for (const int32_t id : results[i].ids) EXPECT_LT(id, 40);
    is_other = is_other || results[i].ids != golden.added[i];
  }
  EXPECT_TRUE(is_other);
}

}  // namespace
}  // namespace lockstep::infer
