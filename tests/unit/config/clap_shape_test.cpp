#include "config/clap_shape.h"

#include <gtest/gtest.h>

#include <set>

#include "core/json.h"
#include "core/rng.h"
#include "support/error_text.h"

namespace lockstep::config {
namespace {

using tests::message_of;

const char* const kOpenClipTiny = R"({"embed_dim": 512,
  "audio_cfg": {"audio_length": 1024, "clip_samples": 480000, "mel_bins": 64, "sample_rate": 48000, "window_size": 1024,
                "hop_size": 480, "fmin": 50, "fmax": 14000, "class_num": 527, "model_type": "HTSAT", "model_name": "tiny",
                "proj_act": "relu"},
  "text_cfg": {"hf_model_name": "roberta-base", "hf_tokenizer_name": "roberta-base", "hf_pooler_type": "cls_pooler",
               "hf_proj_type": "clap_mlp"}})";
const char* const kLaionTiny = R"({"embed_dim": 768,
  "audio_cfg": {"audio_length": 1024, "clip_samples": 480000, "mel_bins": 64, "sample_rate": 48000, "window_size": 1024,
                "hop_size": 480, "fmin": 50, "fmax": 14000, "class_num": 527, "model_type": "HTSAT", "model_name": "tiny"},
  "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12, "model_type": "roberta"}})";

/// The text with the value at a JSON pointer replaced; null removes it.
std::string changed(const char* text, const char* pointer, const core::Json& value) {
  core::Json root = core::parse_json(text, "test");
  root[core::Json::json_pointer(pointer)] = value;
  return root.dump();
}

TEST(ClapShape, ParameterCountsArePublished) {
  // The published totals count the constant STFT and mel weights of LAION's files.
  constexpr int64_t kFftSize = 1024, kMelBins = 64, kConstants = (kFftSize / 2 + 1) * (2 * kFftSize + kMelBins);
  const ClapCost tiny = clap_cost(resolve_clap_shape("HTSAT-tiny-Roberta-base"));
  EXPECT_EQ(tiny.audio_parameters, 30241687);
  EXPECT_EQ(tiny.text_parameters, 124645632);
  EXPECT_EQ(tiny.parameters + kConstants, 158334169);
  const ClapCost base = clap_cost(resolve_clap_shape("HTSAT-base-Roberta-base"));
  EXPECT_EQ(base.audio_parameters, 71341079);
  EXPECT_EQ(base.parameters + kConstants, 199564633);
}

TEST(ClapShape, WorkIsThatOfThePublishedTables) {
  const ClapShape shape = resolve_clap_shape("HTSAT-tiny-Roberta-base");
  const ClapCost tiny = clap_cost(shape), base = clap_cost(resolve_clap_shape("HTSAT-base-Roberta-base")),
                 large = clap_cost(resolve_clap_shape("HTSAT-large-Roberta-base"));
  EXPECT_NEAR(tiny.audio_forward_flops / 1e9, 14.14, 0.005);
  EXPECT_NEAR(base.audio_forward_flops / 1e9, 33.03, 0.005);
  EXPECT_NEAR(large.audio_forward_flops / 1e9, 123.48, 0.005);
  EXPECT_NEAR(tiny.text_forward_flops / 1e9, 13.30, 0.005);
  EXPECT_NEAR(clap_text_forward_flops(shape, 512) / 1e9, 96.64, 0.006);
  EXPECT_NEAR(tiny.nominal_text_flops / 1e9, 97.05, 0.006);
  EXPECT_NEAR((tiny.audio_forward_flops + tiny.nominal_text_flops) / 1e9, 111.20,
              0.006);  // the published nominal GFLOPs
  EXPECT_NEAR((base.audio_forward_flops + base.nominal_text_flops) / 1e9, 130.1, 0.06);
  EXPECT_LT(tiny.audio_computed_flops, tiny.audio_forward_flops);
  EXPECT_LT(clap_text_forward_flops(shape, 12), tiny.text_forward_flops / 6);
}

