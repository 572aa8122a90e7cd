#include "config/clip_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "config/clip_list.h"
#include "config/hub_names.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/rng.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

constexpr std::string_view kSmall =
    R"({"embed_dim": 24, "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16,
  "patch_size": 8}, "text_cfg": {"context_length": 12, "vocab_size": 64, "width": 32, "heads": 2, "layers": 2}})";

std::string usage_error_of(const auto& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

core::Json openclip_configs() {
  return core::read_json_file(std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "clip" / "openclip_configs.json");
}

TEST(ClipShape, EveryOpenClipConfigurationIsKnownOrRefusedByName) {
  const core::Json configs = openclip_configs();
  const std::vector<std::string> names = clip_model_names();
  const std::set<std::string> built_in(names.begin(), names.end());
  EXPECT_EQ(built_in.size(), names.size());
  size_t num_known = 0;
  for (const auto& [name, entry] : configs.items()) {
    SCOPED_TRACE(name);
    if (!built_in.contains(name)) {
      const std::string message = usage_error_of([&] { resolve_clip_shape(name); });
      EXPECT_NE(message.find("'" + name + "' of OpenCLIP is not supported: "), std::string::npos) << message;
      // What the table leaves out, the reader of configurations must not take either.
      if (!entry.is_null()) {
        EXPECT_NE(usage_error_of([&] { parse_clip_shape(entry["config"].dump(), name); }), "");
      }
      continue;
    }
    ++num_known;
    ASSERT_FALSE(entry.is_null());
    const ClipShape shape = resolve_clip_shape(name);
    const ClipCost cost = clip_cost(shape);
    EXPECT_EQ(cost.image_parameters, entry["image"].get<int64_t>());
    EXPECT_EQ(cost.text_parameters, entry["text"].get<int64_t>());
    int64_t decayed = 0;
    for (const ParamSpec& spec : clip_param_specs(shape)) decayed += spec.weight_decay ? spec.numel() : 0;
    EXPECT_EQ(decayed, entry["decayed"].get<int64_t>());
    const ClipShape parsed = parse_clip_shape(entry["config"].dump(), name);
    EXPECT_EQ(clip_cost(parsed).parameters(), cost.parameters());
    EXPECT_EQ(parsed.quick_gelu, shape.quick_gelu);
    EXPECT_EQ(parsed.has_custom_text, shape.has_custom_text);
    EXPECT_EQ(parsed.init_logit_bias, shape.init_logit_bias);
    EXPECT_EQ(parsed.captions.has_value(), shape.captions.has_value());
    if (parsed.captions && shape.captions) {
      EXPECT_EQ(parsed.captions->heads, shape.captions->heads);
    }
    EXPECT_EQ(parsed.vision.tower, shape.vision.tower);
    EXPECT_EQ(parsed.vision.pool, shape.vision.pool);
    EXPECT_EQ(parsed.vision.norms_after_pool, shape.vision.norms_after_pool);
    EXPECT_EQ(parsed.vision.has_tanh_gelu, shape.vision.has_tanh_gelu);
    EXPECT_EQ(parsed.vision.norm_epsilon, shape.vision.norm_epsilon);
    EXPECT_EQ(parsed.vision.drop_path, shape.vision.drop_path);
    EXPECT_EQ(parsed.vision.timm.has_own_head, shape.vision.timm.has_own_head);
    EXPECT_EQ(parsed.vision.has_ln_pre, shape.vision.has_ln_pre);
    EXPECT_EQ(parsed.vision.has_class_token, shape.vision.has_class_token);
    EXPECT_EQ(parsed.vision.pooler_heads, shape.vision.pooler_heads);
    EXPECT_EQ(parsed.text.tower, shape.text.tower);
    EXPECT_EQ(parsed.text.tokens, shape.text.tokens);
    EXPECT_EQ(parsed.text.used_cleaning(), shape.text.used_cleaning());
    EXPECT_EQ(parsed.text.pool, shape.text.pool);
    EXPECT_EQ(parsed.text.is_causal, shape.text.is_causal);
    EXPECT_EQ(parsed.text.has_tanh_gelu, shape.text.has_tanh_gelu);
    EXPECT_EQ(parsed.text.norm_epsilon, shape.text.norm_epsilon);
    EXPECT_EQ(parsed.text.context_length, shape.text.context_length);
    EXPECT_EQ(parsed.text.pad_id, shape.text.pad_id);
    if (shape.text.pool == TextPool::kEndId) {
      EXPECT_EQ(parsed.text.eos_id, shape.text.eos_id);
    }
    EXPECT_EQ(parsed.vision.image_size, shape.vision.image_size);
    EXPECT_EQ(parsed.vision.heads(), shape.vision.heads());
    EXPECT_EQ(parsed.vision.layer_scale, shape.vision.layer_scale);
    EXPECT_EQ(parsed.text.heads, shape.text.heads);
    EXPECT_EQ(clip_cost(parsed).image_forward_flops, cost.image_forward_flops);
    EXPECT_EQ(clip_cost(parsed).text_forward_flops, cost.text_forward_flops);
  }
  EXPECT_EQ(configs.size(), 144u);
  EXPECT_EQ(num_known, names.size());
}

TEST(ClipList, HasEveryConfiguration) {
  std::vector<std::string> listed = clip_model_names(), wanted;
  std::sort(listed.begin(), listed.end());
  const core::Json configs = openclip_configs();
  for (const auto& [name, entry] : configs.items()) wanted.push_back(name);
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(listed, wanted);
}

TEST(ClipList, ThePageIsTheListOfThisProgram) {
  const auto page = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "docs" / "clip_models.md";
  size_t num_lines = 0;
  for (const std::string& line : core::split(openclip_models_list(), "\n")) {
    EXPECT_LE(line.size(), 80u) << line;
    EXPECT_EQ(line.find('|'), std::string::npos) << line;
    ++num_lines;
  }
  EXPECT_GT(num_lines, clip_model_names().size());
  EXPECT_EQ(core::read_file(page), openclip_models_page())
      << "write it again: build/lockstep train clip --list-models > docs/clip_models.md";
}

struct Published {  // OpenCLIP's docs/model_profile.csv: parameters in millions, forward GFLOPs, both of image and text
                    // tower
  const char* model;
  const char *image_mparams, *text_mparams, *image_gflops, *text_gflops;
};

TEST(ClipShape, CostsArePublishedFigures) {
  for (const Published& row : {Published{"ViT-S-32", "22.64", "40.44", "2.29", "3.38"},
                               Published{"ViT-M-32", "39.69", "63.43", "3.99", "5.96"},
                               Published{"ViT-B-32", "87.85", "63.43", "8.82", "5.96"},
                               Published{"ViT-B-16", "86.19", "63.43", "35.13", "5.96"},
                               Published{"ViT-B-32-256", "87.86", "63.43", "11.50", "5.96"},
                               Published{"RN101", "56.26", "63.43", "19.54", "5.96"},
                               Published{"RN50", "38.32", "63.69", "12.22", "5.96"},
                               Published{"ViT-L-14", "303.97", "123.65", "162.03", "13.30"},
                               Published{"ViT-H-14", "632.08", "354.03", "334.59", "47.09"},
                               Published{"ViT-g-14", "1012.65", "354.03", "534.06", "47.09"},
                               Published{"ViT-bigG-14", "1844.91", "694.66", "967.50", "97.86"},
                               Published{"ViT-B-16-SigLIP", "92.88", "110.27", "35.42", "11.02"},
                               Published{"ViT-SO400M-14-SigLIP", "427.68", "449.68", "220.35", "13.19"},
                               Published{"EVA02-B-16", "86.26", "63.43", "35.13", "5.96"},
                               Published{"EVA02-L-14-336", "304.43", "123.65", "381.86", "13.30"},
                               Published{"convnext_base", "88.09", "63.43", "30.71", "5.96"},
                               Published{"convnext_large_d_320", "199.77", "152.00", "140.25", "17.73"},
                               Published{"convnext_xxlarge", "846.54", "354.03", "395.94", "47.09"},
                               Published{"ViT-L-14-CLIPA", "303.96", "110.25", "162.03", "5.47"},
                               Published{"ViT-H-14-CLIPA-336", "632.48", "336.16", "781.45", "19.43"},
                               Published{"roberta-ViT-B-32", "87.85", "124.87", "8.82", nullptr},
                               Published{"mt5-base-ViT-B-32", "87.85", "277.86", "8.82", "13.30"},
                               Published{"mt5-xl-ViT-H-14", "632.08", "1674.68", "334.59", "179.45"},
                               Published{"nllb-clip-base", "87.85", "414.04", "8.82", nullptr},
                               Published{"nllb-clip-large", "632.08", "767.14", "334.59", nullptr}}) {
    SCOPED_TRACE(row.model);
    const ClipCost cost = clip_cost(resolve_clip_shape(row.model));
    EXPECT_EQ(fmt::format("{:.2f}", static_cast<double>(cost.image_parameters) / 1e6), row.image_mparams);
    EXPECT_EQ(fmt::format("{:.2f}", static_cast<double>(cost.text_parameters) / 1e6), row.text_mparams);
    EXPECT_EQ(fmt::format("{:.2f}", cost.image_forward_flops / 1e9), row.image_gflops);
    if (row.text_gflops != nullptr) {  // RoBERTa was profiled at 514 tokens, NLLB at 1,024
      EXPECT_EQ(fmt::format("{:.2f}", cost.text_forward_flops / 1e9), row.text_gflops);
    }
  }
  EXPECT_EQ(clip_cost(resolve_clip_shape("ViT-B-32")).parameters(), 151'277'313);
  EXPECT_EQ(clip_cost(resolve_clip_shape("ViT-L-14")).parameters(), 427'616'513);
}

TEST(ClipShape, ImageCostsArePyTorchs) {  // torch.utils.flop_counter on timm's towers
  EXPECT_DOUBLE_EQ(clip_cost(resolve_clip_shape("swin_base_patch4_window7_224")).image_forward_flops, 30861156352.0);
  EXPECT_DOUBLE_EQ(clip_cost(resolve_clip_shape("MobileCLIP2-S0")).image_forward_flops, 4785307648.0);
  EXPECT_DOUBLE_EQ(clip_cost(resolve_clip_shape("MobileCLIP2-S3")).image_forward_flops, 29641752576.0);
  const double mlps_of_positions = 12 * 2.0 * 27 * 27 * (2 * 256 + 256 * 8);  // once a batch, not counted
  EXPECT_DOUBLE_EQ(clip_cost(resolve_clip_shape("vit_relpos_medium_patch16_cls_224")).image_forward_flops,
                   16026226688.0 - mlps_of_positions);
}

TEST(ClipShape, CocaCostsAreThePublishedOnes) {
  const ClipShape shape = resolve_clip_shape("coca_ViT-B-32");
  const ClipCost cost = clip_cost(shape);
  EXPECT_EQ(fmt::format("{:.2f}", static_cast<double>(cost.image_parameters) / 1e6), "89.16");
  EXPECT_EQ(fmt::format("{:.2f}", static_cast<double>(cost.parameters()) / 1e6), "253.56");
  EXPECT_EQ(fmt::format("{:.2f}", cost.image_forward_flops / 1e9), "9.19");
  EXPECT_EQ(clip_caption_forward_flops(resolve_clip_shape("ViT-B-32"), 76), 0.0);
}

TEST(ClipShape, FewerTokensCostLess) {
  const ClipShape shape = resolve_clip_shape("ViT-B-32");
  EXPECT_EQ(clip_text_forward_flops(shape, 77), clip_cost(shape).text_forward_flops);
  EXPECT_LT(clip_text_forward_flops(shape, 16), 0.21 * clip_text_forward_flops(shape, 77));
  EXPECT_LT(clip_image_forward_flops(shape, 25), 0.55 * clip_image_forward_flops(shape, 50));
}

TEST(ClipShape, UnknownNameGetsTheNearestOne) {
  const std::string message = usage_error_of([] { resolve_clip_shape("ViT-B32"); });
  EXPECT_NE(message.find("unknown model 'ViT-B32'"), std::string::npos) << message;
  EXPECT_NE(message.find("ViT-B-32"), std::string::npos) << message;
}

TEST(ClipShape, NamesOfTheHubAreToldHowToFetchThem) {
  const std::string message =
      usage_error_of([] { resolve_clip_shape("hf-hub:laion/CLIP-ViT-B-32-laion2B-s34B-b79K"); });
  for (const char* text :
       {"nothing is downloaded", "`hf download laion/CLIP-ViT-B-32-laion2B-s34B-b79K`", "--pretrained FILE"})
    EXPECT_NE(message.find(text), std::string::npos) << text << " in: " << message;
  EXPECT_EQ(message.find("known: "), std::string::npos) << message;
  EXPECT_EQ(hint_for_name("hf-data/a.pt", "give it", "its path"), "its path");
}

TEST(ClipShape, OverridesApplyAndAreChecked) {
  const ClipShape shape = resolve_clip_shape("ViT-B-32", {.image_size = 288,
                                                          .context_length = 32,
                                                          .quick_gelu = true,
                                                          .patch_dropout = 0.5,
                                                          .init_logit_scale = 2.3,
                                                          .init_logit_bias = -10.0});
  EXPECT_EQ(shape.vision.tokens(), 82);
  EXPECT_EQ(shape.text.context_length, 32);
  EXPECT_TRUE(shape.quick_gelu);
  EXPECT_EQ(shape.vision.patch_dropout, 0.5);
  const std::vector<ParamSpec> specs = clip_param_specs(shape);
  EXPECT_EQ(specs.back().name, "logit_bias");
  EXPECT_EQ(specs.back().init.mean, -10.0);
  EXPECT_EQ(specs[specs.size() - 2].init.mean, 2.3);
  EXPECT_NE(usage_error_of([] { resolve_clip_shape("RN50", {.image_size = 230}); }).find("multiple of 32"),
            std::string::npos);
  EXPECT_NE(usage_error_of([] { resolve_clip_shape("ViT-B-32", {.image_size = 16}); }).find("patch_size=32"),
            std::string::npos);
  EXPECT_NE(usage_error_of([] { resolve_clip_shape("ViT-B-32", {.patch_dropout = 1.0}); }).find("patch_dropout=1"),
            std::string::npos);
  EXPECT_NE(usage_error_of([] { resolve_clip_shape("RN50", {.patch_dropout = 0.5}); }).find("patch_dropout"),
            std::string::npos);
}

TEST(ClipShape, ReadsAJsonFile) {
  const core::TempDir folder;
  const auto path = folder.path() / "small.json";
  core::write_file_atomic(path, kSmall);
  const ClipShape shape = resolve_clip_shape(path.string());
  EXPECT_EQ(shape.embed_dim, 24);
  EXPECT_EQ(shape.vision.heads(), 2);
  EXPECT_EQ(shape.vision.tokens(), 17);
  EXPECT_EQ(shape.text.mlp_width(), 128);
  EXPECT_NE(usage_error_of([&] {
              resolve_clip_shape((folder.path() / "absent.json").string());
            }).find("absent.json' does not exist"),
            std::string::npos);
}

TEST(ClipShape, JsonSaysHowTextsAreCleaned) {
  const auto cleaning = [](const std::string& more) {
    return parse_clip_shape(core::replace_all(std::string(kSmall), R"("heads": 2)", R"("heads": 2)" + more), "s")
        .text.used_cleaning();
  };
  const auto kwargs = [](const std::string& inner) { return R"(, "tokenizer_kwargs": {)" + inner + "}"; };
  const std::string roberta = R"(, "hf_tokenizer_name": "roberta-base")";
  EXPECT_EQ(cleaning(""), TextCleaning::kLower);
  EXPECT_EQ(cleaning(roberta), TextCleaning::kWhiteSpace);
  for (const std::string& tokenizer : {std::string(), roberta}) {
    EXPECT_EQ(cleaning(tokenizer + kwargs(R"("clean": "lower")")), TextCleaning::kLower);
    EXPECT_EQ(cleaning(tokenizer + kwargs(R"("clean": "whitespace")")), TextCleaning::kWhiteSpace);
    EXPECT_EQ(cleaning(tokenizer + kwargs(R"("clean": "canonicalize")")), TextCleaning::kCanonical);
  }
  EXPECT_EQ(cleaning(kwargs(R"("reduction_mask": "", "additional_special_tokens": null)")), TextCleaning::kLower)
      << "as they are without";
}

TEST(ClipShape, JsonErrorsNameTheKey) {
  struct Case {
    std::string from, to, expected;
  };
  for (const Case& c :
       {Case{R"("patch_size": 8)", R"("patchsize": 8)", "unknown key 'vision_cfg.patchsize'"},
        Case{R"("heads": 2)", R"("heads": 2, "pool_type": "mean")", "'text_cfg.pool_type' must be \"argmax\""},
        Case{R"("heads": 2)", R"("heads": 2, "hf_model_name": "google/flan-t5-base")",
             "other kinds of encoders are not"},
        Case{R"("heads": 2)", R"("heads": 2, "hf_proj_type": "mlp")", "'text_cfg.hf_proj_type'"},
        Case{R"("heads": 2)", R"("heads": 2, "norm_kwargs": {"eps": 0})", "'text_cfg.norm_kwargs'"},
        Case{R"("heads": 2)", R"("heads": 2, "act_kwargs": {"approximate": "erf"})", "'text_cfg.act_kwargs'"},
        Case{R"("heads": 2)", R"("heads": 2, "hf_tokenizer_name": "google/gemma")",
             "without the key texts are cut by CLIP's"},
        Case{R"("heads": 2)", R"("heads": 2, "tokenizer_kwargs": {"clean": "lowercase"})",
             "'text_cfg.tokenizer_kwargs'"},
        Case{R"("heads": 2)", R"("heads": 2, "tokenizer_kwargs": {"reduction_mask": "simple"})", "cut at their end"},
        Case{R"("heads": 2)", R"("heads": 2, "tokenizer_kwargs": {"additional_special_tokens": ["<x>"]})", "drop it"},
        Case{R"("heads": 2)", R"("heads": 2, "tokenizer_kwargs": {"context_length": 9})", "belongs into text_cfg"},
        Case{R"("heads": 2)", R"("heads": 2, "hf_tokenizer_name": "bert-base", "tokenizer_kwargs": 3)",
             "'text_cfg.tokenizer_kwargs' must be an object, found 3"},
        Case{R"("heads": 2)",
             R"("heads": 2, "hf_tokenizer_name": "bert-base", "tokenizer_kwargs": {"strip_sep_token": 1})",
             R"('text_cfg.tokenizer_kwargs' must be {"strip_sep_token": true}, as CLIPA has it)"},
        Case{R"("embed_dim": 24)", R"("embed_dim": 9223372036854775807)",
             "'embed_dim' must be an integer of at most 10^12, found 9223372036854775807"},
        Case{R"("heads": 2)", R"("heads": 2, "embed_cls": true)", "embed_cls needs custom_text"},
        Case{R"("heads": 2)", R"("heads": 2, "proj_type": "none")", "proj_type 'none' needs the text width 32"},
        Case{R"("head_width": 16)", R"("head_width": 16, "attentional_pool": true, "attn_pooler_heads": 5)",
             "attn_pooler_heads=5 does not divide embed_dim 24"},
        Case{R"("layers": 2)", R"("layers": [1, 2, 3])",
             "'vision_cfg.layers' must be an integer (ViT) or four integers"},
        Case{R"("layers": 2)", R"("layers": 2.5)", "'vision_cfg.layers' must be an integer, found 2.5"},
        Case{R"("image_size": 32)", R"("image_size": [32, 64])", "one integer (square images)"},
        Case{R"("image_size": 32)", R"("image_size": "32")", "'vision_cfg.image_size' must be an integer"},
        Case{R"("heads": 2)", R"("heads": 3)", "heads=3 does not divide the width 32"},
        Case{R"("head_width": 16)", R"("head_width": 0)", "head_width=0 is out of range"},
        Case{R"("embed_dim": 24)", R"("embed_dim": 24, "multimodal_cfg": {"width": 64})",
             "a captioning model needs custom_text"},
        Case{R"("embed_dim": 24)", R"("embed_dim": 24, "custom_text": true, "multimodal_cfg": {"width": 64})",
             "a captioning model needs a text tower with embed_cls"},
        Case{R"("embed_dim": 24,)", "", "needs 'embed_dim', 'vision_cfg' and 'text_cfg'"},
        Case{R"("width": 32, "head)", R"("width": 32, "timm_model_name": "convnext_atto", "head)",
             "those of OpenCLIP's models: convnext_tiny, convnext_small, convnext_base, convnext_large, "
             "convnext_xlarge, convnext_xxlarge, swin_"},
        Case{R"("width": 32, "head)", R"("width": 32, "timm_model_name": "vit_x", "head)",
             "'vision_cfg.timm_model_name' is \"vit_x\", which is not supported"}}) {
    SCOPED_TRACE(c.to);
    const std::string json = core::replace_all(std::string(kSmall), c.from, c.to);
    ASSERT_NE(json, kSmall);
    const std::string message = usage_error_of([&] { parse_clip_shape(json, "small.json"); });
    EXPECT_NE(message.find(c.expected), std::string::npos) << message;
    EXPECT_NE(message.find("small.json"), std::string::npos) << message;
  }
}

TEST(ClipShape, AConfigurationMayNameItsTower) {
  core::Json config = core::parse_json(kSmall, "small.json");
  const auto parsed = [&](const char* tower) {
    config["vision_cfg"]["tower"] = tower;
    return parse_clip_shape(config.dump(), "small.json");
  };
  EXPECT_EQ(parsed("vit").vision.tower, "vit");
  EXPECT_EQ(parse_clip_shape(kSmall, "small.json").vision.tower, "vit") << "layers is a number";
  EXPECT_NE(usage_error_of([&] { parsed("resnet"); }).find("vision layers has 0 entries"), std::string::npos);
  const std::string message = usage_error_of([&] { parsed("vitt"); });
  for (const char* part : {"'vision_cfg.tower'", "resnet", "vit", "vitt"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
}

TEST(ClipShape, DamagedJsonNeverCrashes) {
  core::CounterRng rng(3);
  size_t num_refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text(kSmall);
    if (rng.below(4) == 0) text.resize(rng.below(text.size()));
    for (uint64_t edits = rng.below(4); edits > 0 && !text.empty(); --edits)
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    try {
      const ClipShape shape = parse_clip_shape(text, "mutated");
      EXPECT_GT(clip_cost(shape).parameters(), 0);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ExitCode::kUsage || error.code() == ExitCode::kData) << error.what();
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 2000u);
}

TEST(ClipShape, InitialLaws) {
  const auto specs = clip_param_specs(resolve_clip_shape("ViT-B-32"));
  const auto law = [&](std::string_view name) {
    const auto it = std::find_if(specs.begin(), specs.end(), [&](const ParamSpec& spec) { return spec.name == name; });
    EXPECT_NE(it, specs.end()) << name;
    return it->init;
  };
  EXPECT_DOUBLE_EQ(law("visual.conv1.weight").deviation, 1 / std::sqrt(3072.0));
  EXPECT_EQ(law("visual.conv1.weight").kind, InitLaw::Kind::kUniform);
  EXPECT_DOUBLE_EQ(law("visual.transformer.resblocks.0.attn.in_proj_weight").deviation, std::sqrt(6.0 / 3072));
  EXPECT_DOUBLE_EQ(law("transformer.resblocks.3.attn.in_proj_weight").deviation, 1 / std::sqrt(512.0));
  EXPECT_DOUBLE_EQ(law("transformer.resblocks.3.mlp.c_proj.weight").deviation, 1 / std::sqrt(512.0 * 24));
  EXPECT_DOUBLE_EQ(law("transformer.resblocks.3.mlp.c_fc.weight").deviation, 1 / 32.0);
  EXPECT_EQ(law("transformer.resblocks.3.mlp.c_fc.weight").kind, InitLaw::Kind::kNormal);
  EXPECT_DOUBLE_EQ(law("transformer.resblocks.3.mlp.c_proj.bias").deviation, 1 / std::sqrt(2048.0));
  EXPECT_EQ(law("transformer.resblocks.3.attn.out_proj.bias").kind, InitLaw::Kind::kZeros);
  EXPECT_DOUBLE_EQ(law("logit_scale").mean, std::log(1 / 0.07));
}

// timm 1.0.19: Eva.apply(_init_weights), fix_init_weight, head_init_scale.
TEST(ClipShape, InitialLawsOfEva02) {
  const auto specs = clip_param_specs(resolve_clip_shape("EVA02-B-16"));
  const auto law = [&](const std::string& name) {
    const auto it = std::find_if(specs.begin(), specs.end(),
                                 [&](const ParamSpec& spec) { return spec.name == "visual.trunk." + name; });
    EXPECT_NE(it, specs.end()) << name;
    return it->init;
  };
  EXPECT_DOUBLE_EQ(law("blocks.3.mlp.fc1_g.weight").deviation, 0.02);
  EXPECT_EQ(law("blocks.3.mlp.fc1_g.bias").kind, InitLaw::Kind::kZeros);
  for (const int block : {0, 3, 11})
    for (const char* part : {"attn.proj", "mlp.fc2"})
      EXPECT_DOUBLE_EQ(law(fmt::format("blocks.{}.{}.weight", block, part)).deviation,
                       0.02 / std::sqrt(2.0 * (block + 1)));
  EXPECT_DOUBLE_EQ(law("blocks.3.mlp.fc1_x.weight").deviation, 0.02);
  EXPECT_DOUBLE_EQ(law("head.weight").deviation, 2e-5);
}

/// timm 1.0.31: what Eva and VisionTransformer draw their first weights from.
TEST(ClipShape, InitialLawsOfVisionTransformersOfTimm) {
  const auto deviation = [](const char* model, const std::string& name) {
    for (const ParamSpec& spec : clip_param_specs(resolve_clip_shape(model)))
      if (spec.name == "visual.trunk." + name) return spec.init.deviation;
    ADD_FAILURE() << model << " has no " << name;
    return 0.0;
  };
  for (const char* model : {"EVA01-g-14", "EVA02-E-14", "PE-Core-B-16"}) {
    for (const char* part : {"attn.proj", "mlp.fc2"})
      EXPECT_DOUBLE_EQ(deviation(model, fmt::format("blocks.5.{}.weight", part)), 0.02 / std::sqrt(12.0)) << model;
    EXPECT_DOUBLE_EQ(deviation(model, "head.weight"), 2e-5) << model;
    EXPECT_DOUBLE_EQ(deviation(model, "cls_token"), 0.02) << model;
  }
  for (const char* model : {"MobileCLIP-B", "MobileCLIP2-L-14"}) {
    EXPECT_DOUBLE_EQ(deviation(model, "blocks.5.mlp.fc2.weight"), 0.02) << model;
    EXPECT_DOUBLE_EQ(deviation(model, "head.weight"), 0.02) << model;
    EXPECT_DOUBLE_EQ(deviation(model, "cls_token"), 1e-6) << model;
  }
}

/// timm draws nothing anew in towers with relative positions: they begin as PyTorch's layers do.
TEST(ClipShape, InitialLawsOfATowerWithRelativePositions) {
  std::map<std::string, InitLaw> laws;
  for (const ParamSpec& spec : clip_param_specs(resolve_clip_shape("vit_relpos_medium_patch16_cls_224")))
    laws[spec.name] = spec.init;
  for (const auto& [name, inputs] : {std::pair{"attn.qkv.weight", 512.0},
                                     {"attn.proj.bias", 512.0},
                                     {"attn.rel_pos.mlp.fc1.weight", 2.0},
                                     {"attn.rel_pos.mlp.fc2.bias", 256.0},
                                     {"mlp.fc2.weight", 2048.0}}) {
    const InitLaw& law = laws.at(std::string("visual.trunk.blocks.3.") + name);
    EXPECT_EQ(law.kind, fan_in(2).kind) << name;
    EXPECT_DOUBLE_EQ(law.deviation, fan_in(static_cast<int64_t>(inputs)).deviation) << name;
  }
  EXPECT_DOUBLE_EQ(laws.at("visual.trunk.cls_token").deviation, 1e-6);
  EXPECT_FALSE(laws.contains("visual.trunk.pos_embed"));
}

TEST(ClipShape, ACaptioningModelBesideRoberta) {
  const ClipShape shape = resolve_clip_shape("coca_roberta-ViT-B-32");
  EXPECT_EQ(shape.captions->vocab_size, 49408);  // not RoBERTa's, as in OpenCLIP
  EXPECT_EQ(shape.text.roberta.vocab_size, 50265);
  EXPECT_EQ(caption_image_tokens(shape.vision), 49);
  const double blocks = 12 * (2.0 * 76 * (4 + 8) * 768 * 768 + 4.0 * 76 * 76 * 768 +       // of the text
                              2.0 * 76 * (2 + 8) * 768 * 768 + 2.0 * 49 * 2 * 768 * 768 +  // to the picture
                              4.0 * 76 * 49 * 768);
  EXPECT_DOUBLE_EQ(clip_cost(shape).caption_forward_flops, blocks + 2.0 * 76 * 768 * 49408);
  const std::string said = usage_error_of([] {
    parse_clip_shape(R"({"embed_dim": 20, "custom_text": true, "vision_cfg": {"image_size": 32, "layers": 1,
      "width": 768, "patch_size": 8}, "text_cfg": {"hf_model_name": "roberta-base", "hf_pooler_type": "cls_pooler"},
      "multimodal_cfg": {"width": 768, "heads": 8, "layers": 1}})",
                     "mine");
  });
  EXPECT_NE(said.find("cls_pooler"), std::string::npos) << said;
}

