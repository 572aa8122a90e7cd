// Options of `train imagenet`: what is filled in, refused and planned.
#include "tasks/imagenet/front/imagenet_options.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "data/shards/lmdb_writer.h"
#include "data/shards/source_lmdb.h"
#include "tasks/imagenet/front/imagenet_dry_run.h"

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

}  // namespace
}  // namespace lockstep::tasks
