#include "tasks/gpt/front/gpt_recorded.h"

#include <gtest/gtest.h>

#include "commands/commands.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::commands {
namespace {

using namespace config;  // NOLINT: tests of options of every module
using namespace tasks;

/// The options of a command line as run.json has them.
core::Json recorded(const std::string& flags) {
  std::vector<std::string> args = {"train", "gpt"};
  for (const std::string& word : core::split(flags, " "))
    if (!word.empty()) args.push_back(word);
  return parse_flags(args).set->values_json();
}

TEST(GptRecorded, TheShapeIsThatOfTheRun) {
  const core::Json values = recorded(
      "--model llama3-8b --num-layers 3 --hidden-size 96 --num-attention-heads 6 --group-query-attention "
      "--num-query-groups 2 --kv-channels 20 --seq-length 48 "
      "--rotary-percent 0.5 --rotary-base 500 --use-rope-scaling --rope-scaling-factor 2 --norm-epsilon 1e-06 "
      "--apply-layernorm-1p --squared-relu --add-qkv-bias "
      "--vocab-size 301 --make-vocab-size-divisible-by 4 --tokenizer-model some/tokenizer.json --lr 1 --train-iters 9 "
      "--mock-data --data-path x --bf16");
  const GptOptions options = recorded_gpt_options(values, "run.json");
  const GptShape shape = gpt_shape_of(options);
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.hidden, 96);
  EXPECT_EQ(shape.query_groups, 2);
  EXPECT_EQ(shape.head_width, 20);
  EXPECT_EQ(shape.sequence, 48);
  EXPECT_EQ(shape.rotary_base, 500);
  EXPECT_EQ(shape.rotary_fraction, 0.5);
  ASSERT_TRUE(shape.rotary_scaling.has_value());
  EXPECT_EQ(shape.rotary_scaling->factor, 2);
  EXPECT_EQ(shape.norm_eps, 1e-6);
  EXPECT_EQ(shape.norm, GptNorm::kLayerNorm1p);
  EXPECT_EQ(shape.activation, GptActivation::kSquaredRelu);
  EXPECT_TRUE(shape.has_qkv_bias);
  EXPECT_EQ(shape.padded_vocab(1), 304);
  EXPECT_EQ(options.tokenizer_model, "some/tokenizer.json");
  EXPECT_TRUE(options.mock_data);
  EXPECT_FALSE(options.lr.has_value()) << "what says nothing about the model stays out";
  EXPECT_FALSE(options.bf16);
  EXPECT_EQ(recorded_gpt_options(recorded("--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 4"),
                                 "run.json")
                .hidden_size,
            8);
}

TEST(GptRecorded, WhatTheFlagsWouldNotTakeIsRefused) {
  for (const char* text : {R"({"num_layers": "many"})", R"({"num_layers": -3})", R"({"hidden_size": [1, 2]})",
                           R"({"normalization": "BatchNorm"})"}) {
    try {
      recorded_gpt_options(core::parse_json(text, "test"), "the/run.json");
      FAIL() << text;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("the/run.json"), std::string::npos) << error.what();
    }
  }
  EXPECT_TRUE(recorded_gpt_options(core::parse_json(R"({"of_a_later_version": 3, "swiglu": true})", "test"), "run.json")
                  .swiglu);
}

}  // namespace
}  // namespace lockstep::commands
