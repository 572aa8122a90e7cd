// Options of `train imagenet`: what is filled in, refused and planned.
#include "tasks/imagenet/front/imagenet_options.h"
#include "tasks/imagenet/front/assumed_classes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "data/shards/lmdb_writer.h"
#include "data/shards/source_lmdb.h"
#include "record/steps.h"
#include "tasks/imagenet/front/data_folder.h"
#include "tasks/imagenet/front/imagenet_dry_run.h"
#include "tasks/imagenet/front/recorded_classifier.h"
#include "tasks/imagenet/front/recorded_pictures.h"

namespace lockstep::tasks {
namespace {
namespace fs = std::filesystem;

/// A command line after parsing and filling in.
struct Parsed {
  ImagenetOptions options;
  core::OptionSet set;

  explicit Parsed(const std::vector<std::string>& words) : set(declare_imagenet_options(options)) {
    set.parse(words);
    fill_imagenet_defaults(options, set);
  }
  std::vector<std::string> check() const { return check_imagenet_options(options, set); }
};

std::string refusal_of(const std::vector<std::string>& words) {
  try {
    Parsed(words).check();
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

void make_class_folders(const fs::path& folder, const std::vector<std::string>& classes) {
  for (const std::string& name : classes) {
    fs::create_directories(folder / name);
    core::write_file_atomic(folder / name / "a.jpg", "x");
  }
}

std::string make_lmdb(const fs::path& folder, const std::vector<std::string>& classes) {
  fs::create_directories(folder);
  const data::LmdbProgress progress{.num_done = 0, .is_complete = true, .source = "s", .class_names = classes};
  data::LmdbWriter(folder, 1 << 20).commit({{data::LmdbKeys::kLockstep, progress.to_json().dump()}});
  return folder.string();
}

/// An LMDB as other programs leave it: values are pictures alone, and the key of each begins with its class.
std::string make_foreign_lmdb(const fs::path& folder, const std::vector<std::string>& classes,
                              const std::string& value = "\xff\xd8\xff picture") {
  fs::create_directories(folder);
  data::LmdbWriter::Pairs pairs;
  for (const std::string& name : classes) pairs.emplace_back(name + "/a.jpg", value);
  data::LmdbWriter(folder, 1 << 20).commit(pairs);
  return folder.string();
}

std::string refusal_of_classes(const std::vector<std::string>& words) {
  try {
    refuse_other_classes(Parsed(words).options);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

bool holds_text(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::set<std::string> without_decay(const std::vector<std::string>& words) {
  std::set<std::string> names;
  for (const config::ParamSpec& spec : classifier_params_of(Parsed(words).options))
    if (!spec.is_buffer && !spec.weight_decay) names.insert(spec.name);
  return names;
}

/// torchvision's recipe for the second weights of ResNet-50 trusts a default of 224.
TEST(ImagenetOptions, ASmallEvaluationBehindALargeResizeIsWarnedOf) {
  const auto warnings = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--dummy", "-a", "resnet50", "--train-crop-size", "176"});
    return Parsed(words).check();
  };
  const auto told = warnings({"--val-resize-size", "232"});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("evaluation sees 176 pixels"), std::string::npos) << told[0];
  EXPECT_NE(told[0].find("--val-crop-size 224"), std::string::npos) << told[0];
  EXPECT_TRUE(warnings({"--val-resize-size", "232", "--val-crop-size", "224"}).empty());
  EXPECT_TRUE(warnings({"--val-resize-size", "200"}).empty());
  EXPECT_TRUE(warnings({}).empty());
}

TEST(ImagenetOptions, ClassesOfTrainingAndValidationMustBeTheSame) {
  const core::TempDir folder;
  make_class_folders(folder.path() / "train", {"ant", "bee", "cat"});
  make_class_folders(folder.path() / "val", {"ant", "cow", "cat"});
  const std::string train = (folder.path() / "train").string(), val = (folder.path() / "val").string();
  const auto message_of = [](const std::string& train_spec, const std::string& val_spec) {
    try {
      refuse_other_classes(Parsed({"--train-data", train_spec, "--val-data", val_spec}).options);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message_of(train, val).find("class 1 is 'bee' there and 'cat' here"), std::string::npos)
      << message_of(train, val);
  EXPECT_EQ(message_of(train, train), "");
  fs::remove_all(folder.path() / "val");
  make_class_folders(folder.path() / "val", {"ant", "bee"});
  EXPECT_NE(message_of(train, val)
                .find("'" + train + "' has 3 classes and '" + val +
                      "' 2, and class 2 is 'cat' there "
                      "and no class here"),
            std::string::npos)
      << message_of(train, val);
  const std::string same = make_lmdb(folder.path() / "same.lmdb", {"ant", "bee", "cat"}),
                    other = make_lmdb(folder.path() / "other.lmdb", {"ant", "bee", "dog"});
  EXPECT_EQ(message_of(train, same), "");
  EXPECT_NE(message_of(train, other).find("class 2 is 'cat' there and 'dog' here"), std::string::npos);
  EXPECT_EQ(message_of("/not/here", train), "");  // a dry run may ask where the data are not
}

TEST(ImagenetOptions, EvaluationAloneTakesAnyNumberOfRanks) {
  const auto batch = [](std::vector<std::string> words, int64_t num_ranks) {
    words.insert(words.begin(), {"d", "--pretrained", "w.pth"});
    const Parsed parsed(words);
    return imagenet_batch_plan(parsed.options, parsed.set, num_ranks).global_batch;
  };
  for (int64_t num_ranks = 1; num_ranks <= 300; ++num_ranks) {
    const int64_t evaluated = batch({"--evaluate"}, num_ranks);
    EXPECT_EQ(evaluated % num_ranks, 0);
    EXPECT_TRUE(evaluated >= 256 && evaluated < 256 + num_ranks) << num_ranks;
  }
  EXPECT_EQ(batch({}, 8), 256);
  EXPECT_THROW(batch({}, 3), UsageError) << "training is another one with another batch";
  EXPECT_THROW(batch({"--evaluate", "-b", "256"}, 3), UsageError);
}

std::string refusal_of_folder(const std::vector<std::string>& words, bool must_exist = false) {
  try {
    refuse_other_data_folder(Parsed(words).options, must_exist);
  } catch (const DataError& error) {
    return error.text();
  }
  return "";
}

TEST(ImagenetOptions, TheDataFolderHasTrainAndVal) {
  const core::TempDir folder;
  const fs::path root = folder.path() / "imagenet";
  make_class_folders(root / "train", {"ant", "bee"});
  const std::string no_val = refusal_of_folder({root.string()});
  EXPECT_TRUE(holds_text(no_val, "'" + root.string() + "' cannot be read: it has no folder 'val', but train"))
      << no_val;
  EXPECT_EQ(refusal_of_folder({root.string(), "--val-frequency", "0"}), "");
  make_class_folders(root / "valid", {"ant", "bee"});
  const std::string other_val = refusal_of_folder({root.string()});
  EXPECT_TRUE(holds_text(other_val, "--val-data '" + (root / "valid").string() + "'")) << other_val;
  make_class_folders(root / "val", {"ant", "bee"});
  EXPECT_EQ(refusal_of_folder({root.string()}), "");
  const std::string high = refusal_of_folder({folder.path().string()});
  EXPECT_TRUE(holds_text(high, "it has no folder 'train', but imagenet")) << high;
  EXPECT_TRUE(holds_text(high, "one too high: did you mean '" + root.string() + "'?")) << high;
  const std::string taken = refusal_of_folder({"--pretrained", root.string()}, true);  // a switch in PyTorch's example
  EXPECT_TRUE(holds_text(taken, "--pretrained takes a file of weights here, and took '" + root.string() + "' for it"))
      << taken;
  for (const std::string end : {"", "/"}) {
    const std::string low = refusal_of_folder({(root / "train").string() + end});
    EXPECT_TRUE(holds_text(low, "one too low: did you mean '" + root.string() + "'?")) << low;
  }
  const std::string lmdb = make_lmdb(folder.path() / "x.lmdb", {"ant"});
  EXPECT_TRUE(holds_text(refusal_of_folder({lmdb}), "--train-data")) << refusal_of_folder({lmdb});
  EXPECT_EQ(refusal_of_folder({folder.path().string(), "--train-data", (root / "train").string()}), "");
  EXPECT_EQ(refusal_of_folder({"/not/here"}), "") << "a plan may be asked for where the data are not";
  const std::string absent = refusal_of_folder({"/not/here"}, /*must_exist=*/true);
  EXPECT_TRUE(holds_text(absent, "'/not/here' cannot be read: it does not exist")) << absent;
}

TEST(ImagenetOptions, TrainingDataOneFolderTooHighAreRefused) {
  const core::TempDir folder;
  for (const char* split : {"train", "val", "test"}) make_class_folders(folder.path() / split, {"ant", "bee"});
  Parsed parsed({"--train-data", folder.path().string()});
  try {
    fill_num_classes(parsed.options, parsed.set);
    FAIL() << classifier_of(parsed.options).num_classes << " classes";
  } catch (const DataError& error) {
    EXPECT_TRUE(holds_text(error.hint(), (folder.path() / "train").string())) << error.text();
  }
}

TEST(ImagenetOptions, AnEvaluationTakesThePreparationOfItsRun) {
  const core::TempDir logs;
  fs::create_directories(logs.path() / "run");
  const auto attempt = [](bool evaluates, int64_t crop, const core::Json& resize) {
    return core::Json{{"task", "imagenet"},
                      {"options",
                       {{"arch", "resnet34"},
                        {"num_classes", 12},
                        {"train_crop_size", crop},
                        {"val_crop_size", nullptr},
                        {"val_resize_size", resize},
                        {"interpolation", "bicubic"},
                        {"image_mean", {0.5}},
                        {"image_std", core::Json::array()},
                        {"evaluate", evaluates}}}};
  };
  core::Json attempts = core::Json::array({attempt(false, 64, 72), attempt(true, 48, nullptr)});
  core::write_file_atomic(logs.path() / "run/run.json",
                          core::Json{{"record_version", record::kRecordVersion}, {"attempts", attempts}}.dump());
  struct Taken {
    ImagenetOptions options;
    std::string notice;
  };
  const auto taken = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--val-data", "v.tar"});
    Parsed parsed(words);
    std::string notice = take_recorded_pictures(parsed.options, parsed.set);
    parsed.check();
    return Taken{parsed.options, notice};
  };
  const std::string run = (logs.path() / "run").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--evaluate", "--pretrained", run},
        {"--evaluate", "--logs", logs.path().string(), "--name", "run", "--resume", "latest"}}) {
    const Taken plain = taken(words);
    EXPECT_EQ(plain.options.model, "resnet34");
    EXPECT_EQ(plain.options.num_classes, 12);
    EXPECT_EQ(plain.options.image_pixels, 64) << "of the training, not of the evaluation behind it";
    EXPECT_EQ(plain.options.resize_pixels, 72);
    EXPECT_EQ(plain.options.interpolation, "bicubic");
    EXPECT_EQ(plain.options.image_mean, std::vector<double>{0.5});
    EXPECT_TRUE(holds_text(plain.notice, run + "/run.json")) << plain.notice;
    EXPECT_TRUE(holds_text(plain.notice, "--train-crop-size 64, --val-resize-size 72")) << plain.notice;
  }
  const Taken own = taken({"--evaluate", "--pretrained", run, "--val-crop-size", "96", "-a", "resnet18"});
  EXPECT_EQ(own.options.model, "resnet18");
  EXPECT_EQ(own.options.evaluation_pixels(), 96);
  EXPECT_FALSE(own.options.resize_pixels.has_value()) << "72 pixels have no centre of 96";
  EXPECT_FALSE(holds_text(own.notice, "--arch")) << own.notice;
  const Taken finer = taken({"--pretrained", run, "--train-data", "t.tar", "--interpolation", "bilinear"});
  EXPECT_EQ(finer.options.model, "resnet18") << "training may go on with another network";
  EXPECT_FALSE(finer.options.num_classes.has_value()) << "and other classes";
  EXPECT_EQ(finer.options.image_pixels, 64);
  EXPECT_EQ(finer.options.interpolation, "bilinear") << "a flag goes before";
  EXPECT_TRUE(holds_text(finer.notice, "--pretrained prepares pictures as " + run)) << finer.notice;
  EXPECT_EQ(taken({"--evaluate", "--pretrained", "/no/run"}).notice, "");
  EXPECT_TRUE(holds_text(refusal_of({"--evaluate", "--resume", "latest", "--val-data", "v.tar"}), "without --name"));
}

TEST(ImagenetOptions, AnEvaluationHasTheClassesOfARunThatWasToldNone) {
  const core::TempDir run;
  const core::Json attempt{{"task", "imagenet"},
                           {"options", {{"arch", "resnet18"}, {"num_classes", nullptr}}},
                           {"model", {{"num_classes", 1000}}}};
  core::write_file_atomic(
      run.path() / "run.json",
      core::Json{{"record_version", record::kRecordVersion}, {"attempts", core::Json::array({attempt})}}.dump());
  const auto classes_of = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--pretrained", run.path().string(), "--val-data", "v.tar"});
    Parsed parsed(words);
    take_recorded_pictures(parsed.options, parsed.set);
    take_recorded_classes(parsed.options, parsed.set);
    return parsed.options.num_classes;
  };
  EXPECT_EQ(classes_of({"--evaluate"}), 1000);
  EXPECT_EQ(classes_of({"--evaluate", "--num-classes", "12"}), 12);
  EXPECT_EQ(classes_of({"--train-data", "t.tar"}), std::nullopt) << "training may go on with other classes";
}

TEST(ImagenetOptions, DataWithoutNamesOfClassesAreWarnedOf) {
  const auto warning = [](const std::vector<std::string>& words) {
    return assumed_classes_warning(Parsed(words).options);
  };
  EXPECT_TRUE(holds_text(warning({"--train-data", "t.tar"}), "the network gets 1000 classes"));
  EXPECT_EQ(warning({"--train-data", "t.tar", "--num-classes", "1000"}), "");
  EXPECT_EQ(warning({"--dummy"}), "");
}

TEST(ImagenetDryRun, CountsThePicturesOfAnEpoch) {
  const core::TempDir folder;
  make_class_folders(folder.path() / "train", {"ant", "bee", "cat"});
  const auto plan_of = [&](const std::string& data, std::vector<std::string> more) {
    more.insert(more.end(), {"--train-data", (folder.path() / data).string()});
    const Parsed parsed(more);
    return imagenet_dry_run(parsed.options, parsed.set, {.num_ranks = 1, .source = "test"});
  };
  const auto fact_of = [](const DryRunPage& page, const std::string& key) {
    for (const DryRunFact& fact : page.facts)
      if (fact.key == key) return fact;
    return DryRunFact{};
  };
  const DryRunFact of_folders = fact_of(plan_of("train", {"-b", "2"}), "steps_per_epoch");
  EXPECT_EQ(of_folders.value, 1);
  EXPECT_EQ(of_folders.text, "1 (3 pictures, as counted in the data, rounded down to whole global batches)");
  const DryRunPage repeated = plan_of("train", {"-b", "2", "--dataset-repeat", "3", "--epochs", "5"});
  EXPECT_EQ(fact_of(repeated, "steps_per_epoch").value, 4);
  EXPECT_EQ(fact_of(repeated, "total_steps").value, 20);
  make_foreign_lmdb(folder.path() / "lmdb", {"ant", "bee", "cat", "dog", "eel"});
  EXPECT_EQ(fact_of(plan_of("lmdb", {"-b", "2"}), "steps_per_epoch").value, 2);
  EXPECT_EQ(fact_of(plan_of("lmdb", {"-b", "2", "--train-num-samples", "7"}), "steps_per_epoch").value, 4)
      << "what is asked for is rounded up";
  const DryRunPage few = plan_of("train", {"-b", "8"});
  EXPECT_EQ(fact_of(few, "steps_per_epoch").value, 0);
  EXPECT_EQ(fact_of(few, "steps_per_epoch").text, "none: the data hold 3 pictures, fewer than one global batch");
  fs::create_directories(folder.path() / "empty");
  const DryRunPage none = plan_of("empty", {"-b", "8"});
  EXPECT_TRUE(fact_of(none, "steps_per_epoch").value.is_null());
  ASSERT_TRUE(none.failure);
  EXPECT_TRUE(holds_text(none.failure->what(), (folder.path() / "empty").string())) << none.failure->what();
  EXPECT_TRUE(fact_of(plan_of("nowhere", {"-b", "8"}), "steps_per_epoch").value.is_null());
}

TEST(ImagenetDryRun, TellsTheErrorWithWhichTheRunWouldEnd) {
  const core::TempDir folder;
  const auto made = [&](const std::string& name, const std::string& empty_class) {
    for (const char* part : {"train", "val"}) make_class_folders(folder.path() / name / part, {"ant", "bee", "cat"});
    if (!empty_class.empty()) fs::create_directories(folder.path() / name / empty_class);
    return (folder.path() / name).string();
  };
  const auto failure_of = [&](std::vector<std::string> words) -> std::string {
    words.insert(words.end(), {"-b", "3"});
    const Parsed parsed(words);
    const auto failure = imagenet_dry_run(parsed.options, parsed.set, {.num_ranks = 1, .source = "test"}).failure;
    return failure ? fmt::format("{}: {}", static_cast<int>(failure->code()), failure->text()) : "";
  };
  const std::string whole = made("whole", ""), nowhere = (folder.path() / "nowhere").string();
  EXPECT_EQ(failure_of({whole}), "");
  EXPECT_EQ(failure_of({"--dummy"}), "");
  EXPECT_TRUE(holds_text(failure_of({nowhere}), "4: imagenet: the data folder '" + nowhere + "' cannot be read"));
  EXPECT_TRUE(holds_text(failure_of({"--train-data", nowhere}), "4: data: '" + nowhere + "' does not exist"));
  EXPECT_TRUE(holds_text(failure_of({"--train-data", whole + "/{0..3}.tar"}), "4: data: none of 4 shards exists"));
  const std::string val = made("v", "val/dog"), train = made("t", "train/dog");
  EXPECT_TRUE(holds_text(failure_of({val}), "4: data: class folder '" + val + "/val/dog' holds no picture"));
  EXPECT_EQ(failure_of({val, "--val-frequency", "0"}), "");
  EXPECT_TRUE(holds_text(failure_of({train}), "4: data: class folder '" + train + "/train/dog' holds no picture"));
  make_class_folders(folder.path() / "few", {"ant", "bee"});
  EXPECT_TRUE(
      holds_text(failure_of({"--train-data", (folder.path() / "few").string()}), "holds 2 samples, fewer than"));
  core::write_file_atomic(folder.path() / "bad.lmdb", "no LMDB");
  EXPECT_TRUE(holds_text(failure_of({"--train-data", (folder.path() / "bad.lmdb").string()}), "bad.lmdb'"));
}

TEST(ImagenetOptions, TheNumberOfClassesIsThatOfTheData) {
  const core::TempDir folder;
  make_class_folders(folder.path() / "train", {"ant", "bee", "cat"});
  Parsed parsed({"--train-data", (folder.path() / "train").string()});
  fill_num_classes(parsed.options, parsed.set);
  EXPECT_EQ(classifier_of(parsed.options).num_classes, 3);
  Parsed dummy({"--dummy"});
  fill_num_classes(dummy.options, dummy.set);
  EXPECT_EQ(classifier_of(dummy.options).num_classes, 1000);
}

TEST(ImagenetOptions, ValidationDataAloneAreNotTrainedOn) {
  EXPECT_TRUE(holds_text(refusal_of({"--val-data", "val"}), "--val-data 'val' are for evaluation"));
  EXPECT_EQ(refusal_of({"--val-data", "val", "--train-data", "train"}), "");
  EXPECT_EQ(refusal_of({"--val-data", "val", "--evaluate", "--pretrained", "r.pth"}), "");
  EXPECT_TRUE(holds_text(refusal_of({"--dummy", "--evaluate", "--pretrained", "r.pth", "--val-num-samples", "0"}),
                         "has no pictures"));
  EXPECT_EQ(refusal_of({"--dummy", "--val-num-samples", "0"}), "");
}

/// Their sorted folders would have the numbers of other classes.
TEST(ImagenetOptions, AnEvaluationOnSomeOfTheClassesIsWarnedOf) {
  const core::TempDir folder;
  make_class_folders(folder.path() / "val", {"bee", "cat"});
  const std::string val = (folder.path() / "val").string(), lmdb = make_lmdb(folder.path() / "v.lmdb", {"bee", "cat"});
  const auto warning_of = [](const std::string& data, const std::string& num_classes) {
    return other_classes_warning(
        Parsed({"--evaluate", "--pretrained", "r.pth", "--val-data", data, "--num-classes", num_classes}).options);
  };
  EXPECT_TRUE(holds_text(warning_of(val, "3"), "'" + val + "' has 2 classes and the network 3"));
  EXPECT_TRUE(holds_text(warning_of(lmdb, "3"), "has 2 classes and the network 3"));
  EXPECT_EQ(warning_of(val, "2"), "");
  EXPECT_EQ(warning_of((folder.path() / "val.tar").string(), "3"), "") << "shards name no classes";
}

TEST(ImagenetOptions, KeysOfForeignLmdbsNameTheirClasses) {
  const core::TempDir folder;
  const std::string train = make_foreign_lmdb(folder.path() / "train", {"ant", "bee", "cat"}),
                    val = make_foreign_lmdb(folder.path() / "val", {"ant", "cat"}),
                    same = make_foreign_lmdb(folder.path() / "same", {"cat", "bee", "ant"});
  EXPECT_TRUE(holds_text(refusal_of_classes({"--train-data", train, "--val-data", val}),
                         "class 1 is 'bee' there and 'cat' here"));
  EXPECT_EQ(refusal_of_classes({"--train-data", train, "--val-data", same}), "");
  Parsed parsed({"--train-data", train});
  fill_num_classes(parsed.options, parsed.set);
  EXPECT_EQ(classifier_of(parsed.options).num_classes, 3);
  // Values that bring their labels are numbered by these, whatever the keys are called: MessagePack of (picture, 7).
  const std::string labelled =
      make_foreign_lmdb(folder.path() / "labelled", {"ant", "cat"}, "\x92\xc4\x02\xff\xd8\x07");
  EXPECT_EQ(refusal_of_classes({"--train-data", train, "--val-data", labelled}), "");
  Parsed numbered({"--train-data", labelled});
  fill_num_classes(numbered.options, numbered.set);
  EXPECT_FALSE(numbered.options.num_classes.has_value());
}

TEST(ImagenetOptions, EvaluationHasASizeOfItsOwn) {
  const Parsed recipe({"--dummy", "--train-crop-size", "176", "--val-crop-size", "224", "--val-resize-size", "232"});
  recipe.check();
  EXPECT_EQ(classifier_of(recipe.options).image_pixels, 176);
  EXPECT_EQ(recipe.options.evaluation_pixels(), 224);
  EXPECT_EQ(Parsed({"--dummy", "--train-crop-size", "176"}).options.evaluation_pixels(), 176);
  EXPECT_TRUE(holds_text(refusal_of({"--dummy", "--val-crop-size", "240", "--val-resize-size", "232"}),
                         "--val-resize-size 232 is smaller than the 240 of --val-crop-size"));
  EXPECT_TRUE(holds_text(refusal_of({"--dummy", "-a", "vit_b_16", "--val-crop-size", "240"}), "--val-crop-size 240"));
}

TEST(ImagenetOptions, ClassificationTakesTheSizeOfEvaluation) {
  const core::TempDir folder;
  const auto size_of = [&](const std::string& val_crop_size) {
    core::Json recorded = {{"arch", "resnet18"}, {"train_crop_size", 176}};
    recorded["val_crop_size"] = core::parse_json(val_crop_size, "size");
    const core::Json attempt = {{"task", "imagenet"}, {"options", recorded}};
    const core::Json run = {{"record_version", record::kRecordVersion}, {"attempts", core::Json::array({attempt})}};
    core::write_file_atomic(folder.path() / "run.json", run.dump());
    core::OptionSet set("infer classify", "Classify.");
    std::string model;
    std::vector<int64_t> pixels;
    set.add("model", &model, {.help = "Model."});
    set.add("force-image-size", &pixels, {.help = "Size."});
    EXPECT_TRUE(take_recorded_classifier(set, folder.path().string()));
    return pixels;
  };
  EXPECT_EQ(size_of("224"), std::vector<int64_t>{224});
  EXPECT_EQ(size_of("null"), std::vector<int64_t>{176});
}

TEST(ImagenetOptions, ValidationDataHaveTheKindThatTheirNameTells) {
  const core::TempDir folder;
  make_class_folders(folder.path() / "val", {"ant"});
  const auto kind_of = [&](const std::string& val) {
    return Parsed({"--dataset-type", "csv", "--train-data", "t.txt", "--val-data", val}).options.validation_type();
  };
  EXPECT_EQ(kind_of("t.txt"), "csv");
  core::write_file_atomic(folder.path() / "v.txt", "filepath\tlabel\n");
  EXPECT_EQ(kind_of((folder.path() / "v.txt").string()), "csv");
  EXPECT_EQ(kind_of((folder.path() / "val").string()), "auto");
  EXPECT_EQ(kind_of("/d/{00..09}.tar"), "auto");
  EXPECT_EQ(Parsed({"--dummy"}).options.validation_type(), "synthetic");
}

TEST(ImagenetOptions, BiasesAndNormsLeaveTheDecayAsTorchvisionGroupsThem) {
  const std::vector<std::string> resnet = {"--dummy", "-a", "resnet18"}, vit = {"--dummy", "-a", "vit_b_16"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return without_decay(words);
  };
  EXPECT_TRUE(without_decay(resnet).empty());
  const auto norms = with(resnet, {"--norm-weight-decay", "0"}), biases = with(resnet, {"--bias-weight-decay", "0"}),
             both = with(resnet, {"--norm-weight-decay", "0", "--bias-weight-decay", "0"});
  EXPECT_EQ(norms.size(), 40u);   // weight and bias of 20 batch norms
  EXPECT_EQ(biases.size(), 21u);  // theirs, and that of fc
  EXPECT_EQ(both.size(), 41u);
  EXPECT_TRUE(norms.contains("layer2.0.downsample.1.weight") && norms.contains("bn1.bias"));
  EXPECT_FALSE(norms.contains("fc.bias") || norms.contains("layer2.0.downsample.0.weight"));
  EXPECT_TRUE(biases.contains("bn1.bias") && biases.contains("fc.bias"));
  EXPECT_FALSE(biases.contains("bn1.weight"));
  // A bias that has a decay of its own is not one of norms: torchvision asks for names first.
  EXPECT_FALSE(with(resnet, {"--norm-weight-decay", "0", "--bias-weight-decay", "1e-4"}).contains("bn1.bias"));
  const auto of_vit = with(vit, {"--bias-weight-decay", "0"});
  const std::string layer = "encoder.layers.encoder_layer_0.";
  EXPECT_TRUE(of_vit.contains(layer + "ln_1.bias") && of_vit.contains(layer + "self_attention.out_proj.bias"));
  EXPECT_FALSE(of_vit.contains(layer + "self_attention.in_proj_bias"));
  EXPECT_EQ(with(resnet, {"--opt", "lars"}), both);
  EXPECT_TRUE(with(vit, {"--opt", "lars"}).contains(layer + "self_attention.in_proj_bias"));
  EXPECT_TRUE(holds_text(refusal_of({"--dummy", "--norm-weight-decay", "0.5"}), "--norm-weight-decay is 0.5"));
}

TEST(ImagenetOptions, TheRateFollowsTheLinearScalingRule) {
  EXPECT_DOUBLE_EQ(peak_lr(Parsed({"--dummy", "--lr", "0.1", "--lr-base-batch", "256"}).options, 8192), 3.2);
  EXPECT_DOUBLE_EQ(peak_lr(Parsed({"--dummy", "--lr", "0.1"}).options, 8192), 0.1);
}

TEST(ImagenetOptions, FlagsOfScheduleModelAndLength) {
  const Parsed parsed({"--dummy", "--lr-milestones", "30", "60", "80", "--lr-warmup-method", "linear",
                       "--lr-warmup-epochs", "5", "--lr-warmup-decay", "0.125", "--zero-init-residual", "--amp"});
  parsed.check();
  EXPECT_EQ(parsed.options.lr_milestones, (std::vector<int64_t>{30, 60, 80}));
  EXPECT_EQ(parsed.options.warmup_decay, 0.125);
  EXPECT_TRUE(parsed.options.zero_last_norm);
  EXPECT_EQ(parsed.options.precision, "amp");
  EXPECT_TRUE(Parsed({"--dummy", "--use-deterministic-algorithms"}).options.deterministic);
  EXPECT_EQ(Parsed({"--train-data", "t.csv", "--dataset-repeat", "3"}).options.dataset_repeat, 3);
  for (const auto& [words, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--lr-milestones", "60", "30"}, "not in ascending order"},
           {{"--lr-milestones", "60", "--lr-step-size", "20"}, "both say when the rate falls"},
           {{"--lr-warmup-method", "constant"}, "use linear"},
           {{"--train-center-crop"}, "use --train-transform eval"},
           {{"--amp", "--precision", "fp32"}, "--amp means --precision amp"},
           {{"-a", "vit_b_16", "--zero-init-residual"}, "has no batch norm"},
           {{"--opt", "lion", "--eps", "1e-6"}, "--eps does not belong to --opt lion"},
           {{"--ra-magnitude", "5"}, "--ra-magnitude does not belong to --auto-augment none"},
           {{"--dataset-repeat", "2"}, "--dataset-repeat repeats data"}}) {
    std::vector<std::string> all = {"--dummy"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_TRUE(holds_text(refusal_of(all), text)) << words[0] << ": " << refusal_of(all);
  }
}

TEST(ImagenetOptions, TheNameOfARunHasTheBatchThatWasAskedFor) {
  EXPECT_EQ(imagenet_run_facts(Parsed({"--dummy", "-b", "512"}).options).micro_batch_size, 512);
  EXPECT_EQ(imagenet_run_facts(Parsed({"--dummy", "-b", "512", "--micro-batch-size", "64"}).options).micro_batch_size,
            64);
}

TEST(ImagenetOptions, AugmentationFlagsTakeTorchvisionsValues) {
  const Parsed parsed({"--dummy", "--auto-augment", "ra", "--ra-magnitude", "12", "--random-erase", "0.25",
                       "--mixup-alpha", "0.2", "--cutmix-alpha", "1", "--label-smoothing", "0.1", "--hflip", "0"});
  parsed.check();
  EXPECT_EQ(parsed.options.auto_augment, "ra");
  EXPECT_EQ(parsed.options.ra_magnitude, 12);
  EXPECT_EQ(parsed.options.random_erase, 0.25);
  EXPECT_EQ(parsed.options.mixup_alpha, 0.2);
  EXPECT_EQ(parsed.options.cutmix_alpha, 1);
  EXPECT_NE(refusal_of({"--dummy", "--auto-augment", "augmix"}).find("use imagenet, ra or ta_wide"), std::string::npos);
  EXPECT_NE(refusal_of({"--dummy", "--random-erase", "2"}).find("random-erase"), std::string::npos);
  EXPECT_NE(refusal_of({"--dummy", "--ra-magnitude", "31"}).find("ra-magnitude"), std::string::npos);
  EXPECT_NE(refusal_of({"--dummy", "--scale", "0.9", "0.1"}).find("--scale"), std::string::npos);
}

TEST(ImagenetOptions, StagingNeedsData) {
  EXPECT_NE(refusal_of({"--dummy", "--stage-to", "/dev/shm"}).find("--stage-to copies training data"),
            std::string::npos);
}

TEST(ImagenetOptions, TheDecayOfTheAverageFollowsTorchvisionsRule) {
  const Parsed parsed(
      {"--dummy", "--model-ema", "--model-ema-steps", "32", "--model-ema-decay", "0.99998", "--epochs", "600"});
  parsed.check();
  EXPECT_NEAR(average_decay_of(parsed.options, 1024), 1 - (1 - 0.99998) * 1024 * 32 / 600, 1e-12);
  EXPECT_EQ(average_decay_of(parsed.options, 1 << 30), 0);  // at most a copy
  EXPECT_NE(refusal_of({"--dummy", "--model-ema-decay", "0.9"}).find("--model-ema-decay without --model-ema"),
            std::string::npos);
}

TEST(ImagenetOptions, TheAverageIsInThePlannedMemory) {
  const auto optimizer_bytes = [](const std::vector<std::string>& words) {
    return plan_imagenet_memory(Parsed(words).options, {.micro_batch_size = 8, .num_micro_batches = 1}, 1).optimizer;
  };
  const double without = optimizer_bytes({"--dummy", "-a", "resnet50"});
  EXPECT_GT(without, 0);
  EXPECT_DOUBLE_EQ(optimizer_bytes({"--dummy", "-a", "resnet50", "--model-ema"}), 2 * without);  // momentum, average
}

TEST(ImagenetOptions, WeightsAloneHaveNoAverageToEvaluate) {
  const std::vector<std::string> evaluation{"--evaluate", "--dummy", "--model-ema"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> words = evaluation;
    words.insert(words.end(), more);
    return refusal_of(words);
  };
  EXPECT_NE(with({"--pretrained", "w.safetensors"}).find("ckpt export --model-ema"), std::string::npos);
  EXPECT_EQ(with({"--name", "run", "--resume", "latest"}), "");
}

}  // namespace
}  // namespace lockstep::tasks