TEST(ClapShape, WhatGetsNoGradientIsCarried) {
  std::set<std::string> carried;
  int64_t carried_elements = 0;
  for (const ParamSpec& spec : clap_param_specs(resolve_clap_shape("HTSAT-tiny-Roberta-base"))) {
    if (!spec.is_carried) continue;
    EXPECT_TRUE(spec.is_buffer) << spec.name;
    EXPECT_FALSE(spec.weight_decay) << spec.name;
    carried.insert(spec.name.substr(0, spec.name.find('.', spec.name.starts_with("audio_branch.") ? 13 : 0)));
    carried_elements += spec.numel();
  }
  EXPECT_EQ(carried, (std::set<std::string>{"audio_branch.head", "audio_branch.tscam_conv", "audio_transform",
                                            "logit_scale_t", "text_transform"}));
  const ClapCost cost = clap_cost(resolve_clap_shape("HTSAT-tiny-Roberta-base"));
  EXPECT_EQ(cost.parameters - cost.trained_parameters, carried_elements);
}

TEST(ClapShape, DecayFollowsOpenClipsRule) {
  std::set<std::string> decayed;
  for (const ParamSpec& spec : clap_param_specs(resolve_clap_shape("HTSAT-tiny-Roberta-base")))
    if (spec.weight_decay) decayed.insert(spec.name);
  for (const char* name :
       {"audio_branch.patch_embed.proj.weight", "audio_branch.layers.0.blocks.1.attn.qkv.weight",
        "audio_branch.layers.2.downsample.reduction.weight", "text_branch.embeddings.position_embeddings.weight",
        "text_branch.encoder.layer.11.output.dense.weight", "audio_projection.2.weight"})
    EXPECT_TRUE(decayed.contains(name)) << name;
  for (const std::string& name : decayed) {
    EXPECT_EQ(name.find("bias"), std::string::npos) << name;
    EXPECT_EQ(name.find("orm"), std::string::npos) << name;  // norms are vectors
  }
}

TEST(ClapShape, OwnSizesStandUnderTheNamesOfTheirLibraries) {
  const ClapShape shape = parse_clap_shape(R"({"embed_dim": 64,
    "audio_cfg": {"model_type": "HTSAT", "model_name": "tiny", "sample_rate": 16000, "clip_samples": 32000, "window_size": 512, "hop_size": 160,
                  "fmin": 50, "fmax": 8000, "mel_bins": 32, "htsat_config": {"embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "spec_size": 128,
                  "patch_size": 4, "window_size": 8, "mlp_ratio": 2.0, "drop_path_rate": 0.0, "spec_augment": false}},
    "text_cfg": {"hf_model_name": "roberta-base", "hf_pooler_type": "mean_pooler", "hf_proj_type": "linear", "context_length": 20,
                 "hf_model_config": {"vocab_size": 300, "max_position_embeddings": 40, "hidden_size": 48, "num_attention_heads": 4,
                                     "num_hidden_layers": 2, "intermediate_size": 96, "hidden_dropout_prob": 0.0}}})",
                                           "own");
  EXPECT_EQ(shape.audio.depths, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(shape.audio.feature_width(), 32);
  EXPECT_FALSE(shape.audio.spec_augment);
  EXPECT_EQ(shape.text.width, 48);
  EXPECT_EQ(shape.text.vocab_size, 300);
  EXPECT_EQ(shape.text.context_length, 20);
  EXPECT_LT(clap_cost(shape).parameters, 600'000);
  EXPECT_THROW(parse_clap_shape(R"({"embed_dim": 64, "audio_cfg": {"htsat_config": {"depths": "x"}},
    "text_cfg": {"hf_model_name": "roberta-base"}})",
                                "own"),
               UsageError);
}