TEST(ClipShape, AnEncoderOfMt5) {
  const ClipShape shape = resolve_clip_shape("mt5-base-ViT-B-32");
  EXPECT_EQ(t5_name(shape.text.t5), "google/mt5-base");
  EXPECT_EQ(num_text_ids(shape.text), 250112);
  EXPECT_EQ(shape.text.feature_width(), 768);
  // Work of one text: four products of attention and three of the gated layer, scores and their use, the projection.
  EXPECT_DOUBLE_EQ(clip_cost(shape).text_forward_flops,
                   12 * (2.0 * 77 * 768 * (4 * 768 + 3 * 2048) + 4.0 * 77 * 77 * 768) + 2.0 * (768 + 512) * 640);
  std::map<std::string, InitLaw> laws;
  for (const ParamSpec& spec : clip_param_specs(shape)) laws[spec.name] = spec.init;
  const auto deviation = [&](const std::string& name) { return laws.at("text.transformer." + name).deviation; };
  EXPECT_DOUBLE_EQ(deviation("embed_tokens.weight"), 1.0);
  EXPECT_DOUBLE_EQ(deviation("block.3.layer.0.SelfAttention.q.weight"), 1 / std::sqrt(768.0 * 64));
  EXPECT_DOUBLE_EQ(deviation("block.3.layer.1.DenseReluDense.wo.weight"), 1 / std::sqrt(2048.0));
  EXPECT_TRUE(laws.contains("text.transformer.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_FALSE(laws.contains("text.transformer.block.1.layer.0.SelfAttention.relative_attention_bias.weight"));
}

TEST(ClipShape, AnEncoderOfNllb) {
  const ClipShape shape = resolve_clip_shape("nllb-clip-large-siglip");
  EXPECT_EQ(m2m100_name(shape.text.m2m100), "facebook/nllb-200-distilled-1.3B");
  EXPECT_EQ(shape.embed_dim, 1152);
  EXPECT_EQ(shape.text.language, "eng_Latn");
  EXPECT_EQ(num_text_ids(shape.text), 256206);
  EXPECT_DOUBLE_EQ(clip_cost(shape).text_forward_flops,
                   24 * (2.0 * 77 * 1024 * (4 * 1024 + 2 * 8192) + 4.0 * 77 * 77 * 1024) + 2.0 * 1024 * 1152);
  const auto parse = [](const std::string& more) {
    return parse_clip_shape(
        R"({"embed_dim": 24, "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16,
        "patch_size": 8}, "text_cfg": {"hf_model_name": "facebook/nllb-200-distilled-600M",
        "hf_tokenizer_name": "facebook/nllb-200-distilled-600M")" +
            more + "}}",
        "mine");
  };
  EXPECT_EQ(parse("").text.m2m100.pooler, TextPooler::kMean) << "OpenCLIP's default, whatever the encoder";
  EXPECT_EQ(parse(R"(, "hf_pooler_type": "cls_pooler")").text.m2m100.pooler, TextPooler::kClassHidden);
  EXPECT_EQ(parse(R"(, "tokenizer_kwargs": {"language": "fra_Latn"})").text.language, "fra_Latn");
  EXPECT_EQ(parse(R"(, "hf_config": {"d_model": 16})").text.m2m100.width, 16);
  const std::pair<std::string, const char*> kCases[] = {
      {R"({"d_model": 17})", "d_model=17"},
      {R"({"d_model": 20})", "encoder_attention_heads=16 does not divide"},
      {R"({"encoder_layerdrop": 0.05})", "encoder_layerdrop"},
      {R"({"attention_dropout": -1})", "attention_dropout=-1"},
      {R"({"scale_embedding": false})", "scale_embedding"}};
  for (const auto& [sizes, part] : kCases) {
    const std::string said = usage_error_of([&] { parse(R"(, "hf_config": )" + sizes); });
    EXPECT_NE(said.find(part), std::string::npos) << said << " instead of " << part;
  }
}

TEST(ClipShape, EncodersOfMt5ThatAreNotHereAreRefused) {
  const auto refusal = [](const std::string& text) {
    return usage_error_of([&] {
      parse_clip_shape(fmt::format(R"({{"embed_dim": 24, "vision_cfg": {{"image_size": 32, "layers": 1, "width": 32,
        "head_width": 16, "patch_size": 8}}, "text_cfg": {{{}}}}})",
                                   text),
                       "mine");
    });
  };
  const auto of_sizes = [](const std::string& sizes) {
    return R"("hf_model_name": "my/mt5", "hf_config": {"d_model": 16, "num_layers": 1)" + sizes + "}";
  };
  EXPECT_EQ(refusal(of_sizes("")), "");
  const std::pair<std::string, const char*> kCases[] = {
      {R"("hf_model_name": "my/mt5")", "google/mt5-small"},
      {of_sizes(R"(, "num_heads": 0)"), "num_heads=0"},
      {of_sizes(R"(, "dropout_rate": 1.0)"), "dropout_rate=1"},
      {of_sizes(R"(, "relative_attention_max_distance": 8)"), "relative_attention_max_distance=8"},
      {of_sizes(R"(, "feed_forward_proj": "relu")"), "feed_forward_proj"},
      {of_sizes(R"(, "num_decoder_layers": 1)"), "num_decoder_layers"},
      {of_sizes("") + R"(, "tokenizer_kwargs": {"language": "fra_Latn"})", "of NLLB's"},
      {of_sizes("") + R"(, "hf_pooler_type": "last_pooler")", "hf_pooler_type"}};
  for (const auto& [text, part] : kCases)
    EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text) << " instead of " << part;
}

