#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "data/loader.h"
#include "data/pictures/picture_decoder.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/shards/source_rows.h"
#include "labelled_pictures.h"

namespace lockstep::data {
namespace {

using namespace lockstep::tests;  // NOLINT

/// The message of the error of type E that `use` throws; fails when there is none.
template <typename E, typename Use> std::string refusal_of(const Use& use) {
  try {
    use();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

/// (bytes of the picture, label) of one sample.
std::pair<std::string, int64_t> content_of(RawSample sample) {
  load_deferred(sample);
  return {sample.members.front().bytes, sample.label};
}

class Labelled : public ::testing::Test {
 protected:
  /// The same pictures in every form that has files.
  std::vector<std::string> specs() {
    std::filesystem::create_directories(folder_.path() / "shards");
    std::filesystem::create_directories(folder_.path() / "table");
    const std::string shards = write_labelled_shards(folder_.path() / "shards");
    build_indexes({.shards = expand_braces(shards), .index_dir = "", .on_progress = {}});
    return {write_class_folders(folder_.path() / "folders"), shards, write_labelled_table(folder_.path() / "table")};
  }
  core::TempDir folder_;
};

TEST_F(Labelled, EveryPictureOnceAnEpochWithItsLabelOnAnyNumberOfRanks) {
  const auto labels = labels_by_bytes();
  for (const std::string& spec : specs()) {
    SourceConfig config = labelled_config(spec);
    config.global_batch = 2;
    ASSERT_EQ(epoch_size(config).num_samples, 10) << spec;
    std::vector<std::pair<std::string, int64_t>> reference;
    for (const int64_t world : {1, 2}) {
      std::map<uint64_t, std::pair<std::string, int64_t>> by_id;
      config.world_size = world;
      for (config.rank = 0; config.rank < world; ++config.rank) {
        const auto source = open_train_source(config);
        for (int64_t i = 0; i < 20 / world; ++i) {
          RawSample sample = *source->next();
          const uint64_t id = sample.id;
          by_id[id] = content_of(std::move(sample));
        }
      }
      std::vector<std::pair<std::string, int64_t>> stream;
      for (const auto& [id, content] : by_id) stream.push_back(content);
      if (reference.empty()) reference = stream;
      ASSERT_EQ(stream.size(), 20u);
      const bool is_too_few_for_two_lanes = spec.find(".tar") != std::string::npos;
      EXPECT_EQ(stream == reference, !is_too_few_for_two_lanes || world == 1) << spec;
    }
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      const auto begin = reference.begin() + static_cast<ptrdiff_t>(epoch * 10);
      EXPECT_EQ(std::set(begin, begin + 10).size(), 10u) << spec;
    }
    for (const auto& [bytes, label] : reference) ASSERT_EQ(label, labels.at(bytes)) << spec;
  }
}

TEST_F(Labelled, EvaluationCountsEachOnceOnOneToSevenRanks) {
  for (const std::string& spec : specs()) {
    SourceConfig config = labelled_config(spec);
    for (int64_t world = 1; world <= 7; ++world) {
      std::multiset<std::string> seen;
      config.world_size = world;
      for (config.rank = 0; config.rank < world; ++config.rank) {
        const auto source = open_eval_source(config);
        while (auto sample = source->next()) seen.insert(content_of(std::move(*sample)).first);
      }
      EXPECT_EQ(seen.size(), 11u) << spec << " on " << world;
      EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 11u) << spec << " on " << world;
    }
  }
}

TEST_F(Labelled, ContinuesFromEveryPosition) {
  for (const std::string& spec : specs()) {
    SourceConfig config = labelled_config(spec);
    config.global_batch = 2;
    const auto source = open_train_source(config);
    std::vector<std::string> contents;
    std::vector<core::Json> positions;
    for (int i = 0; i < 30; ++i) {
      positions.push_back(source->position());
      contents.push_back(content_of(*source->next()).first);
    }
    for (size_t at = 0; at < 20; ++at) {
      const auto resumed = open_train_source(config);
      resumed->seek(positions[at]);
      for (size_t i = at; i < at + 8; ++i) ASSERT_EQ(content_of(*resumed->next()).first, contents[i]) << spec;
    }
  }
}

TEST_F(Labelled, NumberedFoldersAreTheClassesThatTheyName) {
  const std::filesystem::path first = write_class_folders(folder_.path() / "folders"), numbered = folder_.path() / "v2";
  const std::filesystem::path picture =
      *std::filesystem::recursive_directory_iterator(first / image_folder_classes(first.string())[0]);
  for (int i = 0; i < 11; ++i) {  // by name 10 comes before 2
    std::filesystem::create_directories(numbered / std::to_string(i));
    std::filesystem::copy(picture, numbered / std::to_string(i) / ("p" + std::to_string(i) + ".jpg"));
  }
  SourceConfig config = labelled_config(numbered.string());
  config.numbered_classes = true;
  config.num_classes = 11;
  const auto source = open_eval_source(config);
  int num_seen = 0;
  while (auto sample = source->next()) {
    EXPECT_EQ(sample->key, fmt::format("{0}/p{0}.jpg", sample->label));
    ++num_seen;
  }
  EXPECT_EQ(num_seen, 11);
  std::filesystem::rename(numbered / "10", numbered / "n10");
  EXPECT_NE(refusal_of<DataError>([&] { open_eval_source(config); }).find("n10' is not named by a class number"),
            std::string::npos);
}

TEST_F(Labelled, SyntheticPicturesHaveLabelsBelowTheirNumber) {
  SourceConfig config = labelled_config("");
  config.type = DatasetType::kSynthetic;
  config.num_classes = 10;
  config.num_samples = 400;
  config.global_batch = 20;
  std::map<int64_t, int> counts;
  const auto source = open_eval_source(config);
  std::vector<int64_t> labels;
  while (auto sample = source->next()) {
    labels.push_back(sample->label);
    ++counts[sample->label];
  }
  EXPECT_EQ(labels.size(), 400u);
  EXPECT_EQ(counts.size(), 10u);
  EXPECT_GE(counts.begin()->first, 0);
  for (const auto& [label, count] : counts) EXPECT_GT(count, 15) << label;
  const auto again = open_eval_source(config);
  for (const int64_t label : labels) ASSERT_EQ(again->next()->label, label);
}

/// Of one colour, features would be nearly zero behind the first batch norm, and JPEGs nearly empty.
TEST_F(Labelled, SyntheticPicturesAreDifferentAndOfManyColours) {
  SourceConfig config = labelled_config("");
  config.type = DatasetType::kSynthetic;
  config.num_classes = 10;
  config.num_samples = 64;
  config.synthetic_pixels = 224;
  std::map<std::string, int> counts;
  const auto source = open_eval_source(config), again = open_eval_source(config);
  while (auto sample = source->next()) {
    const std::string bytes = sample->find("jpg")->bytes;
    ++counts[bytes];
    EXPECT_EQ(again->next()->find("jpg")->bytes, bytes) << "the same in every run";
  }
  EXPECT_EQ(counts.size(), 16u);
  for (const auto& [bytes, count] : counts) {
    EXPECT_EQ(count, 4);
    EXPECT_GT(bytes.size(), size_t{15'000}) << "a photograph of this size has some 20 kB";
    const Image image = decode_image(std::as_bytes(std::span(bytes)), "synthetic");
    ASSERT_EQ(image.width, 224);
    double sum = 0, squares = 0;
    for (const uint8_t level : image.rgb_YXC) sum += level, squares += level * level;
    const double num_levels = static_cast<double>(image.rgb_YXC.size()), mean = sum / num_levels;
    EXPECT_NEAR(mean, 127, 15);
    EXPECT_GT(std::sqrt(squares / num_levels - mean * mean), 50);
  }
}

TEST_F(Labelled, SyntheticPicturesWithoutLabelsHaveNone) {
  SourceConfig config = labelled_config("");
  config.type = DatasetType::kSynthetic;
  config.num_samples = 4;
  config.need_label = false;
  EXPECT_EQ(open_eval_source(config)->next()->label, -1);
}

TEST_F(Labelled, LabelsBeyondTheClassesAreRefused) {
  for (const std::string& spec : specs()) {
    SourceConfig config = labelled_config(spec);
    config.num_classes = 2;
    const std::string message = refusal_of<DataError>([&] {
      const auto source = open_eval_source(config);
      while (auto sample = source->next()) load_deferred(*sample);
    });
    const bool is_folder = std::filesystem::is_directory(spec);
    EXPECT_NE(message.find(is_folder ? "3 class folders, but 2 classes" : "is '2', expected a number from 0 to 1"),
              std::string::npos)
        << message;
  }
  // Where bad samples may be skipped, such a one is bad and no reason to stop.
  SourceConfig config = labelled_config(fmt::format("{}/shards/{{000..002}}.tar", folder_.path().string()));
  config.num_classes = 2;
  config.keep_lost = true;
  const auto source = open_train_source(config);
  int num_damaged = 0;
  for (int i = 0; i < 60; ++i) num_damaged += source->next()->damage != nullptr;
  EXPECT_GT(num_damaged, 10);
  EXPECT_LT(num_damaged, 50);
}

TEST_F(Labelled, AnEmptyClassFolderIsNamed) {
  const std::string root = write_class_folders(folder_.path() / "folders");
  std::filesystem::create_directories(folder_.path() / "folders/cat");
  SourceConfig config = labelled_config(root);
  config.num_classes = 4;
  const std::string message = refusal_of<DataError>([&] { open_train_source(config); });
  EXPECT_NE(message.find("folders/cat' holds no picture"), std::string::npos) << message;
}

TEST_F(Labelled, HiddenFoldersAreNoClassesAndToldOnce) {
  const std::filesystem::path root = write_class_folders(folder_.path() / "folders");
  const SourceConfig config = labelled_config(root.string());
  const auto position = [&] { return open_eval_source(config)->position(); };
  const core::Json plain = position();
  std::filesystem::create_directories(root / ".git/objects");
  for (const char* hidden : {".ipynb_checkpoints", "ant/.ipynb_checkpoints"}) {
    std::filesystem::create_directories(root / hidden);
    write_file(root / hidden / "p-checkpoint.jpg", small_jpeg(1));
  }
  ::testing::internal::CaptureStderr();
  const core::Json with_hidden = position(), again = position();
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(with_hidden, plain) << "the same data: a run goes on";
  EXPECT_EQ(again, plain);
  EXPECT_EQ(image_folder_classes(root.string()), (std::vector<std::string>{"Zebra", "ant", "bee"}));
  const std::string warning =
      "'" + root.string() + "': folders whose name begins with a dot are left out: .git, .ipynb";
  EXPECT_NE(told.find(warning), std::string::npos) << told;
  EXPECT_EQ(told.find(warning), told.rfind(warning)) << told;
}

TEST_F(Labelled, PicturesOfOtherKindsAreCountedAndToldOnce) {
  const std::filesystem::path root = write_class_folders(folder_.path() / "folders");
  for (const char* name : {"ant/a.bmp", "ant/b.BMP", "bee/c.gif", "Zebra/d.tif", "Zebra/notes.txt"})
    write_file(root / name, "x");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) open_eval_source(labelled_config(root.string()));
  const std::string told = ::testing::internal::GetCapturedStderr(), warning = "2 .bmp, 1 .gif, 1 .tif";
  EXPECT_NE(told.find("'" + root.string() + "': left out, since pictures are read from .jpg"), std::string::npos)
      << told;
  EXPECT_NE(told.find(warning), std::string::npos) << told;
  EXPECT_EQ(told.find(warning), told.rfind(warning)) << told;
  EXPECT_EQ(told.find(".txt"), std::string::npos) << told;
}

TEST_F(Labelled, BatchesHavePixelsAndLabelsAndNoText) {
  SourceConfig source = labelled_config(write_class_folders(folder_.path() / "folders"));
  source.shuffle = false;
  const PictureDecoderConfig decoder{.transform = imagenet_transform(/*is_train=*/false, 16, 18)};
  Loader loader(open_eval_source(source), make_picture_decoder(decoder),
                {.micro_batch_size = 4, .image_pixels = 16, .num_workers = 2});
  std::vector<int64_t> labels;
  for (HostBatch batch = loader.next(); batch.num_samples > 0; batch = loader.next()) {
    labels.insert(labels.end(), batch.label_B.begin(), batch.label_B.end());
    EXPECT_EQ(batch.image_BYXC.size(), static_cast<size_t>(batch.num_samples) * 16 * 16 * 3);
    EXPECT_TRUE(batch.text_BT.empty());
    EXPECT_NE(std::set(batch.image_BYXC.begin(), batch.image_BYXC.end()).size(), 1u);
  }
  std::vector<int64_t> expected;
  for (const LabelledPicture& picture : labelled_pictures()) expected.push_back(picture.label);
  EXPECT_EQ(labels, expected);
}

TEST_F(Labelled, DatasetsThatHaveLabelsAreListed) {
  std::set<std::string> names;
  for (const DatasetName& name : labelled_datasets()) names.insert(name.name);
  for (const char* name : {"webdataset", "csv", "synthetic", "imagefolder"}) EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("synthetic-audio"));
}

}  // namespace
}  // namespace lockstep::data