TEST(ClapShape, JsonFormsGiveTheNamedShapes) {
  const auto names = [](const ClapShape& shape) {
    std::vector<std::pair<std::string, std::vector<int64_t>>> list;
    for (const ParamSpec& spec : clap_param_specs(shape)) list.emplace_back(spec.name, spec.shape);
    return list;
  };
  const ClapShape open = parse_clap_shape(kOpenClipTiny, "open"), laion = parse_clap_shape(kLaionTiny, "laion");
  EXPECT_EQ(names(open), names(resolve_clap_shape("CLAP-HTSAT-tiny-Roberta-base")));
  EXPECT_EQ(names(laion), names(resolve_clap_shape("HTSAT-tiny-Roberta-base")));
  EXPECT_TRUE(laion.text_projection.is_relu && open.audio_projection.is_relu);
  const std::string base = R"({"embed_dim": 1024, "audio_cfg": {"model_type": "HTSAT", "model_name": "base"},
    "text_cfg": {"hf_model_name": "roberta-base", "hf_tokenizer_name": "roberta-base", "hf_pooler_type": "mean_pooler"}})";
  const ClapShape read = parse_clap_shape(base, "base"), named = resolve_clap_shape("CLAP-HTSAT-base-Roberta-base");
  EXPECT_EQ(names(read), names(named));
  EXPECT_EQ(read.text.pooler, TextPooler::kMean);
  EXPECT_FALSE(read.audio_projection.is_relu || read.text_projection.is_relu || read.text_projection.has_bias);
  for (const auto& [name, shape] : names(named)) EXPECT_EQ(name.find("pooler"), std::string::npos);
}

TEST(ClapShape, ForeignConfigurationsAreRefusedByName) {
  const auto parse = [](const std::string& text) {
    return message_of<UsageError>([&] { parse_clap_shape(text, "x.json"); });
  };
  EXPECT_NE(parse(changed(kOpenClipTiny, "/audio_cfg/enable_fusion", true)).find("fusion"), std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/audio_cfg/model_type", "whisper")).find("'whisper' is not supported"),
            std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/text_cfg/hf_model_name", "bert-base-uncased")).find("'bert-base-uncased'"),
            std::string::npos);
  EXPECT_NE(parse(changed(kLaionTiny, "/text_cfg/model_type", nullptr)).find("--tmodel roberta"), std::string::npos);
  EXPECT_NE(parse(changed(kLaionTiny, "/embed_dim", 512)).find("width is 768"), std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/audio_cfg/mel_bin", 64)).find("did you mean 'mel_bins'?"),
            std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/audio_cfg/mel_bins", 60)).find("must divide"), std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/audio_cfg/clip_samples", 960000)).find("at most 1024"), std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/audio_cfg/fmax", 30000)).find("half the sample rate"), std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/text_cfg/hf_pooler_type", "last_pooler")).find("cls_pooler"),
            std::string::npos);
  EXPECT_NE(parse(changed(kOpenClipTiny, "/text_cfg/context_length", 600)).find("context_length=600"),
            std::string::npos);
}

TEST(ClapShape, NamesAreKnownOrRefused) {
  const auto resolve = [](const std::string& name) {
    return message_of<UsageError>([&] { resolve_clap_shape(name); });
  };
  for (const std::string& name : clap_model_names()) EXPECT_EQ(resolve_clap_shape(name).name, name);
  EXPECT_NE(resolve("CLAP-Whisper-tiny-Roberta-base").find("Whisper encoder"), std::string::npos);
  EXPECT_NE(resolve("CLAP-HTSAT-tiny-Roberta-base-fused").find("fusion"), std::string::npos);
  EXPECT_NE(resolve("HTSAT-tiny").find("CLIP's transformer"), std::string::npos);
  EXPECT_NE(resolve("naflexclap_base_pf4_pt20_moderntextp").find("NaFlex"), std::string::npos);
  EXPECT_NE(resolve("HTSAT-tiny-Roberta-bas").find("did you mean 'HTSAT-tiny-Roberta-base'?"), std::string::npos);
}

TEST(ClapShape, DamagedJsonNeverCrashes) {
  core::CounterRng rng(4);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 2 == 0 ? kOpenClipTiny : kLaionTiny;
    for (int change = 0; change < 2; ++change) text[rng.below(text.size())] = static_cast<char>(32 + rng.below(95));
    try {
      clap_cost(parse_clap_shape(text, "mutated"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 2000);
}

}  // namespace
}  // namespace lockstep::config