TEST(ClipShape, VisionTransformersOfTimmThatAreNotHereAreRefused) {
  const auto refusal = [](const std::string& vision) {
    return usage_error_of([&] {
      parse_clip_shape(fmt::format(R"({{"embed_dim": 24, "vision_cfg": {{"image_size": 32, "layers": 1, "width": 32,
        "head_width": 16, "patch_size": 8, {}}}, "text_cfg": {{"context_length": 12, "vocab_size": 64, "width": 32,
        "heads": 2, "layers": 1}}}})",
                                   vision),
                       "mine");
    });
  };
  const std::string vit = R"("tower": "timm_vit", "timm_proj": null, )";
  EXPECT_EQ(refusal(vit + R"("timm_pool": "token", "timm_config": {"class_token": true})"), "");
  const std::pair<std::string, const char*> kCases[] = {
      {vit + R"("timm_pool": "token")", "needs a class token"},
      {vit + R"("timm_pool": "map", "timm_config": {"attn_pool_num_heads": 5})", "does not divide the width 32"},
      {vit + R"("timm_pool": "map", "timm_config": {"ref_feat_shape": 4}, "patch_dropout": 0.5)", "rotary positions"},
      {vit + R"("timm_pool": "map", "timm_config": {"rel_pos_dim": 8}, "patch_dropout": 0.5)", "relative positions"},
      {vit + R"("timm_pool": "map", "timm_config": {"rel_pos_dim": -8})", "rel_pos_dim=-8"},
      {vit + R"("timm_pool": "map", "timm_config": {"rel_pos_dim": 8, "rel_pos_drop": 1.0})", "rel_pos_drop=1"},
      {vit + R"("timm_pool": "map", "timm_config": {"pool": 1})", "timm_config.pool"},
      {vit + R"("timm_pool": "map", "timm_drop_path": 1.5)", "timm_drop_path=1.5"},
      {R"("tower": "timm_stem_vit", "timm_pool": "map", "timm_proj": null)", "a multiple of the stem's stride"},
      {R"("timm_model_name": "vit_base_patch16_siglip_224", "timm_pool": "avg")", "must be \"map\""},
      {R"("timm_model_name": "eva_giant_patch14_224", "timm_pool": "avg")", "must be \"token\""}};
  for (const auto& [vision, part] : kCases)
    EXPECT_NE(refusal(vision).find(part), std::string::npos) << refusal(vision) << " instead of " << part;
}

