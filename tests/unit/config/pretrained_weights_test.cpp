#include "config/pretrained_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/clip_shape.h"
#include "config/hub_cache.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "support/local_caches.h"

namespace lockstep::config {
namespace {

namespace fs = std::filesystem;

class PretrainedWeights : public tests::LocalCaches {};

const std::string kRepository = ".cache/huggingface/hub/models--laion--CLIP-ViT-B-32-laion2B-s34B-b79K/";

std::string refusal(const std::string& named, const std::string& model) {
  try {
    pretrained_file("--pretrained", named, model);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST_F(PretrainedWeights, ATagIsFoundInTheHubsCache) {
  const fs::path old = put(kRepository + "snapshots/aaa/open_clip_pytorch_model.bin"),
                 newer = put(kRepository + "snapshots/bbb/open_clip_model.safetensors");
  EXPECT_EQ(pretrained_file("--pretrained", "laion2b_s34b_b79k", "ViT-B-32"), old);
  put(kRepository + "refs/main", "bbb\n");
  EXPECT_EQ(pretrained_file("--pretrained", "laion2b_s34b_b79k", "ViT-B-32"), newer);
  EXPECT_EQ(pretrained_file("--pretrained", "hf-hub:laion/CLIP-ViT-B-32-laion2B-s34B-b79K", "any"), newer);
  EXPECT_EQ(pretrained_file("--pretrained", newer.string(), "any"), newer) << "a path stays what it is";
}

/// --cache-dir is both of OpenCLIP's caches at once; what it has in the usual places only is found there, as the
/// encoders whose weights OpenCLIP never looks for in --cache-dir.
TEST_F(PretrainedWeights, TheNamedCacheIsLookedAtFirst) {
  const std::string repository = kRepository.substr(kRepository.find("models--"));
  const fs::path usual = put("hub/" + repository + "snapshots/a/open_clip_model.safetensors");
  setenv("HF_HUB_CACHE", (home() / "hub").c_str(), 1);
  const fs::path usual_openai = put(".cache/clip/RN50.pt");
  look_first_in(home() / "mine");
  EXPECT_EQ(pretrained_file("--pretrained", "laion2b_s34b_b79k", "ViT-B-32"), usual);
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), usual_openai);
  const fs::path own = put("mine/" + repository + "snapshots/b/open_clip_model.safetensors"),
                 own_openai = put("mine/RN50.pt");
  EXPECT_EQ(pretrained_file("--pretrained", "laion2b_s34b_b79k", "ViT-B-32"), own);
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), own_openai);
  EXPECT_NE(refusal("laion2b_s32b_b82k", "ViT-L-14").find((home() / "mine").string()), std::string::npos);
}

TEST_F(PretrainedWeights, ATagComesBeforeAFolderOfItsName) {
  const fs::path file = put(".cache/clip/RN50.pt"), before = fs::current_path();
  fs::create_directories(home() / "work" / "openai");
  fs::current_path(home() / "work");
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), file);
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "no model of OpenCLIP"), "openai");
  fs::current_path(before);
}

TEST_F(PretrainedWeights, AnotherGeluThanTheWeightsHadIsWarnedOf) {
  EXPECT_NE(gelu_warning("openai", "ViT-B-32", false).find("--model ViT-B-32-quickgelu"), std::string::npos);
  EXPECT_EQ(gelu_warning("openai", "ViT-B-32-quickgelu", true), "");
  EXPECT_EQ(gelu_warning("openai", "ViT-B-32", true), "") << "--force-quick-gelu";
  EXPECT_EQ(gelu_warning("laion2b_s34b_b79k", "ViT-B-32", false), "");
  EXPECT_NE(gelu_warning("laion2b_s34b_b79k", "ViT-B-32", true).find("without QuickGELU"), std::string::npos);
  EXPECT_NE(gelu_warning("dfn5b", "ViT-H-14", false), "");
  EXPECT_EQ(gelu_warning("webli", "ViT-B-16-SigLIP", false), "");
  EXPECT_EQ(gelu_warning("weights.pt", "ViT-B-32", false), "") << "a file does not tell";
}

