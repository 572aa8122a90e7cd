// config.json of Hugging Face: what is written of a shape is read back as the same network, for every class.
#include "config/gpt_config.h"

#include <gtest/gtest.h>

#include <tuple>

#include "config/gpt_params.h"
#include "core/error.h"
#include "unit/config/gpt_unpadded.h"

namespace lockstep::config {
namespace {

/// Everything of a shape that a configuration has a place for.
auto held(const GptShape& shape) {
  const RotaryScaling scaling = shape.rotary_scaling.value_or(RotaryScaling{.factor = 0});
  return std::tuple(shape.layers, shape.hidden, shape.heads, shape.query_groups, shape.head_width, shape.ffn,
                    shape.vocab, shape.max_positions, shape.positions, shape.rotary_fraction, shape.rotary_base,
                    scaling.factor, scaling.low_factor, scaling.high_factor, scaling.original_positions,
                    shape.activation, shape.norm, shape.norm_eps, shape.has_bias, shape.has_qkv_bias,
                    shape.is_head_tied, shape.init_std, shape.attention_dropout);
}

GptShape read_back(const GptShape& shape) {
  return parse_gpt_shape(hugging_face_config(shape, {.eos_ids = {3}, .bos_id = 3}).dump(), "config.json");
}

TEST(GptConfig, NamedModelsAreReadBack) {
  int num_models = 0;
  for (const std::string& name : gpt_model_names()) {
    const GptShape shape = resolve_gpt_shape(name), back = read_back(shape);
    EXPECT_EQ(held(back), held(shape)) << name;
    EXPECT_EQ(unpadded_parameters(back), unpadded_parameters(shape)) << name;
    EXPECT_EQ(back.hidden_dropout, shape.hidden_dropout) << name;
    ++num_models;
  }
  EXPECT_GE(num_models, 20);
}

TEST(GptConfig, NothingStaysAtItsDefault) {
  const GptShape gpt2{.layers = 3,
                      .hidden = 24,
                      .heads = 3,
                      .query_groups = 3,
                      .head_width = 8,
                      .ffn = 40,
                      .vocab = 77,
                      .sequence = 16,
                      .max_positions = 19,
                      .activation = GptActivation::kGelu,
                      .norm_eps = 1e-6,
                      .init_std = 0.03,
                      .hidden_dropout = 0.2,
                      .attention_dropout = 0.3};
  EXPECT_EQ(held(read_back(gpt2)), held(gpt2));
  EXPECT_EQ(read_back(gpt2).hidden_dropout, 0.2);
  GptShape relu = gpt2;
  relu.activation = GptActivation::kSquaredRelu;
  EXPECT_EQ(held(read_back(relu)), held(relu));
  const GptShape llama{
      .layers = 3,
      .hidden = 24,
      .heads = 4,
      .query_groups = 2,
      .head_width = 10,
      .ffn = 40,
      .vocab = 77,
      .sequence = 16,
      .max_positions = 19,
      .positions = GptPositions::kRotary,
      .rotary_base = 5000,
      .rotary_scaling = RotaryScaling{.factor = 4, .low_factor = 2, .high_factor = 3, .original_positions = 11},
      .activation = GptActivation::kSwiglu,
      .norm = GptNorm::kRmsNorm,
      .norm_eps = 1e-7,
      .has_bias = false,
      .is_head_tied = true,
      .init_std = 0.03,
      .hidden_dropout = 0,
      .attention_dropout = 0.3};
  EXPECT_EQ(held(read_back(llama)), held(llama));
  const GptShape nemotron{.layers = 3,
                          .hidden = 24,
                          .heads = 4,
                          .query_groups = 1,
                          .head_width = 16,
                          .ffn = 40,
                          .vocab = 77,
                          .sequence = 16,
                          .max_positions = 19,
                          .positions = GptPositions::kRotary,
                          .rotary_fraction = 0.25,
                          .rotary_base = 5000,
                          .activation = GptActivation::kSquaredRelu,
                          .norm = GptNorm::kLayerNorm1p,
                          .norm_eps = 1e-7,
                          .has_bias = false,
                          .is_head_tied = true,
                          .init_std = 0.03,
                          .hidden_dropout = 0,
                          .attention_dropout = 0.3};
  EXPECT_EQ(held(read_back(nemotron)), held(nemotron));
}

TEST(GptConfig, TokensTypeAndClass) {
  const core::Json gpt2 =
      hugging_face_config(resolve_gpt_shape("gpt3-175b"), {.eos_ids = {50256}, .bos_id = 50256, .dtype = "bfloat16"});
  EXPECT_EQ(gpt2.at("architectures"), core::Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(gpt2.at("vocab_size"), 50257) << "without the padding";
  EXPECT_EQ(gpt2.at("eos_token_id"), 50256);
  EXPECT_EQ(gpt2.at("torch_dtype"), "bfloat16");
  const core::Json llama = hugging_face_config(resolve_gpt_shape("llama3-8b"),
                                               {.eos_ids = {7, 9}, .bos_id = std::nullopt, .dtype = "float16"});
  EXPECT_EQ(llama.at("eos_token_id"), core::Json::array({7, 9}));
  EXPECT_TRUE(llama.at("bos_token_id").is_null());
  EXPECT_TRUE(llama.at("rope_scaling").is_null());
  EXPECT_TRUE(llama.at("rope_theta").is_number_float()) << "transformers takes no whole number";
  EXPECT_FALSE(llama.contains("partial_rotary_factor"));
  EXPECT_TRUE(
      hugging_face_config(resolve_gpt_shape("gpt2"), {.eos_ids = {}, .bos_id = {}}).at("eos_token_id").is_null());
}

TEST(GptConfig, AShapeThatNoClassHoldsIsRefused) {
  GptShape shape = resolve_gpt_shape("gpt2");
  shape.is_head_tied = false;
  try {
    hugging_face_config(shape, {.eos_ids = {}, .bos_id = {}});
    FAIL() << "an untied GPT-2 was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("GPT-2 (its head is untied)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::config