TEST(ClipShape, SwinsThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& vision) {
    return usage_error_of([&] {
      parse_clip_shape(fmt::format(R"({{"embed_dim": 24, "vision_cfg": {{"tower": "swin", "layers": [2, 1, 1, 1],
        "width": 8, "head_width": 4, "patch_size": 4, {}}}, "text_cfg": {{"context_length": 12, "vocab_size": 64,
        "width": 32, "heads": 2, "layers": 1}}}})",
                                   vision),
                       "mine");
    });
  };
  EXPECT_EQ(refusal(R"("image_size": 32, "window_size": 4)"), "");
  const std::pair<const char*, const char*> kCases[] = {
      {R"("image_size": 32, "window_size": 3)", "window_size=3 does not divide the 8 cells of stage 0"},
      {R"("image_size": 32, "window_size": 0)", "window_size=0"},
      {R"("image_size": 48, "window_size": 4)", "image_size=48 must be a multiple of 32"},
      {R"("image_size": 32, "window_size": 4, "patch_dropout": 0.5)", "this is a Swin"},
      {R"("image_size": 32, "window_size": 4, "timm_pool": "map")", "a Swin pools by averaging"},
      {R"("image_size": 32, "window_size": 4, "timm_proj": "none")", "to be embed_dim 24"}};
  for (const auto& [vision, part] : kCases)
    EXPECT_NE(refusal(vision).find(part), std::string::npos) << refusal(vision) << " instead of " << part;
}