TEST_F(PretrainedWeights, TheVariablesOfTheHubComeFirst) {
  put(kRepository + "snapshots/aaa/open_clip_model.safetensors");
  const fs::path other =
      put("other/hub/models--laion--CLIP-ViT-B-32-laion2B-s34B-b79K/snapshots/c/"
          "open_clip_model.safetensors");
  setenv("HF_HOME", (home() / "other").c_str(), 1);
  EXPECT_EQ(pretrained_file("--pretrained", "laion2b_s34b_b79k", "ViT-B-32"), other);
}

TEST_F(PretrainedWeights, ATagOfAnotherModelAndAnAddressAreToldAsSuch) {
  const std::string other = refusal("laion2b_s32b_b79k", "ViT-B-32");
  EXPECT_NE(other.find("is a tag of other models, not of 'ViT-B-32'"), std::string::npos) << other;
  EXPECT_NE(other.find("--model ViT-H-14"), std::string::npos) << other;
  EXPECT_NE(other.find("or a tag of 'ViT-B-32': openai, "), std::string::npos) << other;
  const std::string address = refusal("s3://bucket/run/epoch_3.pt", "ViT-B-32");
  EXPECT_NE(address.find("is an address, expected a local file or folder"), std::string::npos) << address;
  EXPECT_NE(refusal("nothing", "ViT-B-32").find("does not exist"), std::string::npos);
}

TEST_F(PretrainedWeights, OldReleasesHadACacheOfTheirOwn) {
  const fs::path file = put(".cache/clip/RN50.pt");
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), file);
}

TEST_F(PretrainedWeights, TagsAreTakenAsOpenClipTakesThem) {
  const fs::path file = put(kRepository + "snapshots/aaa/open_clip_model.safetensors");
  EXPECT_EQ(pretrained_file("--pretrained", "laion2B-s34B-b79K", "ViT-B-32"), file);
  EXPECT_EQ(pretrained_file("--pretrained", "LAION2B_s34b-b79k", "ViT-B-32"), file);
  EXPECT_NE(gelu_warning("OpenAI", "ViT-B-32", false), "");
}

/// OpenCLIP has it in ~/.cache/clip whatever XDG_CACHE_HOME says.
TEST_F(PretrainedWeights, OpenClipsOwnCacheIsBelowTheHomeFolder) {
  const fs::path file = put(".cache/clip/RN50.pt");
  setenv("XDG_CACHE_HOME", (home() / "elsewhere").c_str(), 1);
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), file);
  const fs::path earlier = put("elsewhere/clip/RN50.pt");  // where versions before this one looked
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), earlier);
}

TEST_F(PretrainedWeights, WhatIsMissingIsToldHowToFetch) {
  const std::string tag = refusal("laion2b_s34b_b79k", "ViT-B-32"), hub = refusal("hf-hub:a/b", "ViT-B-32"),
                    unknown = refusal("laion9b", "ViT-B-32"), other = refusal("x.pt", "coca_base");
  EXPECT_NE(tag.find("`hf download laion/CLIP-ViT-B-32-laion2B-s34B-b79K`"), std::string::npos) << tag;
  EXPECT_NE(tag.find("nothing is downloaded"), std::string::npos) << tag;
  EXPECT_NE(hub.find("`hf download a/b`"), std::string::npos) << hub;
  EXPECT_NE(unknown.find("laion2b_s34b_b79k"), std::string::npos) << "the tags there are: " << unknown;
  EXPECT_NE(other.find("no weights for model 'coca_base'"), std::string::npos) << other;
}

TEST_F(PretrainedWeights, EveryTagIsPreparedAsByOpenClip) {
  const std::vector<double> openai_mean = {0.481455, 0.457827, 0.408211}, openai_std = {0.26863, 0.261303, 0.275777};
  const auto numbers = [](const std::vector<double>& values, const std::vector<double>& otherwise) {
    std::vector<std::string> words;
    for (const double value : values.empty() ? otherwise : values) words.push_back(fmt::format("{:.6g}", value));
    return core::join(words, " ");
  };
  const auto lines =
      core::split(core::trim(core::read_file(fs::path(LOCKSTEP_GOLDEN_DIR) / "pretrained/3.3.0.txt")), "\n");
  int num_known = 0, num_special = 0;
  for (const std::string& line : lines) {
    const auto field = core::split(line, "\t");
    ASSERT_EQ(field.size(), 6u) << line;
    EXPECT_EQ(refusal(field[1], field[0]).find("does not exist"), std::string::npos) << line;
    ++num_known;
    const PicturePreparation own = preparation_of_weights(field[1], field[0]);
    num_special += !own.mean.empty() || own.resize_mode.has_value();
    EXPECT_EQ(numbers(own.mean, openai_mean), field[2]) << line;
    EXPECT_EQ(numbers(own.std, openai_std), field[3]) << line;
    EXPECT_EQ(own.interpolation.value_or("bicubic"), field[4]) << line;
    EXPECT_EQ(own.resize_mode.value_or("shortest"), field[5]) << line;
  }
  EXPECT_GT(num_known, 100);
  EXPECT_GT(num_special, 30);
}

