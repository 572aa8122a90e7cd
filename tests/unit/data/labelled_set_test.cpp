// Class folders and LMDBs as a whole: which folder is meant, which pictures are damaged, and what a set holds.
#include "data/labelled_set.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "data/loader.h"
#include "data/pictures/picture_decoder.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/shards/source_rows.h"
#include "data/to_lmdb.h"
#include "labelled_pictures.h"
#include "support/error_text.h"

namespace lockstep::data {
namespace {

using namespace lockstep::tests;  // NOLINT
namespace fs = std::filesystem;

/// A JPEG whose header is whole and whose second half is missing.
std::string half_jpeg() {
  const std::string whole = small_jpeg(7, 64, 48);
  return whole.substr(0, whole.size() / 2);
}

class LabelledSet : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  /// Class folders of eleven pictures, of which `num_damaged` more are cut short.
  std::string damaged_folders(int num_damaged) const {
    const std::string root = write_class_folders(path("folders"));
    for (int i = 0; i < num_damaged; ++i) write_file(fs::path(root) / fmt::format("bee/z{:03}.jpg", i), half_jpeg());
    return root;
  }
  std::string refusal_of(const fs::path& root) const {
    return message_of<DataError>([&] { image_folder_classes(root.string()); });
  }
  core::TempDir folder_;
};

TEST_F(LabelledSet, AFolderOfSplitsIsNotOneOfClasses) {
  for (const char* split : {"train", "val", "test"}) write_class_folders(path("imagenet") / split);
  const std::string splits = refusal_of(path("imagenet"));
  EXPECT_TRUE(holds(splits, fmt::format("'{}' holds no class folders", path("imagenet").string()))) << splits;
  EXPECT_TRUE(holds(splits, "test, train, val")) << splits;
  EXPECT_TRUE(holds(splits, fmt::format("'{}'", path("imagenet/train").string()))) << splits;
  const std::string above = refusal_of(folder_.path());
  EXPECT_TRUE(holds(above, "'imagenet' holds folders: test, train, val")) << above;
  EXPECT_TRUE(holds(above, fmt::format("is it '{}'", path("imagenet/train").string()))) << above;
  EXPECT_EQ(image_folder_classes(path("imagenet/train").string()).size(), 3u);
  // Everything that reads class folders refuses it, not only who asks for their names.
  EXPECT_THROW(open_train_source(labelled_config(path("imagenet").string())), DataError);
  EXPECT_THROW(class_names_of(DatasetType::kAuto, path("imagenet").string()), DataError);
}

TEST_F(LabelledSet, SplitsWithPicturesOfTheirOwnAndOneAloneAreRefusedToo) {
  for (const char* split : {"Train", "validation"}) {
    fs::create_directories(path("flat") / split);
    write_file(path("flat") / split / "a.jpg", small_jpeg(1));
  }
  EXPECT_TRUE(holds(refusal_of(path("flat")), "Train, validation")) << refusal_of(path("flat"));
  write_class_folders(path("alone/train"));
  EXPECT_TRUE(holds(refusal_of(path("alone")), path("alone/train").string())) << refusal_of(path("alone"));
}

TEST_F(LabelledSet, AClassMayBeCalledTrainAndMayHaveFoldersOfItsOwn) {
  const fs::path root = write_class_folders(path("vehicles"));
  fs::create_directories(root / "train/night");
  write_file(root / "train/night/a.jpg", small_jpeg(1));
  EXPECT_EQ(image_folder_classes(root.string()).size(), 4u);
  EXPECT_EQ(check_class_folders(root.string(), 2, PictureDepth::kDecoded).num_pictures, 12);
}

TEST_F(LabelledSet, DecodingFindsWhatTheFirstBytesHide) {
  const std::string root = damaged_folders(2);
  EXPECT_EQ(check_class_folders(root, 2, PictureDepth::kFirstBytes).num_bad, 0);
  const FolderCheck check = check_class_folders(root, 2, PictureDepth::kDecoded);
  EXPECT_EQ(check.num_pictures, 13);
  EXPECT_EQ(check.num_classes, 3);
  EXPECT_EQ(check.num_bad, 2);
  ASSERT_EQ(check.bad.size(), 2u);
  EXPECT_TRUE(holds(check.bad[0], "bee/z000.jpg")) << check.bad[0];

  const std::string lmdb = path("out.lmdb").string();
  to_lmdb({.source = labelled_config(root), .output = lmdb});
  EXPECT_EQ(verify_lmdb(lmdb, 2, PictureDepth::kFirstBytes).num_bad, 0);
  const LmdbCheck of_lmdb = verify_lmdb(lmdb, 2, PictureDepth::kDecoded);
  EXPECT_EQ(of_lmdb.num_bad, 2);
  ASSERT_EQ(of_lmdb.bad.size(), 2u);
  EXPECT_TRUE(holds(of_lmdb.bad[0], fmt::format("data: picture in LMDB '{}' key '11'", lmdb))) << of_lmdb.bad[0];
  const std::string refused = message_of<DataError>(
      [&] { to_lmdb({.source = labelled_config(root), .output = path("new.lmdb"), .decodes = true}); });
  EXPECT_TRUE(holds(refused, "bee/z000.jpg")) << refused;
}

TEST_F(LabelledSet, ClassesWhoseNamesAreNoUtf8AreConverted) {
  const fs::path root = write_class_folders(path("folders"));
  fs::rename(root / "bee", root / "b\xe4r");  // Latin-1
  const std::string lmdb = path("out.lmdb").string();
  EXPECT_EQ(to_lmdb({.source = labelled_config(root), .output = lmdb}).num_pictures, 11);
  const std::vector<std::string> names = class_names_of(DatasetType::kAuto, lmdb);
  EXPECT_EQ(std::count(names.begin(), names.end(), "b\xef\xbf\xbdr"), 1) << names.size();
}

TEST_F(LabelledSet, OfManyBadPicturesTheFirstHundredAreNamed) {
  const FolderCheck check = check_class_folders(damaged_folders(105), 2, PictureDepth::kDecoded);
  EXPECT_EQ(check.num_bad, 105);
  EXPECT_EQ(check.bad.size(), kMaxBadPictures);
}

TEST_F(LabelledSet, PicturesOfShardsAreDecodedWhereThatIsAskedFor) {
  const std::string shard = write_file(
      path("a.tar"), TarBytes::member("0.jpg", small_jpeg(1)) + TarBytes::member("0.cls", "1") +
                         TarBytes::member("1.jpg", half_jpeg()) + TarBytes::member("1.cls", "2") + TarBytes::end());
  IndexJob job{.shards = {shard}, .index_dir = "", .on_progress = {}};
  EXPECT_TRUE(verify_shards(job).at(0).is_good());
  job.decodes = true;
  const VerifyResult result = verify_shards(job).at(0);
  EXPECT_FALSE(result.is_good());
  EXPECT_EQ(result.error, "") << "the shard itself is whole";
  EXPECT_EQ(result.pictures.num_seen, 2);
  EXPECT_EQ(result.pictures.num_bad, 1);
  ASSERT_EQ(result.pictures.bad.size(), 1u);
  EXPECT_TRUE(holds(result.pictures.bad[0], fmt::format("shard '{}'", shard))) << result.pictures.bad[0];
  EXPECT_TRUE(holds(result.pictures.bad[0], "key='1'")) << result.pictures.bad[0];
}

TEST_F(LabelledSet, AReportTellsClassesAndSizes) {
  const std::string root = damaged_folders(1), lmdb = path("out.lmdb").string();
  const LabelledReport folders = inspect_labelled_set(root, 100);
  EXPECT_FALSE(folders.is_lmdb);
  EXPECT_EQ(folders.num_pictures, 12);
  EXPECT_EQ(folders.class_names, (std::vector<std::string>{"Zebra", "ant", "bee"}));
  EXPECT_EQ(folders.fewest_of_class, 2);
  EXPECT_EQ(folders.smallest_class, "Zebra");
  EXPECT_EQ(folders.most_of_class, 6);
  EXPECT_EQ(folders.largest_class, "bee");
  EXPECT_EQ(folders.num_decoded, 11);
  EXPECT_EQ(folders.bad.size(), 1u);
  EXPECT_EQ(folders.min_width, 20);
  EXPECT_EQ(folders.max_width, 24);
  EXPECT_EQ(folders.min_height, 16);
  EXPECT_EQ(folders.max_height, 18);
  to_lmdb({.source = labelled_config(root), .output = lmdb});
  const LabelledReport of_lmdb = inspect_labelled_set(lmdb, 4);
  EXPECT_TRUE(of_lmdb.is_lmdb);
  EXPECT_EQ(of_lmdb.num_pictures, 12);
  EXPECT_EQ(of_lmdb.num_classes, 3);
  EXPECT_EQ(of_lmdb.class_names, folders.class_names);
  EXPECT_EQ(of_lmdb.num_decoded, 4);
  EXPECT_EQ(of_lmdb.max_height, 18) << "the four are spread over all classes";
  EXPECT_GT(of_lmdb.num_bytes, 0u);
}

TEST_F(LabelledSet, NamesOfFoldersAndLmdbsAreNoShards) {
  EXPECT_TRUE(is_labelled_set(write_class_folders(path("folders"))));
  EXPECT_TRUE(is_labelled_set("x.lmdb"));
  EXPECT_FALSE(is_labelled_set("{000..001}.tar"));
}

/// Every batch of one pass over `root` as evaluation reads it.
std::vector<int64_t> evaluated_labels(const std::string& root, const LoaderConfig& config) {
  const PictureDecoderConfig decoder{.transform = imagenet_transform(/*is_train=*/false, 16, 18)};
  Loader loader(open_eval_source(labelled_config(root)), make_picture_decoder(decoder), config);
  std::vector<int64_t> labels;
  for (HostBatch batch = loader.next(); batch.num_samples > 0; batch = loader.next())
    labels.insert(labels.end(), batch.label_B.begin(), batch.label_B.end());
  return labels;
}

TEST_F(LabelledSet, ABadPictureOfEvaluationIsNotToBeSkippedUnlessItMay) {
  const std::string root = damaged_folders(1);
  LoaderConfig config{.micro_batch_size = 4, .image_pixels = 16, .num_workers = 2};
  const std::string whole = message_of<DataError>([&] { evaluated_labels(root, config); });
  EXPECT_TRUE(holds(whole, "bee/z000.jpg")) << whole;
  EXPECT_FALSE(holds(whole, "--on-bad-sample")) << whole;
  EXPECT_TRUE(holds(whole, "remove it from the data")) << whole;
  config.may_leave_out = true;
  const std::string may = message_of<DataError>([&] { evaluated_labels(root, config); });
  EXPECT_TRUE(holds(may, "or leave such samples out with --on-bad-sample skip")) << may;
  config.on_bad_sample = OnBadSample::kLeaveOut;
  const std::vector<int64_t> labels = evaluated_labels(root, config);
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2}));
  config.max_bad_samples = 0;
  EXPECT_TRUE(
      holds(message_of<DataError>([&] { evaluated_labels(root, config); }), "1 bad samples are more than the 0"));
  // Training has others to take instead, so its hint stays.
  const PictureDecoderConfig decoder{.transform = imagenet_transform(/*is_train=*/false, 16, 18)};
  const std::string training = message_of<DataError>([&] {
    Loader loader(open_train_source(labelled_config(root)), make_picture_decoder(decoder),
                  {.micro_batch_size = 6, .image_pixels = 16, .num_workers = 2});
    for (int i = 0; i < 4; ++i) loader.next();
  });
  EXPECT_TRUE(holds(training, "--on-bad-sample skip")) << training;
}

}  // namespace
}  // namespace lockstep::data