TEST(ClipShape, FastVitsThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& vision) {
    return usage_error_of([&] {
      parse_clip_shape(fmt::format(R"({{"embed_dim": 24, "vision_cfg": {{"tower": "fastvit", "image_size": 40,
        "head_width": 32, {}}}, "text_cfg": {{"context_length": 12, "vocab_size": 64, "width": 32, "heads": 2,
        "layers": 1}}}})",
                                   vision),
                       "mine");
    });
  };
  EXPECT_EQ(refusal(R"("layers": [1, 1, 1, 1, 2], "width": 4, "timm_proj": null)"), "");
  const std::pair<const char*, const char*> kCases[] = {
      {R"("layers": 3, "width": 32)", "expected 4 or 5"},
      {R"("layers": [1, 1, 1, 0], "width": 8)", "vision layers=0"},
      {R"("layers": [1, 1, 1, 1], "width": 8, "mlp_ratio": 0.0)", "mlp_ratio=0"},
      {R"("layers": [1, 1, 1, 1], "width": 6)", "head_width=32 does not divide the width 48 of stage"},
      {R"("layers": [1, 1, 1, 1], "width": 8, "patch_dropout": 0.5)", "this is a FastViT"},
      {R"("layers": [1, 1, 1, 1], "width": 8, "timm_pool": "map")", "a FastViT pools by averaging"},
      {R"("layers": [1, 1, 1, 1], "width": 8, "timm_proj": "none")", "width 128 to be embed_dim 24"},
      {R"("layers": [1, 1, 1, 1], "width": 8, "timm_drop_path": 1.0)", "timm_drop_path=1"}};
  for (const auto& [vision, part] : kCases)
    EXPECT_NE(refusal(vision).find(part), std::string::npos) << refusal(vision) << " instead of " << part;
}

