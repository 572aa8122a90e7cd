#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "core/error.h"
#include "core/rng.h"
#include "data/folder_lock.h"
#include "data/shards/lmdb_value.h"
#include "data/shards/lmdb_writer.h"
#include "data/shards/plain_pickle.h"
#include "data/shards/source_lmdb.h"
#include "data/to_lmdb.h"
#include "labelled_pictures.h"

namespace lockstep::data {
namespace {

using namespace lockstep::tests;  // NOLINT
namespace fs = std::filesystem;

/// The message and hint of the E that `use` throws; fails when there is none.
template <typename E, typename Use> std::string refused(const Use& use) {
  try {
    use();
  } catch (const E& error) {
    return error.text();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

/// All pictures with their labels, in order.
std::vector<std::pair<std::string, int64_t>> all_pictures(const SourceConfig& config) {
  std::vector<std::pair<std::string, int64_t>> pictures;
  const auto source = open_eval_source(config);
  while (auto sample = source->next()) {
    load_deferred(*sample);
    pictures.emplace_back(sample->members.at(0).bytes, sample->label);
  }
  return pictures;
}

std::vector<std::pair<std::string, int64_t>> expected_pictures() {
  std::vector<std::pair<std::string, int64_t>> pictures;
  for (const LabelledPicture& picture : labelled_pictures()) pictures.emplace_back(picture.bytes, picture.label);
  return pictures;
}

/// 700 generated pictures: three chunks, of which the last is not full.
SourceConfig many_pictures() {
  SourceConfig config = labelled_config("");
  config.type = DatasetType::kSynthetic;
  config.synthetic_pixels = 24;
  config.num_samples = 700;
  config.num_classes = 10;
  return config;
}

class Lmdb : public ::testing::Test {
 protected:
  std::string out(const char* name = "out.lmdb") const { return (folder_.path() / name).string(); }
  core::TempDir folder_;
};

TEST_F(Lmdb, HoldsThePicturesOfEveryForm) {
  fs::create_directories(folder_.path() / "shards");
  fs::create_directories(folder_.path() / "table");
  const std::vector<std::string> specs = {write_class_folders(folder_.path() / "folders"),
                                          write_labelled_shards(folder_.path() / "shards"),
                                          write_labelled_table(folder_.path() / "table"), out("0.lmdb")};
  for (size_t i = 0; i < specs.size(); ++i) {
    for (const int64_t threads : {1, 3}) {
      const std::string lmdb = out(fmt::format("{}.lmdb{}", i, threads == 1 ? "" : "_more").c_str());
      const ToLmdbResult result =
          to_lmdb({.source = labelled_config(specs[i]), .output = lmdb, .num_threads = threads});
      EXPECT_EQ(result.num_pictures, 11) << specs[i];
      EXPECT_EQ(result.num_classes, 3) << specs[i];
      EXPECT_FALSE(result.was_there);
      EXPECT_EQ(all_pictures(labelled_config(lmdb)), expected_pictures()) << specs[i];
      const LmdbCheck check = verify_lmdb(lmdb, 2, PictureDepth::kDecoded);
      EXPECT_TRUE(check.has_hashes);
      EXPECT_EQ(check.num_bad, 0);
      EXPECT_TRUE(to_lmdb({.source = labelled_config(specs[i]), .output = lmdb}).was_there);
    }
  }
  EXPECT_EQ(read_lmdb_progress(LmdbReader(out("0.lmdb")))->class_names,
            (std::vector<std::string>{"Zebra", "ant", "bee"}));
}

TEST_F(Lmdb, TrainsInTheSameOrderAsItsSource) {
  const SourceConfig folders = labelled_config(write_class_folders(folder_.path() / "folders"));
  to_lmdb({.source = folders, .output = out()});
  SourceConfig config = labelled_config(out());
  const auto expected = open_train_source(folders), seen = open_train_source(config);
  std::vector<core::Json> positions;
  std::vector<std::string> contents;
  for (int i = 0; i < 24; ++i) {
    RawSample a = *expected->next();
    positions.push_back(seen->position());
    RawSample b = *seen->next();
    load_deferred(a);
    load_deferred(b);
    EXPECT_EQ(a.members[0].bytes, b.members[0].bytes);
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(a.label, b.label);
    contents.push_back(b.members[0].bytes);
  }
  const auto resumed = open_train_source(config);
  resumed->seek(positions[7]);
  RawSample sample = *resumed->next();
  RawSample substitute = sample.substitute(1);
  load_deferred(sample);
  load_deferred(substitute);
  EXPECT_EQ(sample.members[0].bytes, contents[7]);
  EXPECT_NE(substitute.members[0].bytes, contents[7]);
  EXPECT_EQ(epoch_size(config).num_samples, 6);
  EXPECT_THROW(open_train_source([&] {
                 config.need_text = true;
                 return config;
               }()),
               UsageError);
}

TEST_F(Lmdb, DataOfAnotherFormatDoNotContinueAStreamAndWordsSayWhy) {
  const SourceConfig folders = labelled_config(write_class_folders(folder_.path() / "folders"));
  to_lmdb({.source = folders, .output = out()});
  const core::Json position = open_train_source(labelled_config(out()))->position();
  const auto resume = [&](const core::Json& from) {
    return refused<DataError>([&] { open_train_source(folders)->seek(from); });
  };
  const std::string other_format = resume(position);
  EXPECT_NE(other_format.find("the data are class folders now and were an LMDB when"), std::string::npos)
      << other_format;
  EXPECT_NE(other_format.find("--pretrained RUN"), std::string::npos) << other_format;
  EXPECT_EQ(other_format.find(position.at("data").get<std::string>()), std::string::npos) << other_format;
  core::Json other_names = open_train_source(folders)->position();
  other_names["data"] = "0123456789abcdef";
  EXPECT_NE(resume(other_names).find("the data (class folders) hold other samples"), std::string::npos);
  other_names.erase("format");  // of a release that did not tell it
  EXPECT_NE(resume(other_names).find("hold other samples"), std::string::npos);
}

TEST_F(Lmdb, AKilledConversionGoesOnBehindItsLastCommit) {
  const pid_t child = fork();
  if (child == 0) {
    ToLmdbConfig config{.source = many_pictures(), .output = out(), .num_threads = 2};
    config.on_progress = [](int64_t num_done) {
      if (num_done == 512) kill(getpid(), SIGKILL);
    };
    to_lmdb(config);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_FALSE(fs::exists(out()));
  const std::string half = refused<DataError>([&] { all_pictures(labelled_config(out("out.lmdb.partial"))); });
  EXPECT_NE(half.find("half converted: 512 pictures so far"), std::string::npos) << half;

  SourceConfig other = many_pictures();
  other.num_samples = 701;
  EXPECT_NE(refused<DataError>([&] { to_lmdb({.source = other, .output = out()}); }).find("conversion of other data"),
            std::string::npos);
  const ToLmdbResult result = to_lmdb({.source = many_pictures(), .output = out()});
  EXPECT_EQ(result.num_resumed, 512);
  EXPECT_EQ(result.num_pictures, 700);
  EXPECT_FALSE(fs::exists(out("out.lmdb.partial")));
  EXPECT_EQ(verify_lmdb(out(), 2, PictureDepth::kDecoded).num_bad, 0);
  EXPECT_EQ(to_lmdb({.source = many_pictures(), .output = out("whole.lmdb")}).num_resumed, 0);
  const LmdbReader resumed(out()), whole(out("whole.lmdb"));
  ASSERT_EQ(resumed.num_entries(), whole.num_entries());
  whole.for_each_key([&](std::string_view key) { EXPECT_EQ(resumed.get(key), whole.get(key)) << key; });
  SourceConfig config = labelled_config(out());
  config.num_classes = 10;
  EXPECT_EQ(all_pictures(config), all_pictures(many_pictures()));
}

TEST_F(Lmdb, BadPicturesAreLeftOutAndListedAndAKilledConversionGoesOnThere) {
  const fs::path root = folder_.path() / "many";
  constexpr int kNumFiles = 1100, kEvery = 7;
  fs::create_directories(root / "ant");
  for (int i = 0; i < kNumFiles; ++i)
    write_file(root / fmt::format("ant/{:04}.jpg", i), i % kEvery == 3 ? "<html>" : small_jpeg(i));
  SourceConfig source = labelled_config(root.string());
  EXPECT_NE(refused<DataError>([&] { to_lmdb({.source = source, .output = out()}); }).find("--on-bad-sample skip"),
            std::string::npos);
  ToLmdbConfig config{.source = source, .output = out("whole.lmdb"), .num_threads = 2, .skips_bad = true};
  const ToLmdbResult whole = to_lmdb(config);
  constexpr int kNumBad = (kNumFiles - 3 + kEvery - 1) / kEvery;
  EXPECT_EQ(whole.num_skipped, kNumBad);
  EXPECT_EQ(whole.num_pictures, kNumFiles - kNumBad);
  ASSERT_EQ(whole.skipped.size(), kMaxBadPictures);
  EXPECT_NE(whole.skipped[0].find("ant/0003.jpg"), std::string::npos) << whole.skipped[0];
  EXPECT_EQ(verify_lmdb(out("whole.lmdb"), 2, PictureDepth::kDecoded).num_bad, 0);
  const auto expected = all_pictures(labelled_config(out("whole.lmdb")));
  EXPECT_EQ(expected.at(3).first, small_jpeg(4));
  config.output = out();
  for (const int64_t killed_at : {256, 512, 768}) {
    const pid_t child = fork();
    if (child == 0) {
      config.on_progress = [&](int64_t num_done) {
        if (num_done == killed_at) kill(getpid(), SIGKILL);
      };
      to_lmdb(config);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << killed_at;
  }
  const ToLmdbResult resumed = to_lmdb(config);
  EXPECT_EQ(resumed.num_resumed, 768);
  EXPECT_EQ(resumed.num_skipped, whole.num_skipped);
  EXPECT_EQ(resumed.skipped, whole.skipped);
  EXPECT_TRUE(all_pictures(labelled_config(out())) == expected);
  EXPECT_EQ(verify_lmdb(out(), 2, PictureDepth::kDecoded).num_bad, 0);
  EXPECT_EQ(to_lmdb(config).num_skipped, whole.num_skipped) << "found complete";
  // Files that are mended before the call goes on: one that was passed over stays left out, one behind is taken.
  config.output = out("mended.lmdb");
  config.on_progress = [](int64_t) { throw DataError("stopped"); };
  EXPECT_THROW(to_lmdb(config), DataError);
  config.on_progress = {};
  constexpr int kPassedOver = 262, kBehind = 500, kBadBefore = 71;
  for (const int i : {kPassedOver, kBehind}) write_file(root / fmt::format("ant/{:04}.jpg", i), small_jpeg(i));
  const ToLmdbResult mended = to_lmdb(config);
  EXPECT_EQ(mended.num_resumed, 256);
  EXPECT_EQ(mended.num_skipped, whole.num_skipped - 1);
  auto with_mended = expected;
  with_mended.insert(with_mended.begin() + kBehind - kBadBefore, {small_jpeg(kBehind), 0});
  EXPECT_TRUE(all_pictures(labelled_config(out("mended.lmdb"))) == with_mended);
  for (const int i : {kPassedOver, kBehind}) write_file(root / fmt::format("ant/{:04}.jpg", i), "<html>");
  config.output = out("few.lmdb");
  config.max_bad = 5;
  EXPECT_NE(refused<DataError>([&] { to_lmdb(config); }).find("more than 5 pictures of '" + root.string()),
            std::string::npos);
}

TEST_F(Lmdb, AMapThatIsTooSmallGrows) {
  const ToLmdbResult result = to_lmdb({.source = many_pictures(), .output = out(), .map_bytes = 1 << 16});
  EXPECT_GE(result.num_grown, 3);
  EXPECT_EQ(verify_lmdb(out(), 1, PictureDepth::kDecoded).num_bad, 0);
  EXPECT_EQ(LmdbReader(out()).num_entries(), 706u);
}

TEST_F(Lmdb, TwoConversionsDoNotWriteToOneFile) {
  fs::create_directories(out("out.lmdb.partial"));
  const FolderLock lock(out("out.lmdb.partial"), OnLocked::kRefuse);
  const std::string message = refused<EnvironmentError>([&] { to_lmdb({.source = many_pictures(), .output = out()}); });
  EXPECT_NE(message.find("another process writes"), std::string::npos) << message;
}

TEST_F(Lmdb, OtherThingsAreNotOverwritten) {
  fs::create_directories(out());
  EXPECT_THROW(to_lmdb({.source = many_pictures(), .output = out()}), UsageError);
  write_file(out("file"), "x");
  EXPECT_THROW(to_lmdb({.source = many_pictures(), .output = out("file")}), UsageError);
  to_lmdb({.source = labelled_config(write_class_folders(folder_.path() / "folders")), .output = out("a.lmdb")});
  EXPECT_THROW(to_lmdb({.source = many_pictures(), .output = out("a.lmdb")}), DataError);
}

TEST_F(Lmdb, ASeparatorAtTheEndOfItsNameChangesNothing) {
  EXPECT_EQ(to_lmdb({.source = many_pictures(), .output = out() + "/"}).num_pictures, 700);
  EXPECT_TRUE(to_lmdb({.source = many_pictures(), .output = out()}).was_there);
}

TEST_F(Lmdb, AConversionBesideTheClassesOfItsDataIsRefused) {
  const fs::path folders = write_class_folders(folder_.path() / "folders");
  for (const fs::path& inside : {folders / "out.lmdb", folders / "0" / "out.lmdb"})
    EXPECT_NE(refused<UsageError>([&] {
                to_lmdb({.source = labelled_config(folders), .output = inside});
              }).find("would lie among the data"),
              std::string::npos);
  EXPECT_EQ(to_lmdb({.source = labelled_config(folders), .output = out()}).num_classes,
            std::ssize(image_folder_classes(folders)));
}

TEST_F(Lmdb, CountsAndNamesOfClassesSurvive) {
  const ToLmdbConfig unnamed{.source = many_pictures(), .output = out()};
  EXPECT_EQ(to_lmdb(unnamed).num_classes, 10);
  EXPECT_EQ(to_lmdb(unnamed).num_classes, 10) << "found";
  const fs::path folders = write_class_folders(folder_.path() / "folders");
  to_lmdb({.source = labelled_config(folders), .output = out("named.lmdb")});
  to_lmdb({.source = labelled_config(out("named.lmdb")), .output = out("copied.lmdb")});
  EXPECT_EQ(read_lmdb_progress(LmdbReader(out("copied.lmdb")))->class_names, image_folder_classes(folders));
  const std::string foreign = LOCKSTEP_GOLDEN_DIR "/lmdb/raw_paths.mdb";  // named by the folders of its keys
  to_lmdb({.source = labelled_config(foreign), .output = out("foreign.lmdb")});
  const auto names = read_lmdb_progress(LmdbReader(out("foreign.lmdb")))->class_names;
  EXPECT_FALSE(names.empty());
  EXPECT_EQ(names, lmdb_class_names(LmdbReader(foreign)));
}

TEST_F(Lmdb, AFileOfAConversionThatWasKilledAtItsStartIsNoDamage) {
  fs::create_directories(out("out.lmdb.partial"));
  write_file(out("out.lmdb.partial") + "/data.mdb", "");
  EXPECT_EQ(to_lmdb({.source = many_pictures(), .output = out()}).num_pictures, 700);
  fs::create_directories(out("torn.lmdb.partial"));
  write_file(out("torn.lmdb.partial") + "/data.mdb", "torn");
  try {
    to_lmdb({.source = many_pictures(), .output = out("torn.lmdb")});
    FAIL() << "converted";
  } catch (const DataError& error) {
    EXPECT_EQ(error.hint(), fmt::format("remove '{}' and convert again", out("torn.lmdb.partial")));
  }
}

TEST_F(Lmdb, WhatIsNoPictureIsNamedAndNotConverted) {
  for (const char* content : {"", "<html>", "GIF89a"}) {
    const fs::path root = folder_.path() / fmt::format("folders{}", std::string(content).size());
    write_class_folders(root);
    write_file(root / "bee/z.jpg", content);
    const std::string message =
        refused<DataError>([&] { to_lmdb({.source = labelled_config(root.string()), .output = out()}); });
    EXPECT_NE(message.find("bee/z.jpg"), std::string::npos) << message;
  }
  SourceConfig config = labelled_config(write_class_folders(folder_.path() / "folders"));
  config.num_classes = 2;
  EXPECT_THROW(to_lmdb({.source = config, .output = out()}), DataError);
}

TEST_F(Lmdb, ReadsWhatPythonProgramsWrite) {
  const fs::path golden = fs::path(LOCKSTEP_GOLDEN_DIR);
  const std::string small = core::read_file(golden / "image/jpeg_1x1.jpg"),
                    large = core::read_file(golden / "image/jpeg_444.jpg");
  for (const char* name : {"pickle3", "pickle5", "msgpack", "datum", "raw_paths", "raw_numbers"}) {
    SourceConfig config = labelled_config((golden / fmt::format("lmdb/{}.mdb", name)).string());
    config.num_classes = 1001;
    const bool is_by_folder = name == std::string("raw_paths");
    const bool has_labels = name != std::string("raw_numbers");
    config.need_label = has_labels;
    const auto pictures = all_pictures(config);
    ASSERT_EQ(pictures.size(), 12u) << name;
    std::multiset<int> seen;
    for (size_t i = 0; i < pictures.size(); ++i) {
      const int number = static_cast<unsigned char>(pictures[i].first.back());
      seen.insert(number);
      EXPECT_EQ(pictures[i].first, (number >= 10 ? large : small) + static_cast<char>(number)) << name;
      if (has_labels) {
        EXPECT_EQ(pictures[i].second, is_by_folder ? number % 3 : number % 3 * 500) << name;
      }
      if (!is_by_folder) {
        EXPECT_EQ(number, static_cast<int>(i)) << name;  // numbers in the order of numbers
      }
    }
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 12u) << name;
    const LmdbCheck check = verify_lmdb(config.spec, 2, PictureDepth::kDecoded);
    EXPECT_FALSE(check.has_hashes);
    EXPECT_EQ(check.num_bad, 0) << name;
    config.need_label = true;
    config.num_classes = 1000;
    if (is_by_folder)
      EXPECT_NO_THROW(all_pictures(config));
    else
      EXPECT_THROW(all_pictures(config), DataError) << name;
  }
  const std::string objects = (golden / "lmdb/objects.mdb").string();
  EXPECT_NE(refused<DataError>([&] { all_pictures(labelled_config(objects)); }).find("opcode 0x"), std::string::npos);
  EXPECT_EQ(verify_lmdb(objects, 1, PictureDepth::kDecoded).num_bad, 12);
}

TEST_F(Lmdb, FollowsATreeOfManyLevels) {
  LmdbWriter::Pairs pairs;
  for (int i = 0; i < 3000; ++i) pairs.emplace_back(fmt::format("{:0>400}", i * 7919 % 3000), fmt::format("v{}", i));
  pairs.emplace_back("large", std::string(300'000, 'x'));
  fs::create_directories(out());
  LmdbWriter(out(), 1 << 20).commit(pairs);
  const LmdbReader reader(out());
  EXPECT_EQ(reader.num_entries(), 3001u);
  for (const auto& [key, value] : pairs) ASSERT_EQ(reader.get(key), value);
  for (const char* key : {"", "0", "zzz", "larg", "largf"}) EXPECT_EQ(reader.get(key), std::nullopt) << key;
  std::string before;
  reader.for_each_key([&](std::string_view key) {
    EXPECT_LT(before, key);
    before = key;
  });
}

TEST_F(Lmdb, ReadingAheadGivesTheSameValues) {
  LmdbWriter::Pairs pairs;
  core::CounterRng rng(3);
  for (int i = 0; i < 300; ++i) {
    const size_t bytes = i == 7 ? 3'000'000 : rng.below(30'000);  // in pages of keys, of their own, above 1 MiB
    pairs.emplace_back(fmt::to_string(i), std::string(bytes, static_cast<char>('a' + i % 26)));
  }
  fs::create_directories(out());
  LmdbWriter(out(), 1 << 20).commit(pairs);
  const LmdbReader reader(out());
  LmdbReader::Ahead ahead;
  for (const auto& [key, value] : pairs) ASSERT_EQ(reader.get_ahead(key, ahead), value) << key;
  for (size_t i = pairs.size(); i-- > 0;) ASSERT_EQ(reader.get_ahead(pairs[i].first, ahead), pairs[i].second) << i;
  EXPECT_EQ(reader.get_ahead("300", ahead), std::nullopt);
}

TEST_F(Lmdb, AllOfManyChunksAreVerifiedByAnyNumberOfThreads) {
  constexpr int kNumPictures = 9 * 256 + 3;  // stretches of two chunks and more where one thread has four of them
  LmdbWriter::Pairs pairs;
  for (int i = 0; i < kNumPictures; ++i)
    pairs.emplace_back(fmt::to_string(i),
                       i % 5 == 0 ? std::string(4500, 'x') : "\xff\xd8\xff" + std::string(4500, 'p'));
  fs::create_directories(out());
  LmdbWriter(out(), 1 << 20).commit(pairs);
  for (const int threads : {1, 2, 3})
    EXPECT_EQ(verify_lmdb(out(), threads, PictureDepth::kFirstBytes).num_bad, (kNumPictures + 4) / 5) << threads;
}

TEST_F(Lmdb, AFileThatShrinksWhileItIsReadIsNoticed) {
  fs::create_directories(out());
  LmdbWriter(out(), 1 << 20).commit({{"0", std::string(9000, 'x')}, {"1", std::string(9000, 'y')}, {"2", "small"}});
  const LmdbReader reader(out());
  EXPECT_EQ(reader.get("2"), "small");
  fs::resize_file(out() + "/data.mdb", reader.num_bytes() - 4096);
  LmdbReader::Ahead ahead;
  for (const char* key : {"0", "1", "2"}) {
    EXPECT_NE(refused<DataError>([&] { reader.get(key); }).find("cannot be read"), std::string::npos) << key;
    if (*key == '2') continue;  // ahead of the file, what was read stays good
    EXPECT_NE(refused<DataError>([&] { reader.get_ahead(key, ahead); }).find("cannot be read"), std::string::npos)
        << key;
  }
}

TEST_F(Lmdb, ACommitWhileItIsReadIsNoticed) {
  to_lmdb({.source = labelled_config(write_class_folders(folder_.path() / "folders")), .output = out()});
  const auto source = open_train_source(labelled_config(out()));
  RawSample first = *source->next();
  load_deferred(first);
  LmdbWriter(out(), 1 << 20).commit({{"new", "value"}});
  RawSample second = *source->next();
  const std::string message = refused<DataError>([&] { load_deferred(second); });
  EXPECT_NE(message.find("was written to while it was read"), std::string::npos) << message;
}

TEST_F(Lmdb, WhoHasItLockedAndHasNotCommittedDoesNotDisturb) {
  to_lmdb({.source = labelled_config(write_class_folders(folder_.path() / "folders")), .output = out()});
  MDB_env* other = nullptr;
  ASSERT_EQ(mdb_env_create(&other), 0);
  ASSERT_EQ(mdb_env_set_mapsize(other, 1 << 24), 0);
  ASSERT_EQ(mdb_env_open(other, out().c_str(), 0, 0644), 0);
  MDB_txn* writing = nullptr;
  ASSERT_EQ(mdb_txn_begin(other, nullptr, 0, &writing), 0);  // holds the lock of writers
  MDB_dbi table = 0;
  ASSERT_EQ(mdb_dbi_open(writing, nullptr, 0, &table), 0);
  MDB_val key{.mv_size = 1, .mv_data = const_cast<char*>("0")}, value{.mv_size = 1, .mv_data = const_cast<char*>("x")};
  ASSERT_EQ(mdb_put(writing, table, &key, &value, 0), 0);
  EXPECT_EQ(all_pictures(labelled_config(out())), expected_pictures());
  mdb_txn_abort(writing);
  mdb_env_close(other);
}

TEST_F(Lmdb, StatedKeysMustBeThere) {
  fs::create_directories(out());
  const std::string picture = pickle_pair(small_jpeg(1), 2);
  LmdbWriter(out(), 1 << 20).commit({{"0", picture}, {"1", picture}, {"__len__", pickle_integer(3)}});
  const auto config = labelled_config(out());
  EXPECT_NE(refused<DataError>([&] { all_pictures(config); }).find("2 keys, but its __len__ is 3"), std::string::npos);
  LmdbWriter(out(), 1 << 20).commit({{"__keys__", pickle_byte_strings({"0", "1", "2"})}});
  EXPECT_NE(refused<DataError>([&] { all_pictures(config); }).find("key '2': there is no such key"), std::string::npos);
  LmdbWriter(out(), 1 << 20).commit({{"2", "text"}});
  EXPECT_NE(refused<DataError>([&] { all_pictures(config); }).find("4 bytes that begin 74 65 78 74"),
            std::string::npos);
  LmdbWriter(out(), 1 << 20).commit({{"2", picture}});
  EXPECT_EQ(all_pictures(config).size(), 3u);
}

TEST_F(Lmdb, OneTextNamedManyTimesIsNoListOfKeys) {
  fs::create_directories(out());
  // A text of 1,000 bytes, remembered and named 20,000 times: 20 MB out of 41 kB, and so on to gigabytes.
  std::string keys("\x80\x03](B\xe8\x03\x00\x00", 9);
  keys += std::string(1000, 'k') + std::string("q\x00", 2);
  for (int i = 0; i < 20'000; ++i) keys += std::string("h\x00", 2);
  LmdbWriter(out(), 1 << 20).commit({{"0", pickle_pair(small_jpeg(1), 2)}, {"__keys__", keys + "e."}});
  const std::string message = refused<DataError>([&] { all_pictures(labelled_config(out())); });
  EXPECT_NE(message.find("together longer than its 41013 bytes"), std::string::npos) << message;
}

TEST_F(Lmdb, ClaimsNoMorePicturesThanItHasKeys) {
  fs::create_directories(out());
  const LmdbProgress claim{.num_done = int64_t{1} << 60, .is_complete = true, .source = "s", .class_names = {}};
  LmdbWriter(out(), 1 << 20)
      .commit({{"0", pickle_pair(small_jpeg(1), 2)}, {LmdbKeys::kLockstep, claim.to_json().dump()}});
  const std::string message = refused<DataError>([&] { all_pictures(labelled_config(out())); });
  EXPECT_NE(message.find("samples=1152921504606846976, expected 0 to 2, the keys of the file"), std::string::npos)
      << message;
}

TEST_F(Lmdb, FilesThatAreNoWholeLmdbAreRefused) {
  to_lmdb({.source = many_pictures(), .output = out()});
  const std::string whole = core::read_file(out() + "/data.mdb");
  const auto message_of = [&](const std::string& bytes) {
    const std::string file = write_file(out("x.mdb"), bytes);
    return refused<DataError>([&] { LmdbReader{file}; });
  };
  EXPECT_NE(message_of("").find("no LMDB"), std::string::npos);
  EXPECT_NE(message_of(std::string(10'000, 'x')).find("no LMDB"), std::string::npos);
  EXPECT_NE(message_of(whole.substr(0, 4096)).find("second meta page"), std::string::npos);
  EXPECT_NE(message_of(whole.substr(0, whole.size() - 4096)).find("cut short"), std::string::npos);
  std::string other = whole;
  other[20] = 2;
  EXPECT_NE(message_of(other).find("data version is 2, expected 1"), std::string::npos);
  EXPECT_THROW(LmdbReader{out("missing.lmdb")}, DataError);
}

TEST_F(Lmdb, FlippedBitsAreFoundAndNeverCrash) {
  to_lmdb({.source = many_pictures(), .output = out()});
  const std::string whole = core::read_file(out() + "/data.mdb");
  core::CounterRng rng(5);
  int num_found = 0;
  for (int i = 0; i < 60; ++i) {
    std::string damaged = whole;
    const size_t at = rng.below(damaged.size());
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << rng.below(8)));
    const std::string file = write_file(out("x.mdb"), damaged);
    try {
      num_found += verify_lmdb(file, 1, PictureDepth::kFirstBytes).num_bad > 0;
    } catch (const DataError&) {
      ++num_found;
    }
  }
  EXPECT_GT(num_found, 20);  // the others hit free pages and space between the values
}

/// Keys of the page at `at`, where it is a leaf of pictures alone; else none. Layout of LMDB 0.9: flags of the page at
/// 10, end of its list of nodes at 12, the list from 16 on; of a node the length of its key at 6, the key at 8.
std::vector<std::string> picture_keys_of_page(const std::string& file, size_t at) {
  constexpr size_t kLeaf = 2;
  const auto number = [&](size_t offset) {
    return static_cast<uint8_t>(file[at + offset]) + size_t{256} * static_cast<uint8_t>(file[at + offset + 1]);
  };
  std::vector<std::string> keys;
  if (number(10) != kLeaf) return keys;
  for (size_t node = 16; node < number(12); node += 2)
    if (const size_t begin = number(node); begin >= 16 && at + begin + 8 < file.size())
      keys.push_back(file.substr(at + begin + 8, number(begin + 6)));
  const auto is_number = [](const std::string& key) {
    return !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
  };
  return std::all_of(keys.begin(), keys.end(), is_number) ? keys : std::vector<std::string>();
}

TEST_F(Lmdb, TheKeysBehindADamagedPageAreNamed) {
  constexpr size_t kPageBytes = 4096, kNumMetaPages = 2;
  to_lmdb({.source = many_pictures(), .output = out()});
  const std::string whole = core::read_file(out() + "/data.mdb");
  size_t num_pages = 0, num_keys = 0;
  for (size_t at = kNumMetaPages * kPageBytes; at + kPageBytes <= whole.size() && num_pages < 3; at += kPageBytes) {
    std::vector<std::string> expected = picture_keys_of_page(whole, at);
    if (expected.empty() || expected.size() > kMaxBadPictures) continue;
    std::string damaged = whole;
    damaged.replace(at, kPageBytes, kPageBytes, '\xff');
    const LmdbCheck check = verify_lmdb(write_file(out("x.mdb"), damaged), 2, PictureDepth::kFirstBytes);
    if (check.num_bad == 0) continue;  // a page of an earlier commit, which is free
    ASSERT_EQ(check.num_bad, std::ssize(expected)) << check.bad.front();
    for (const std::string& key : expected)
      EXPECT_EQ(std::count_if(check.bad.begin(), check.bad.end(),
                              [&](const std::string& bad) {
                                return bad.find("x.mdb' key '" + key + "': ") != std::string::npos &&
                                       bad.find(fmt::format("page {}", at / kPageBytes)) != std::string::npos;
                              }),
                1)
          << key << " of " << check.bad.front();
    ++num_pages;
    num_keys += expected.size();
  }
  ASSERT_EQ(num_pages, 3u);
  EXPECT_GT(num_keys, num_pages) << "pages of several keys";
}

TEST(PlainPickle, WritesWhatItReads) {
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{70000}, int64_t{1} << 40, -(int64_t{1} << 40)})
    EXPECT_EQ(parse_plain_pickle(pickle_integer(value), "x").integer, value);
  const std::string whole = pickle_pair("abc", 7), list = pickle_byte_strings({"a", "", "c"});
  const PlainPickle pair = parse_plain_pickle(whole, "x");
  ASSERT_EQ(pair.items.size(), 2u);
  EXPECT_EQ(pair.items[0].bytes, "abc");
  EXPECT_EQ(pair.items[1].integer, 7);
  EXPECT_EQ(parse_plain_pickle(list, "x").items.size(), 3u);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(parse_plain_pickle(whole.substr(0, size), "x"), DataError) << size;
  for (const char* text : {"\x80\x03"
                           "cos\nsystem\n.",
                           "\x80\x03)\x81.", "\x80\x03.", "\x80\x03K\x01K\x02.", "\x80\x03(e.", "\x80\x03h\x01."})
    EXPECT_THROW(parse_plain_pickle(text, "x"), DataError) << text;
}

TEST(PlainPickle, ManyValuesOfOneByteFillNoMemory) {
  const auto lists = [](size_t count) { return "\x80\x03](" + std::string(count, ')') + "e."; };
  EXPECT_EQ(parse_plain_pickle(lists(900'000), "x").items.size(), 900'000u);
  EXPECT_THROW(parse_plain_pickle(lists(4'000'000), "x"), DataError);
}

TEST(LmdbValue, RefusesOtherForms) {
  for (const std::string& value :
       {std::string(), std::string("\x92"), std::string("\x92\xc4\x05xx", 5), std::string("\x92\xa1x\xa1y", 5),
        std::string("\x22\x03xyz", 5), std::string("\x08\x03\x38\x01\x28\x05", 6),
        std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), pickle_integer(3), std::string("text")})
    EXPECT_THROW(parse_lmdb_value(value, "x"), DataError);
  const std::string messagepack("\x92\xa3xyz\xcd\x01\x02", 8);
  const LmdbValue pair = parse_lmdb_value(messagepack, "x");
  EXPECT_EQ(pair.picture, "xyz");
  EXPECT_EQ(pair.label, 258);
}

}  // namespace
}  // namespace lockstep::data