TEST_F(PretrainedWeights, AModelOfTheHubBringsItsConfigurationWeightsAndPreparation) {
  const std::string hub = ".cache/huggingface/hub/models--a--b/snapshots/1/";
  const std::string config = R"({"model_cfg": {"embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 64, "width": 64, "heads": 1, "layers": 2}},
    "preprocess_cfg": {"mean": [0.5, 0.25, 0.125], "std": [1, 1, 1], "interpolation": "bilinear",
                       "resize_mode": "squash", "fill_color": 128}})";
  const fs::path of_hub = put(hub + "open_clip_config.json", config);
  const fs::path weights = put(hub + "open_clip_model.safetensors");
  const fs::path folder = put("own/open_clip_config.json", config).parent_path();
  put("own/open_clip_pytorch_model.bin");
  for (const std::string& name : {std::string("hf-hub:a/b"), "local-dir:" + folder.string()}) {
    EXPECT_TRUE(is_hub_model(name));
    const ClipShape shape = resolve_clip_shape(name);
    EXPECT_EQ(shape.name, name);
    EXPECT_EQ(shape.embed_dim, 32);
    EXPECT_EQ(shape.vision.width, 64);
    const PicturePreparation preparation = preparation_of_weights(name, "any");
    EXPECT_EQ(preparation.mean, (std::vector<double>{0.5, 0.25, 0.125}));
    EXPECT_EQ(preparation.interpolation, "bilinear");
    EXPECT_EQ(preparation.resize_mode, "squash");
    EXPECT_EQ(preparation.fill_color, 128);
  }
  EXPECT_EQ(pretrained_file("--pretrained", "hf-hub:a/b", "hf-hub:a/b"), weights);
  EXPECT_EQ(pretrained_file("--pretrained", "local-dir:" + folder.string(), ""),
            folder / "open_clip_pytorch_model.bin");
  const auto text_of = [](const std::string& model) {
    try {
      resolve_clip_shape(model);
    } catch (const UsageError& error) {
      return error.text();
    }
    return std::string();
  };
  EXPECT_NE(text_of("hf-hub:a/c").find("`hf download a/c`"), std::string::npos) << text_of("hf-hub:a/c");
  EXPECT_NE(text_of("local-dir:" + home().string()).find("has no open_clip_config.json"), std::string::npos);
  put(hub + "open_clip_config.json", "{}");
  EXPECT_NE(text_of("hf-hub:a/b").find("has no 'model_cfg'"), std::string::npos) << text_of("hf-hub:a/b");
  put(hub + "open_clip_config.json", R"({"model_cfg": {}, "preprocess_cfg": {"resize_mode": "stretch"}})");
  EXPECT_THROW(preparation_of_weights("hf-hub:a/b", ""), UsageError);
  for (const char* color : {"\"grey\"", "1.5", "-1", "256", "[0, 0, 0]", "true"}) {
    put(hub + "open_clip_config.json",
        fmt::format(R"({{"model_cfg": {{}}, "preprocess_cfg": {{"fill_color": {}}}}})", color));
    try {
      preparation_of_weights("hf-hub:a/b", "");
      ADD_FAILURE() << color << " is accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(error.text().find("'preprocess_cfg.fill_color' is "), std::string::npos) << error.text();
      EXPECT_NE(error.text().find("--image-fill-color"), std::string::npos) << error.text();
    }
  }
  put(hub + "open_clip_config.json", R"({"model_cfg": {}, "preprocess_cfg": {"fill_color": null}})");
  EXPECT_FALSE(preparation_of_weights("hf-hub:a/b", "").fill_color) << "as OpenCLIP reads null";
}

}  // namespace
}  // namespace lockstep::config
