// What exported weights of a classifier say of the pictures that it knows, and what is made of it.
#include "tasks/imagenet/front/classifier_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/weights_config.h"
#include "core/files.h"
#include "core/safetensors.h"
#include "record/steps.h"
#include "support/error_text.h"
#include "tasks/imagenet/front/imagenet_options.h"
#include "tasks/imagenet/front/recorded_classifier.h"
#include "tasks/imagenet/front/recorded_pictures.h"

namespace lockstep::tasks {
namespace {
namespace fs = std::filesystem;
using core::Json;

/// The folder of a run of `train imagenet` that was given these options beside --arch.
fs::path make_run(const fs::path& folder, const Json& options) {
  fs::create_directories(folder);
  Json attempt = {{"task", "imagenet"},
                  {"options", {{"arch", "resnet34"}}},
                  {"model", {{"num_classes", 2}, {"class_names", {"ant", "bee"}}}}};
  attempt["options"].update(options);
  core::write_file_atomic(
      folder / "run.json",
      Json{{"record_version", record::kRecordVersion}, {"attempts", Json::array({attempt})}}.dump());
  return folder;
}

/// A file of weights, of one tensor, that brings a configuration along.
std::string make_weights(const fs::path& path, const Json& config) {
  const float value = 1;
  const core::SafetensorsEntry entry{
      .name = "x", .dtype = "F32", .shape = {1}, .bytes = std::as_bytes(std::span(&value, 1))};
  core::write_safetensors(path, std::span(&entry, 1), {{config::kWeightsConfigKey, config.dump()}});
  return path.string();
}

struct TakenPictures {
  ImagenetOptions options;
  std::string notice;
  explicit TakenPictures(const std::vector<std::string>& words) {
    core::OptionSet set = declare_imagenet_options(options);
    set.parse(words);
    notice = take_recorded_pictures(options, set);
  }
};

TEST(ClassifierConfig, OfARunHasTheFormOfTimm) {
  const core::TempDir folder;
  const fs::path run = make_run(folder.path() / "run", {{"train_crop_size", 32}, {"val_crop_size", nullptr}});
  const Json config = classifier_config(run.string());
  EXPECT_EQ(config.at("architecture"), "resnet34");
  EXPECT_EQ(config.at("num_classes"), 2);
  EXPECT_EQ(config.at("label_names"), Json({"ant", "bee"}));
  const Json& pictures = config.at("pretrained_cfg");
  EXPECT_EQ(pictures.at("input_size"), Json({3, 32, 32}));
  EXPECT_EQ(pictures.at("interpolation"), "bilinear");
  EXPECT_EQ(pictures.at("mean").dump(), "[0.485,0.456,0.406]");
  EXPECT_EQ(pictures.at("std").dump(), "[0.229,0.224,0.225]");
  EXPECT_EQ(std::floor(32 / pictures.at("crop_pct").get<double>()), 36) << "8/7 of 32, as evaluations resize";
  EXPECT_TRUE(classifier_config("/no/such/file").is_null());
}

TEST(ClassifierConfig, TheSizeResizedToComesBackExactly) {
  const core::TempDir folder;
  for (int64_t pixels = 1; pixels < 400; pixels += 7)
    for (const int64_t more : {0, 1, 5, 33}) {
      const fs::path run =
          make_run(folder.path() / "run",
                   {{"train_crop_size", 8}, {"val_crop_size", pixels}, {"val_resize_size", pixels + more}});
      const std::string file = make_weights(folder.path() / "w.safetensors", classifier_config(run.string()));
      const Json options = classifier_attempt(file)->options;
      ASSERT_EQ(options.at("train_crop_size"), pixels);
      ASSERT_EQ(options.at("val_resize_size"), pixels + more) << pixels;
    }
}

TEST(ClassifierConfig, AnExportedFileIsEvaluatedAsItsRun) {
  const core::TempDir folder;
  const fs::path run = make_run(folder.path() / "run", {{"train_crop_size", 64},
                                                        {"val_resize_size", 72},
                                                        {"interpolation", "bicubic"},
                                                        {"image_mean", {0.5}},
                                                        {"image_std", {0.1, 0.2, 0.3}}});
  const Json config = classifier_config(run.string());
  const std::string in_metadata = make_weights(folder.path() / "a.safetensors", config);
  const std::string beside = (folder.path() / "b.pth").string();
  core::write_file_atomic(beside, "weights");
  core::write_file_atomic(folder.path() / "b.json", config.dump());
  for (const std::string& file : {in_metadata, beside}) {
    const TakenPictures plain({"--evaluate", "--pretrained", file});
    EXPECT_EQ(plain.options.model, "resnet34");
    EXPECT_EQ(plain.options.num_classes, 2);
    EXPECT_EQ(plain.options.evaluation_pixels(), 64);
    EXPECT_EQ(plain.options.resize_pixels, 72);
    EXPECT_EQ(plain.options.interpolation, "bicubic");
    EXPECT_EQ(plain.options.image_mean, (std::vector<double>{0.5, 0.5, 0.5}));
    EXPECT_EQ(plain.options.image_std, (std::vector<double>{0.1, 0.2, 0.3}));
    EXPECT_TRUE(tests::holds(plain.notice, file)) << plain.notice;
    const TakenPictures own({"--evaluate", "--pretrained", file, "--val-crop-size", "96"});
    EXPECT_EQ(own.options.evaluation_pixels(), 96) << "a flag goes before";
    EXPECT_FALSE(own.options.resize_pixels.has_value()) << "72 pixels have no centre of 96";
    EXPECT_EQ(recorded_class_names(file, 2), (std::vector<std::string>{"ant", "bee"}));
    EXPECT_EQ(classifier_config(file), config) << "as `ckpt convert` hands it on";
  }
}

TEST(ClassifierConfig, ARunThatIsContinuedGoesOnWithItsOwnPictures) {
  const core::TempDir logs;
  const std::string file =
      make_weights(logs.path() / "w.safetensors",
                   classifier_config(make_run(logs.path() / "before", {{"train_crop_size", 32}}).string()));
  make_run(logs.path() / "run", {{"train_crop_size", 48}});
  const std::vector<std::string> words = {"--pretrained", file, "--logs", logs.path().string(), "--name", "run"};
  EXPECT_EQ(TakenPictures(words).options.image_pixels, 32);
  std::vector<std::string> again = words;
  again.insert(again.end(), {"--resume", "latest"});
  EXPECT_EQ(TakenPictures(again).options.image_pixels, 48);
}

TEST(ClassifierConfig, WhatCannotBeIsRefused) {
  const core::TempDir folder;
  const auto config_with = [](const char* key, const Json& value) {
    Json config = {{"architecture", "resnet50"},
                   {"pretrained_cfg", {{"input_size", {3, 224, 224}}, {"crop_pct", 0.95}, {"mean", {0.5, 0.5, 0.5}}}}};
    config["pretrained_cfg"][key] = value;
    return config;
  };
  const auto message_with = [&](const char* key, const Json& value) {
    const std::string file = make_weights(folder.path() / "w.safetensors", config_with(key, value));
    return tests::message_of<DataError>([&] { classifier_attempt(file); });
  };
  EXPECT_EQ(message_with("std", {1, 1, 1}), "no error");
  const std::string wide = message_with("input_size", {3, 224, 320});
  EXPECT_TRUE(tests::holds(wide, "w.safetensors")) << wide;
  EXPECT_TRUE(tests::holds(wide, "'input_size' of 'pretrained_cfg' is [3,224,320], expected [3, SIZE, SIZE]")) << wide;
  EXPECT_TRUE(tests::holds(message_with("input_size", {3, 1.5, 1.5}), "expected [3, SIZE, SIZE]"));
  EXPECT_TRUE(tests::holds(message_with("crop_pct", 0), "expected a number above 0"));
  EXPECT_TRUE(tests::holds(message_with("crop_pct", "all"), "expected a number above 0"));
  EXPECT_TRUE(tests::holds(message_with("mean", {0.5}), "expected three numbers"));
  EXPECT_TRUE(tests::holds(message_with("std", {1, 1, "1"}), "expected three numbers"));
  // Of another network, as timm has a thousand: its pictures are nothing that could be asked for here.
  Json other = config_with("mean", {0.5, 0.5, 0.5});
  other["architecture"] = "vit_base_patch16_224";
  EXPECT_FALSE(classifier_attempt(make_weights(folder.path() / "w.safetensors", other)).has_value());
  EXPECT_FALSE(classifier_attempt(make_weights(folder.path() / "w.safetensors", {1, 2})).has_value());
}

TEST(WeightsConfig, LiesWhereHuggingFaceLooksForIt) {
  EXPECT_EQ(config::config_beside("a/model.safetensors"), "a/config.json");
  EXPECT_EQ(config::config_beside("a/pytorch_model.bin"), "a/config.json");
  EXPECT_EQ(config::config_beside("a/resnet50.pth"), "a/resnet50.json");
}

}  // namespace
}  // namespace lockstep::tasks
