#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "core/rng.h"
#include "data/pictures/image.h"
#include "data/shards/csv_table.h"
#include "data/shards/source_rows.h"
#include "data/train_stream.h"
#include "support/error_text.h"
#include "tar_bytes.h"

namespace lockstep::data {
namespace {

using lockstep::tests::write_file;
using Rows = std::vector<std::vector<std::string>>;

TEST(Csv, ReadsFieldsAsPandasDoes) {
  EXPECT_EQ(parse_csv("a,b\n1,2\n", ',', {}, "f").rows, (Rows{{"1", "2"}}));
  EXPECT_EQ(parse_csv("\xef\xbb\xbf"
                      "a\tb\r\n1\t2\r\n\r\n3\t4",
                      '\t', {}, "f")
                .rows,
            (Rows{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(parse_csv("a,b\r1,2\r", ',', {}, "f").rows, (Rows{{"1", "2"}}));
  EXPECT_EQ(parse_csv("a,b\n\"x,\"\"y\"\"\nz\",2\n", ',', {}, "f").rows, (Rows{{"x,\"y\"\nz", "2"}}));
  EXPECT_EQ(parse_csv("a,b\n5\" disk,\"q\"tail\n", ',', {}, "f").rows, (Rows{{"5\" disk", "qtail"}}));
  EXPECT_EQ(parse_csv("a,b,c\n1\n,,3\n", ',', {}, "f").rows, (Rows{{"1", "", ""}, {"", "", "3"}}));
  EXPECT_EQ(parse_csv("a,b,c\n1,2,3\n", ',', {"c", "a"}, "f").rows, (Rows{{"1", "3"}}));
  EXPECT_EQ(parse_csv("a,b\n\n\"x\ny\",2\r\n3,4\n", ',', {}, "f").lines, (std::vector<size_t>{3, 5}));
  EXPECT_EQ(parse_separator("\\t"), '\t');
  EXPECT_THROW(parse_separator("::"), UsageError);
  EXPECT_THROW(parse_separator(""), UsageError);
}

TEST(Csv, ATableOfAnotherSeparatorIsToldWhich) {
  const auto message = [](const std::string& text, char separator) {
    return tests::message_of<DataError>([&] { parse_csv(text, separator, {"filepath"}, "f.csv"); });
  };
  for (const auto& [text, separator, flag] : {std::tuple("filepath,title\na,b\n", '\t', "--csv-separator ,"),
                                              {"filepath\ttitle\na\tb\n", ',', "--csv-separator $'\\t'"},
                                              {"filepath;title\na;b\n", '\t', "--csv-separator ';'"}}) {
    const std::string said = message(text, separator);
    EXPECT_TRUE(tests::holds(said, flag)) << said;
  }
  const std::string other = message("path\na\n", ',');
  EXPECT_TRUE(tests::holds(other, "name the column with --csv-img-key")) << other;
  const std::string wide = message(std::string("\xff\xfe"
                                               "f\0i\0",
                                               6),
                                   '\t');
  EXPECT_TRUE(tests::holds(wide, "is a table in UTF-16, expected UTF-8")) << wide;
  EXPECT_TRUE(tests::holds(wide, "iconv -f UTF-16 -t UTF-8 'f.csv'")) << wide;
}

TEST(Csv, RefusesWhatPandasRefusesAndNamesTheLine) {
  const auto message = [](const std::string& text, const std::vector<std::string>& keep) -> std::string {
    try {
      parse_csv(text, ',', keep, "f.csv");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("a,b\n1,2\n\n1,2,3\n", {}).find("line 4"), std::string::npos) << message("a,b\n1,2\n\n1,2,3\n", {});
  EXPECT_NE(message("a,b\n\"1\n2,3\n", {}).find("line 2"), std::string::npos);
  EXPECT_NE(message("a,b\n1,2\n", {"filepath"}).find("'a', 'b'"), std::string::npos);
  EXPECT_NE(message("", {}).find("empty"), std::string::npos);
}

TEST(Csv, ShortRowsOfAWideTableTakeNoTimeForItsColumns) {
  // 400,000 columns and 200,000 rows of one field: hours where each row is filled up.
  std::string text = "filepath";
  for (int i = 0; i < 400'000; ++i) text += fmt::format("\t{}", i);
  for (int i = 0; i < 200'000; ++i) text += "\nx";
  const auto rows = parse_csv(text, '\t', {"filepath", "399999"}, "f.tsv").rows;
  ASSERT_EQ(rows.size(), 200'000u);
  EXPECT_EQ(rows.back(), (std::vector<std::string>{"x", ""}));
}

TEST(Csv, MutationsNeverCrash) {
  core::CounterRng rng(3);
  const std::string letters = "a,\"\n\r\tb";
  int num_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = "x,y\n";
    for (uint64_t n = rng.below(30); n > 0; --n) text += letters[rng.below(letters.size())];
    try {
      for (const auto& row : parse_csv(text, ',', {}, "f").rows) EXPECT_EQ(row.size(), 2u);
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_LT(num_refused, 19000);
}

class Table : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text = "title\tother\tfilepath\n";
    for (int i = 0; i < 23; ++i) text += fmt::format("caption {}\tx\tp{}.jpg\n", i, i);
    config_.spec = write_file(folder_.path() / "t.tsv", text);
    config_.global_batch = 6;
    config_.seed = 9;
    write_file(folder_.path() / "p0.jpg", "picture 0");
  }
  core::TempDir folder_;
  SourceConfig config_;
};

TEST_F(Table, EveryRowOnceAnEpochOnAnyNumberOfRanks) {
  std::vector<std::string> reference;
  for (const int64_t world : {1, 2, 3, 6}) {
    std::map<uint64_t, std::string> by_id;
    config_.world_size = world;
    for (config_.rank = 0; config_.rank < world; ++config_.rank) {
      const auto source = open_train_source(config_);
      for (int64_t i = 0; i < 54 / world; ++i) {
        const RawSample sample = *source->next();
        by_id[sample.id] = sample.key + sample.find("txt")->bytes + sample.file;
      }
    }
    std::vector<std::string> stream;
    for (const auto& [id, text] : by_id) stream.push_back(text);
    ASSERT_EQ(stream.size(), 54u);
    if (reference.empty()) reference = stream;
    EXPECT_EQ(stream, reference);
  }
  for (size_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(std::set<std::string>(reference.begin() + epoch * 18, reference.begin() + epoch * 18 + 18).size(), 18u);
  EXPECT_FALSE(std::equal(reference.begin(), reference.begin() + 18, reference.begin() + 18));
  config_.rank = 0;
  EXPECT_EQ(epoch_size(config_).num_samples, 18);
  EXPECT_EQ(epoch_size(config_).num_dropped, 5);
}

TEST_F(Table, APathToAPipeOrADeviceIsNoPicture) {
  RawSample sample;
  sample.shard = config_.spec;
  for (const char* file : {"/dev/zero", "/dev"}) {
    sample.file = file;
    EXPECT_THROW(load_deferred(sample), DataError) << file;
  }
  sample.file = (folder_.path() / "p0.jpg").string();
  load_deferred(sample);
  EXPECT_EQ(sample.find("jpg")->bytes, "picture 0");
}

TEST_F(Table, AFileLargerThanAnySampleIsNotRead) {
  const std::filesystem::path file = folder_.path() / "sparse.jpg";
  write_file(file, "x");
  std::filesystem::resize_file(file, uint64_t{1} << 42);  // takes no room on the disk
  RawSample sample;
  sample.shard = config_.spec;
  sample.file = file.string();
  try {
    load_deferred(sample);
    FAIL() << "4 TiB were read";
  } catch (const DataError& error) {
    EXPECT_TRUE(tests::holds(error.what(), "bytes=4398046511104, expected at most 2147483648")) << error.what();
  }
}

TEST_F(Table, ContinuesFromEveryPositionAndAnyRanks) {
  const auto source = open_train_source(config_);
  std::vector<std::string> keys;
  std::vector<core::Json> positions;
  for (int i = 0; i < 60; ++i) {
    positions.push_back(source->position());
    keys.push_back(source->next()->key);
  }
  for (size_t at = 0; at < 40; ++at) {
    const auto resumed = open_train_source(config_);
    resumed->seek(positions[at]);
    for (size_t i = at; i < at + 20; ++i) ASSERT_EQ(resumed->next()->key, keys[i]);
  }
  config_.world_size = 2;
  config_.rank = 1;
  const auto half = open_train_source(config_);
  half->seek(positions[30]);
  for (size_t i = 31; i < 50; i += 2) EXPECT_EQ(half->next()->key, keys[i]);
  EXPECT_THROW(half->seek(positions[31]), DataError);
  core::Json other = positions[30];
  other["data"] = "another";
  EXPECT_THROW(half->seek(other), DataError);
}

TEST_F(Table, PathsCountFromTheTableWhereTheyAreOnlyThere) {
  RawSample sample = open_csv(config_).row(0);
  load_deferred(sample);
  ASSERT_NE(sample.find("jpg"), nullptr);
  EXPECT_EQ(sample.find("jpg")->bytes, "picture 0");
  RawSample missing = open_csv(config_).row(1);
  const std::string said = tests::message_of<DataError>([&] { load_deferred(missing); });
  EXPECT_TRUE(tests::holds(said, "or leave such samples out with --on-bad-sample skip")) << said;
}

TEST_F(Table, APlaceIsTheLineOfTheFile) {
  EXPECT_EQ(open_csv(config_).row(1).place(),
            fmt::format("file '{}' ('{}' line 3)", (folder_.path() / "p1.jpg").string(), config_.spec));
  config_.spec = write_file(folder_.path() / "long.csv", "filepath\ttitle\np0.jpg\t\"two\nlines\"\n\np1.jpg\tx\n");
  RawSample missing = open_csv(config_).row(1);
  const std::string message = tests::message_of<DataError>([&] { load_deferred(missing); });
  EXPECT_TRUE(tests::holds(message, "long.csv' line 5)")) << message;
}

TEST_F(Table, EvaluationTakesEachRowOnceInOrder) {
  std::map<uint64_t, std::string> all;
  config_.world_size = 4;
  for (config_.rank = 0; config_.rank < 4; ++config_.rank) {
    const auto source = open_eval_source(config_);
    while (auto sample = source->next()) all[sample->id] = sample->key;
  }
  ASSERT_EQ(all.size(), 23u);
  for (const auto& [id, key] : all) EXPECT_EQ(std::to_string(id), key);
}

TEST_F(Table, BadTablesAreRefused) {
  config_.csv_image_key = "path";
  EXPECT_THROW(open_train_source(config_), DataError);
  config_.csv_image_key = "filepath";
  config_.global_batch = 24;
  EXPECT_THROW(open_train_source(config_), DataError);
  EXPECT_THROW(epoch_size(config_), DataError);
  config_.spec = (folder_.path() / "none.csv").string();
  EXPECT_THROW(open_train_source(config_), DataError);
  config_.spec = write_file(folder_.path() / "e.csv", "filepath\ttitle\n");
  EXPECT_THROW(open_train_source(config_), DataError);
  config_.spec = write_file(folder_.path() / "e.csv", "filepath\ttitle\na.jpg\t\"x\ny\"\n\n\tx\n");
  const std::string empty = tests::message_of<DataError>([&] { open_train_source(config_); });
  EXPECT_TRUE(tests::holds(empty, "e.csv' line 5: the column 'filepath' is empty")) << empty;
  config_.spec = (folder_.path() / "data.bin").string();
  EXPECT_THROW(open_train_source(config_), DataError);  // not there
  config_.spec = write_file(folder_.path() / "data.bin", "x");
  EXPECT_THROW(open_train_source(config_), UsageError);  // there, but nothing says what it is
  EXPECT_THROW(parse_dataset_type("hdf5"), UsageError);
  EXPECT_EQ(parse_dataset_type("csv"), DatasetType::kCsv);
  EXPECT_EQ(parse_data_order("openclip"), DataOrder::kOpenClip);
}

TEST(ImageFolder, ListsClassesAndFilesInOrder) {
  core::TempDir folder;
  for (const char* name : {"n02/b.JPEG", "n02/a.png", "n01/z.jpg", "n01/sub/c.webp", "n01/notes.txt"}) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    write_file(folder.path() / name, name);
  }
  SourceConfig config;
  config.spec = folder.path().string();
  const auto source = open_eval_source(config);
  std::vector<std::string> seen;
  while (auto sample = source->next()) {
    load_deferred(*sample);
    EXPECT_EQ(sample->members.at(0).bytes, sample->key);
    EXPECT_EQ(sample->place(), fmt::format("file '{}'", sample->file)) << "no line of a list";
    seen.push_back(fmt::format("{} {} {}", sample->key, sample->label, sample->members.at(0).extension));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"n01/z.jpg 0 jpg", "n01/sub/c.webp 0 webp", "n02/a.png 1 png",
                                            "n02/b.JPEG 1 jpeg"}));
  EXPECT_EQ(image_folder_classes(config.spec), (std::vector<std::string>{"n01", "n02"}));
  std::filesystem::create_directories(folder.path() / "n03");
  EXPECT_THROW(open_eval_source(config), DataError);
  std::filesystem::create_directory_symlink(folder.path() / "n01", folder.path() / "n01" / "loop");
  EXPECT_THROW(open_eval_source(config), DataError);
  EXPECT_THROW(image_folder_classes((folder.path() / "n02").string()), DataError);
  EXPECT_THROW(image_folder_classes("/nowhere"), DataError);
}

TEST(Synthetic, IsABlackPictureWithADummyCaption) {
  SourceConfig config;
  config.type = DatasetType::kSynthetic;
  config.synthetic_pixels = 40;
  config.num_samples = 10;
  config.global_batch = 4;
  const RawSample sample = *open_train_source(config)->next();
  EXPECT_EQ(sample.find("txt")->bytes, "Dummy caption");
  const Image image = decode_image(std::as_bytes(std::span(sample.find("jpg")->bytes)), "synthetic");
  EXPECT_EQ(image.width, 40);
  EXPECT_EQ(image.height, 40);
  EXPECT_EQ(image.rgb_YXC, std::vector<uint8_t>(4800, 0));
  EXPECT_EQ(epoch_size(config).num_samples, 12);
  config.num_samples = 0;
  EXPECT_THROW(epoch_size(config), UsageError);
}

}  // namespace
}  // namespace lockstep::data
