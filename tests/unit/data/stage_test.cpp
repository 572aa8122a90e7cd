#include "data/stage.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "data/folder_lock.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/to_lmdb.h"
#include "labelled_pictures.h"

namespace lockstep::data {
namespace {

using namespace lockstep::tests;  // NOLINT
namespace fs = std::filesystem;

std::vector<std::pair<std::string, int64_t>> pictures_of(const SourceConfig& config) {
  std::vector<std::pair<std::string, int64_t>> pictures;
  const auto source = open_eval_source(config);
  while (auto sample = source->next()) {
    load_deferred(*sample);
    pictures.emplace_back(sample->members.at(0).bytes, sample->label);
  }
  return pictures;
}

class Stage : public ::testing::Test {
 protected:
  StageConfig config_of(const std::string& spec) {
    return {.source = labelled_config(spec), .folder = folder_.path() / "node"};
  }
  std::string shards() {
    fs::create_directories(folder_.path() / "shards");
    const std::string spec = write_labelled_shards(folder_.path() / "shards");
    build_indexes({.shards = expand_braces(spec), .index_dir = "", .on_progress = {}});
    return spec;
  }
  core::TempDir folder_;
};

TEST_F(Stage, TheCopyIsTheSameDataAndContinuesItsPositions) {
  const std::string folders = write_class_folders(folder_.path() / "folders");
  const std::string lmdb = (folder_.path() / "out.lmdb").string();
  to_lmdb({.source = labelled_config(folders), .output = lmdb});
  for (const std::string& spec : {folders, lmdb, shards()}) {
    const StageResult result = stage_data(config_of(spec));
    EXPECT_FALSE(result.was_there) << spec;
    EXPECT_EQ(result.spec, (folder_.path() / "node").string() + spec);
    EXPECT_GT(result.num_bytes, 1000u);
    const SourceConfig original = labelled_config(spec), staged = labelled_config(result.spec);
    EXPECT_EQ(pictures_of(staged), pictures_of(original)) << spec;
    EXPECT_EQ(epoch_size(staged).origin, epoch_size(original).origin) << spec;
    const auto before = open_train_source(original), after = open_train_source(staged);
    for (int i = 0; i < 9; ++i) before->next();
    after->seek(before->position());
    RawSample expected = *before->next(), seen = *after->next();
    load_deferred(expected);
    load_deferred(seen);
    EXPECT_EQ(seen.members[0].bytes, expected.members[0].bytes) << spec;
    EXPECT_TRUE(stage_data(config_of(spec)).was_there) << spec;
  }
}

TEST_F(Stage, AChangedOrBrokenCopyIsMadeAgain) {
  const std::string spec = shards();
  const StageResult first = stage_data(config_of(spec));
  const fs::path copy = (folder_.path() / "node").string() + folder_.path().string() + "/shards/001.tar";
  ASSERT_TRUE(fs::exists(copy));
  fs::resize_file(copy, 100);
  EXPECT_FALSE(stage_data(config_of(spec)).was_there);
  EXPECT_EQ(core::read_file(copy), core::read_file(folder_.path() / "shards/001.tar"));
  // Newer data: another set, whose unchanged files are kept.
  fs::last_write_time(folder_.path() / "shards/000.tar", fs::file_time_type::clock::now() + std::chrono::hours(1));
  const StageResult newer = stage_data(config_of(spec));
  EXPECT_FALSE(newer.was_there);
  EXPECT_EQ(newer.num_bytes, first.num_bytes);
}

TEST_F(Stage, WhatTheDataNoLongerHaveLeavesTheCopy) {
  const fs::path folders = write_class_folders(folder_.path() / "folders");
  const std::string copy = stage_data(config_of(folders.string())).spec;
  std::vector<fs::path> classes;
  for (const auto& entry : fs::directory_iterator(folders)) classes.push_back(entry.path());
  std::sort(classes.begin(), classes.end());
  const fs::path removed = *fs::directory_iterator(classes[0]);
  fs::remove(removed);
  fs::rename(classes[1], folders / "another");
  const StageResult again = stage_data(config_of(folders.string()));
  EXPECT_FALSE(again.was_there);
  EXPECT_FALSE(fs::exists(fs::path(copy) / classes[0].filename() / removed.filename()));
  EXPECT_FALSE(fs::exists(fs::path(copy) / classes[1].filename())) << "an empty class";
  EXPECT_EQ(pictures_of(labelled_config(copy)), pictures_of(labelled_config(folders.string())));
  EXPECT_TRUE(stage_data(config_of(folders.string())).was_there);
}

TEST_F(Stage, ACopyThatWasOverwrittenIsMadeAgain) {
  const std::string spec = shards();
  stage_data(config_of(spec));
  const fs::path source = folder_.path() / "shards/001.tar",
                 copy = (folder_.path() / "node").string() + source.string();
  std::string bytes = core::read_file(copy);
  bytes[bytes.size() / 2] ^= 1;
  write_file(copy, bytes);
  fs::last_write_time(copy, fs::file_time_type::clock::now() + std::chrono::seconds(1));
  EXPECT_FALSE(stage_data(config_of(spec)).was_there);
  EXPECT_EQ(core::read_file(copy), core::read_file(source));
}

TEST_F(Stage, OfAnLmdbAsLargeAsItsMapOnlyItsPagesAreCopied) {
  const std::string lmdb = (folder_.path() / "out.lmdb").string();
  to_lmdb({.source = labelled_config(write_class_folders(folder_.path() / "folders")), .output = lmdb});
  const uint64_t used = fs::file_size(lmdb + "/data.mdb");
  const auto pictures = pictures_of(labelled_config(lmdb));
  fs::resize_file(lmdb + "/data.mdb", uint64_t{1} << 42);  // a hole: takes no space here
  const StageResult result = stage_data(config_of(lmdb));
  EXPECT_EQ(result.num_bytes, used);
  EXPECT_EQ(pictures_of(labelled_config(result.spec)), pictures);
}

TEST_F(Stage, ParentFoldersInAPathAreFollowed) {
  const fs::path spec = shards();
  const std::string roundabout = (folder_.path() / "shards" / ".." / "shards" / spec.filename()).string();
  EXPECT_EQ(stage_data(config_of(roundabout)).spec, (folder_.path() / "node").string() + spec.string());
}

TEST_F(Stage, WhatDoesNotFitIsToldWithNumbers) {
  const fs::path root = folder_.path() / "huge";
  fs::create_directories(root / "class");
  write_file(root / "class/a.jpg", "x");
  fs::resize_file(root / "class/a.jpg", uint64_t{1} << 42);  // a hole: takes no space here
  try {
    stage_data(config_of(root.string()));
    FAIL() << "4 TiB fitted";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("staging needs 4398113619968 bytes (4"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("are free"), std::string::npos);
  }
}

TEST_F(Stage, WhatCannotBeStagedIsRefused) {
  EXPECT_THROW(stage_data(config_of("pipe:cat x.tar")), UsageError);
  EXPECT_THROW(stage_data(config_of(write_file(folder_.path() / "t.csv", "filepath\tlabel\na\t0\n"))), UsageError);
  EXPECT_THROW(stage_data(config_of((folder_.path() / "missing-{0..1}.tar").string())), DataError);
}

TEST_F(Stage, ASecondProcessWaitsAndCopiesNothing) {
  const std::string spec = shards();
  fs::create_directories(folder_.path() / "node");
  // A child inherits the locks of its parent, so it begins before there is one, and waits to be told.
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    if (read(told[0], &byte, 1) != 1) _exit(19);
    _exit(stage_data(config_of(spec)).was_there ? 17 : 18);
  }
  {
    const FolderLock lock(folder_.path() / "node", OnLocked::kRefuse);
    ASSERT_EQ(write(told[1], "x", 1), 1);
    usleep(100'000);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, WNOHANG), 0) << "it did not wait";
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 18);
  EXPECT_TRUE(stage_data(config_of(spec)).was_there);
}

TEST_F(Stage, ALinkInPlaceOfTheLockIsNotFollowed) {
  const fs::path folder = folder_.path() / "node";
  fs::create_directories(folder);
  fs::create_symlink(folder_.path() / "elsewhere", folder / "lock");
  EXPECT_THROW(FolderLock(folder, OnLocked::kRefuse), EnvironmentError);
  EXPECT_FALSE(fs::exists(folder_.path() / "elsewhere"));
}

TEST_F(Stage, RepeatsGiveLongerEpochsOfTheSameData) {
  for (const std::string& spec : {write_class_folders(folder_.path() / "folders"), shards()}) {
    SourceConfig config = labelled_config(spec);
    config.num_repeats = 3;
    EXPECT_EQ(epoch_size(config).num_known, 33) << spec;
    EXPECT_EQ(epoch_size(config).num_samples, 30) << spec;
    std::map<std::string, int> counts;
    std::set<uint64_t> ids;
    const auto source = open_train_source(config);
    for (int i = 0; i < 30; ++i) {
      RawSample sample = *source->next();
      load_deferred(sample);
      ids.insert(sample.id);
      ++counts[sample.members[0].bytes];
    }
    EXPECT_EQ(ids.size(), 30u) << "each repeat has random numbers of its own";
    EXPECT_GE(counts.size(), 10u);
    for (const auto& [bytes, count] : counts) EXPECT_LE(count, 3) << spec;
    config.num_repeats = 2;
    EXPECT_THROW(open_train_source(config)->seek(source->position()), DataError) << spec;
    config.num_repeats = 0;
    EXPECT_THROW(open_train_source(config), UsageError);
  }
}

}  // namespace
}  // namespace lockstep::data
