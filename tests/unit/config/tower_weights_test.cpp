#include "config/tower_weights.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"
#include "support/local_caches.h"

namespace lockstep::config {
namespace {

namespace fs = std::filesystem;

class TowerWeightFiles : public tests::LocalCaches {
 protected:
  static constexpr const char* kHub = ".cache/huggingface/hub/models--";
};

ContrastiveShape clip(const std::string& model) { return resolve_contrastive_shape(model, /*is_clap=*/false, {}); }
ContrastiveShape clap() { return resolve_contrastive_shape("HTSAT-tiny-Roberta-base", /*is_clap=*/true, {}); }

std::string refusal(const TowerWeightNames& names, const ContrastiveShape& shape) {
  try {
    find_tower_weights(names, shape);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST_F(TowerWeightFiles, TheEncoderIsThatOfTheModel) {
  EXPECT_EQ(text_encoder_name(clip("roberta-ViT-B-32")), "roberta-base");
  EXPECT_EQ(text_encoder_name(clip("xlm-roberta-large-ViT-H-14")), "xlm-roberta-large");
  EXPECT_EQ(text_encoder_name(clip("mt5-xl-ViT-H-14")), "google/mt5-xl");
  EXPECT_EQ(text_encoder_name(clip("nllb-clip-base")), "facebook/nllb-200-distilled-600M");
  EXPECT_EQ(text_encoder_name(clap()), "roberta-base");
  EXPECT_EQ(text_encoder_name(clip("ViT-B-32")), "");
  ContrastiveShape other = clap();
  std::get<ClapShape>(other.shape).text.layers = 3;
  EXPECT_EQ(text_encoder_name(other), "") << "nobody has weights of such sizes";
}

TEST_F(TowerWeightFiles, AnEncoderBeginsWithItsOwnWeights) {
  EXPECT_TRUE(find_tower_weights({}, clap()).empty()) << "only where asked";
  const TowerWeightNames by_default{.text_by_default = true};
  const std::string said = refusal(by_default, clap());
  for (const char* part : {"HTSAT-tiny-Roberta-base", "weights of roberta-base, as in LAION-CLAP",
                           "hf download FacebookAI/roberta-base", "--pretrained-text none"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in: " << said;
  EXPECT_NE(refusal(by_default, clip("roberta-ViT-B-32")).find("as in OpenCLIP"), std::string::npos);
  EXPECT_TRUE(find_tower_weights({.text = "none", .text_by_default = true}, clap()).empty());
  EXPECT_TRUE(find_tower_weights(by_default, clip("ViT-B-32")).empty()) << "drawn at random there, too";

  const fs::path older = put(std::string(kHub) + "roberta-base/snapshots/a/pytorch_model.bin");
  const auto found = find_tower_weights(by_default, clap());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tower, Tower::kText);
  EXPECT_EQ(found[0].file, older);
  const fs::path today = put(std::string(kHub) + "FacebookAI--roberta-base/snapshots/b/model.safetensors");
  EXPECT_EQ(find_tower_weights(by_default, clap()).at(0).file, today);
}

TEST_F(TowerWeightFiles, AnEncoderOfAPairWithItsVocabulary) {
  const ContrastiveShape mt5 = clip("mt5-base-ViT-B-32"), nllb = clip("nllb-clip-large");
  const std::string said = refusal({.text_by_default = true}, mt5);
  EXPECT_NE(said.find("hf download google/mt5-base"), std::string::npos) << said;
  EXPECT_EQ(text_encoder_vocabulary(mt5), "");
  const fs::path pieces = put(std::string(kHub) + "google--mt5-base/snapshots/a/spiece.model"),
                 weights = put(std::string(kHub) + "google--mt5-base/snapshots/a/pytorch_model.bin"),
                 others =
                     put(std::string(kHub) + "facebook--nllb-200-distilled-1.3B/snapshots/b/sentencepiece.bpe.model");
  EXPECT_EQ(find_tower_weights({.text_by_default = true}, mt5).at(0).file, weights);
  EXPECT_EQ(text_encoder_vocabulary(mt5), pieces);
  EXPECT_EQ(text_encoder_vocabulary(nllb), others);
}

TEST_F(TowerWeightFiles, TheVocabularyOfSigLipLiesInTheCacheOfTheHub) {
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP")), "");
  const std::string folder = std::string(kHub) + "google--siglip-base-patch16-224/";
  const fs::path other = put(folder + "snapshots/aaa/spiece.model"),
                 newest = put(folder + "snapshots/abc/spiece.model");
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP")), other);
  put(folder + "refs/main", "abc");
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP")), newest);
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-L-16-SigLIP-384")), newest);
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP2")), "") << "Gemma's is another one";
  const fs::path gemma = put(std::string(kHub) + "timm--ViT-B-16-SigLIP2/snapshots/a/tokenizer.model");
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP2")), gemma);
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP-i18n-256")), "") << "nor is that of many languages";
  const fs::path many =
      put(std::string(kHub) + "google--siglip-base-patch16-256-multilingual/snapshots/a/spiece.model");
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-16-SigLIP-i18n-256")), many);
}

TEST_F(TowerWeightFiles, NamesFoldersAndFiles) {
  const fs::path xlm = put(std::string(kHub) + "FacebookAI--xlm-roberta-base/snapshots/b/model.safetensors");
  for (const char* name : {"xlm-roberta-base", "FacebookAI/xlm-roberta-base", "hf-hub:FacebookAI/xlm-roberta-base"})
    EXPECT_EQ(find_tower_weights({.text = name}, clap()).at(0).file, xlm) << name;
  const fs::path own = put("mine/pytorch_model.bin");
  EXPECT_EQ(find_tower_weights({.text = own.parent_path()}, clap()).at(0).file, own);
  EXPECT_EQ(find_tower_weights({.text = own}, clap()).at(0).file, own);
  EXPECT_NE(refusal({.text = home() / ".cache"}, clap()).find("neither model.safetensors nor"), std::string::npos);
  EXPECT_NE(refusal({.text = "me/encoder"}, clap()).find("hf download me/encoder"), std::string::npos);
  EXPECT_NE(refusal({.text = own}, clip("ViT-B-32")).find("none of Hugging Face's encoders"), std::string::npos);
  EXPECT_EQ(find_tower_weights({.audio = own}, clap()).at(0).tower, Tower::kAudio);
  EXPECT_NE(refusal({.audio = "nowhere.ckpt"}, clap()).find("'nowhere.ckpt' does not exist"), std::string::npos);
}

std::vector<std::string> pretrained_names(const TowerWeightNames& names, const ContrastiveShape& shape,
                                          const std::set<std::string>& frozen = {}) {
  std::vector<ParamSpec> specs = shape.param_specs();
  mark_pretrained(names, shape, frozen, specs);
  std::vector<std::string> out;
  for (const ParamSpec& spec : specs)
    if (spec.is_pretrained) out.push_back(spec.name);
  return out;
}

TEST_F(TowerWeightFiles, WhatATowerBeginsWithIsPretrained) {  // no file is looked at: a resumed run reads none
  const auto text = pretrained_names({.text = "some/encoder"}, clap());
  ASSERT_FALSE(text.empty());
  for (const std::string& name : text) {
    EXPECT_EQ(name.find("text_branch."), 0u) << name;
    EXPECT_EQ(name.find("text_branch.pooler."), std::string::npos) << "files of encoders lack it";
  }
  EXPECT_EQ(pretrained_names({.text_by_default = true}, clap()), text);
  const auto both = pretrained_names({.text = "some/encoder", .audio = "htsat.ckpt"}, clap());
  EXPECT_GT(both.size(), text.size());
  EXPECT_EQ(both.front().find("audio_branch."), 0u) << both.front();
  for (const std::string& name : pretrained_names({.image = true}, clip("convnext_base")))
    EXPECT_EQ(name.find("visual.trunk."), 0u) << name;
  for (const TowerWeightNames& none : {TowerWeightNames(), TowerWeightNames{.text = "none", .text_by_default = true}})
    EXPECT_NE(tests::message_of([&] { pretrained_names(none, clap()); }).find("--split-opt: model 'HTSAT-tiny-Roberta"),
              std::string::npos);
  const std::set<std::string> frozen(text.begin(), text.end());
  EXPECT_NE(tests::message_of([&] { pretrained_names({.text = "some/encoder"}, clap(), frozen); }).find("no trained"),
            std::string::npos)
      << "locked as a whole";
}

TEST_F(TowerWeightFiles, TowersOfTimmHaveWeightsOfTheirOwn) {
  // What timm 1.0.19 takes by default (timm.models.get_pretrained_cfg).
  const std::pair<const char*, const char*> kDefaults[] = {
      {"convnext_tiny", "timm/convnext_tiny.in12k_ft_in1k"},
      {"convnext_small", "timm/convnext_small.in12k_ft_in1k"},
      {"convnext_base", "timm/convnext_base.fb_in22k_ft_in1k"},
      {"convnext_large_d", "timm/convnext_large.fb_in22k_ft_in1k"},
      {"convnext_xlarge", "timm/convnext_xlarge.fb_in22k_ft_in1k"},
      {"convnext_xxlarge", "timm/convnext_xxlarge.clip_laion2b_soup_ft_in1k"},
      {"EVA02-B-16", "timm/eva02_base_patch16_clip_224.merged2b"},
      {"EVA02-L-14-336", "timm/eva02_large_patch14_clip_336.merged2b"},
      {"EVA01-g-14-plus", "timm/eva_giant_patch14_224.clip_ft_in1k"},
      {"EVA02-E-14", "timm/eva02_enormous_patch14_clip_224.laion2b"},
      {"PE-Core-B-16", "timm/vit_pe_core_base_patch16_224.fb"},
      {"ViTamin-S", "jienengchen/ViTamin-S-LTT"},
      {"ViTamin-L2-256", "jienengchen/ViTamin-L2-256px"},
      {"MobileCLIP-B", "apple/mobileclip_b_lt_timm"},
      {"MobileCLIP-S1", "apple/mobileclip_s1_timm"},
      {"MobileCLIP2-S2", "apple/mobileclip_s2_timm"},
      {"MobileCLIP2-S4", "timm/fastvit_mci4.apple_mclip2_dfndr2b"},
      {"MobileCLIP2-L-14", "timm/vit_large_patch14_clip_224.laion2b_ft_in12k_in1k"},
      {"vit_medium_patch16_gap_256", "timm/vit_medium_patch16_gap_256.sw_in12k_ft_in1k"},
      {"swin_base_patch4_window7_224", "timm/swin_base_patch4_window7_224.ms_in22k_ft_in1k"},
      {"vit_relpos_medium_patch16_cls_224", "timm/vit_relpos_medium_patch16_cls_224.sw_in1k"},
      {"ViT-B-16-SigLIP", "timm/vit_base_patch16_siglip_224.v2_webli"},
      {"ViT-SO400M-14-SigLIP-384", "timm/vit_so400m_patch14_siglip_384.webli"},
      {"ViT-SO400M-14-SigLIP2", "timm/vit_so400m_patch14_siglip_224.v2_webli"},
      {"ViT-gopt-16-SigLIP2-256", "timm/vit_giantopt_patch16_siglip_256.v2_webli"}};
  for (const auto& [model, repository] : kDefaults) {
    EXPECT_EQ(clip(model).clip()->vision.timm_weights, repository) << model;
    EXPECT_NE(refusal({.image = true}, clip(model)).find(std::string("hf download ") + repository), std::string::npos);
  }
  EXPECT_NE(refusal({.image = true}, clip("ViT-B-32")).find("is none of timm's"), std::string::npos);
  const fs::path file = put(std::string(kHub) + "timm--convnext_base.fb_in22k_ft_in1k/snapshots/b/model.safetensors");
  EXPECT_EQ(find_tower_weights({.image = true}, clip("convnext_base_w")).at(0).file, file);
}

TEST_F(TowerWeightFiles, TheVocabularyLiesBesideTheWeights) {
  EXPECT_EQ(text_encoder_vocabulary(clap()), "");
  const fs::path words = put(std::string(kHub) + "roberta-base/snapshots/a/vocab.json");
  EXPECT_EQ(text_encoder_vocabulary(clap()), "") << "without its merges";
  put(std::string(kHub) + "roberta-base/snapshots/a/merges.txt");
  EXPECT_EQ(text_encoder_vocabulary(clap()), words.parent_path());
  const fs::path pieces = put(std::string(kHub) + "FacebookAI--xlm-roberta-large/snapshots/a/sentencepiece.bpe.model");
  EXPECT_EQ(text_encoder_vocabulary(clip("xlm-roberta-large-ViT-H-14")), pieces);
  EXPECT_EQ(text_encoder_vocabulary(clip("ViT-B-32")), "");
}

}  // namespace
}  // namespace lockstep::config
