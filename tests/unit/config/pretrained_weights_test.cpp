#include "config/pretrained_weights.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::config {
namespace {

namespace fs = std::filesystem;

/// Caches of this test alone.
class PretrainedWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::optional<std::string>() : std::string(value));
      unsetenv(name);
    }
    setenv("HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  }

  fs::path put(const fs::path& path, const std::string& content = "x") const {
    fs::create_directories((folder_.path() / path).parent_path());
    core::write_file_atomic(folder_.path() / path, content);
    return folder_.path() / path;
  }

  static constexpr const char* kNames[] = {"HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE",
                                           "HUGGINGFACE_HUB_CACHE"};
  core::TempDir folder_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

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

TEST_F(PretrainedWeights, TheVariablesOfTheHubComeFirst) {
  put(kRepository + "snapshots/aaa/open_clip_model.safetensors");
  const fs::path other =
      put("other/hub/models--laion--CLIP-ViT-B-32-laion2B-s34B-b79K/snapshots/c/"
          "open_clip_model.safetensors");
  setenv("HF_HOME", (folder_.path() / "other").c_str(), 1);
  EXPECT_EQ(pretrained_file("--pretrained", "laion2b_s34b_b79k", "ViT-B-32"), other);
}

TEST_F(PretrainedWeights, OldReleasesHadACacheOfTheirOwn) {
  const fs::path file = put(".cache/clip/RN50.pt");
  EXPECT_EQ(pretrained_file("--pretrained", "openai", "RN50"), file);
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

}  // namespace
}  // namespace lockstep::config