TEST(ClipShape, InitialLawsOfAFastVit) {
  std::map<std::string, InitLaw> laws;
  for (const ParamSpec& spec : clip_param_specs(resolve_clip_shape("MobileCLIP2-S3"))) laws[spec.name] = spec.init;
  const auto law_of = [&](const std::string& name) {
    const auto found = laws.find("visual.trunk." + name);
    EXPECT_NE(found, laws.end()) << name;
    return found == laws.end() ? InitLaw{} : found->second;
  };
  using Kind = InitLaw::Kind;
  const std::tuple<const char*, Kind, double> kDrawn[] = {
      {"stem.0.conv_kxk.0.conv.weight", Kind::kUniform, 1 / std::sqrt(27.0)},
      {"stages.3.pos_emb.pos_enc.bias", Kind::kUniform, 1.0 / 7},
      {"stages.4.downsample.proj.0.large_conv.conv.weight", Kind::kUniform, 1.0 / 7},
      {"stages.0.blocks.0.mlp.conv.conv.weight", Kind::kNormal, 0.02},
      {"stages.3.blocks.0.mlp.fc2.weight", Kind::kNormal, 0.02},
      {"stages.3.blocks.0.token_mixer.qkv.weight", Kind::kNormal, 0.02},
      {"final_conv.se.fc2.bias", Kind::kUniform, 1 / std::sqrt(192.0)},
      {"head.fc.weight", Kind::kNormal, 0.02}};
  for (const auto& [name, kind, deviation] : kDrawn) {
    EXPECT_EQ(law_of(name).kind, kind) << name;
    EXPECT_DOUBLE_EQ(law_of(name).deviation, deviation) << name;
  }
  EXPECT_EQ(law_of("stages.0.blocks.0.token_mixer.layer_scale.gamma").mean, 1e-5);
  EXPECT_EQ(law_of("stages.3.blocks.0.mlp.fc2.bias").kind, Kind::kZeros);
}

TEST(ClipShape, ASlashInANameIsADash) { EXPECT_EQ(resolve_clip_shape("ViT-B/32").vision.patch_size, 32); }

}  // namespace
}  // namespace lockstep::config
