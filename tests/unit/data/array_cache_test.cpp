#include "data/tokens/array_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "core/files.h"
#include "data/tokens/gpt_dataset.h"
#include "gpt_golden.h"
#include "support/error_text.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using tests::golden_gpt;

std::vector<fs::path> array_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".arrays") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Numbers 0, 1, ... as arrays of 4 and of 2 bytes.
Arrays counting(int count) {
  struct Memory {
    std::vector<int32_t> wide;
    std::vector<uint16_t> narrow;
  };
  auto memory = std::make_shared<Memory>();
  for (int i = 0; i < count; ++i) memory->wide.push_back(i);
  memory->narrow.assign(memory->wide.begin(), memory->wide.end());
  return {.facts = {{"count", count}},
          .parts = {std::as_bytes(std::span(memory->wide)), std::as_bytes(std::span(memory->narrow))},
          .memory = memory};
}

bool is_counting(const Arrays& arrays, int count) {
  const auto wide = arrays.part_as<int32_t>(0);
  const auto narrow = arrays.part_as<uint16_t>(1);
  bool is_right = std::ssize(wide) == count && std::ssize(narrow) == count && arrays.facts.at("count") == count;
  for (int i = 0; is_right && i < count; ++i)
    is_right = wide[static_cast<size_t>(i)] == i && narrow[static_cast<size_t>(i)] == i;
  return is_right;
}

TEST(ArrayCache, MakesOnceAndFindsAgain) {
  const core::TempDir folder;
  int num_made = 0;
  const auto make = [&] {
    ++num_made;
    return counting(3000);
  };
  for (int i = 0; i < 3; ++i) {
    ArrayCache cache(folder.path() / "a" / "b", true);
    EXPECT_TRUE(is_counting(cache.get("numbers", "key", make), 3000));
  }
  EXPECT_EQ(num_made, 1);
  ArrayCache cache(folder.path() / "a" / "b", true);
  cache.get("numbers", "another key", make);
  cache.get("others", "key", make);
  EXPECT_EQ(num_made, 3);
  EXPECT_EQ(array_files(cache.folder()).size(), 3u);
  EXPECT_TRUE(is_counting(cache.get("numbers", "nothing", [] { return counting(0); }), 0));
}

TEST(ArrayCache, ProcessesThatComeTogetherMakeOnce) {
  const core::TempDir folder;
  const fs::path log = folder.path() / "made";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    ArrayCache cache(folder.path() / "cache", true);
    const Arrays arrays = cache.get("numbers", "key", [&] {
      std::ofstream(log, std::ios::app) << 'x' << std::flush;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others are there by then
      return counting(60'000);
    });
    ::_exit(is_counting(arrays, 60'000) ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(core::read_file(log), "x");
}

void overwrite(const fs::path& path, size_t at, std::string_view bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file << bytes;
}

TEST(ArrayCache, DamagedFilesAreMadeAgain) {
  const std::vector<std::function<void(const fs::path&)>> damages = {
      [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) / 2); },
      [](const fs::path& path) { fs::resize_file(path, 0); },
      [](const fs::path& path) { fs::resize_file(path, 100); },
      [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) + 1); },
      [](const fs::path& path) { overwrite(path, 30, "9"); },
      [](const fs::path& path) { core::write_file_atomic(path, std::string(20'000, '\n')); }};
  for (size_t i = 0; i < damages.size(); ++i) {
    const core::TempDir folder;
    ArrayCache cache(folder.path(), true);
    cache.get("numbers", "key", [] { return counting(3000); });
    const fs::path path = array_files(folder.path()).at(0);
    damages[i](path);
    EXPECT_THROW(read_array_file(path, "numbers", "key"), DataError) << i;
    int num_made = 0;
    for (int again = 0; again < 2; ++again)
      EXPECT_TRUE(is_counting(cache.get("numbers", "key", [&] { return ++num_made, counting(3000); }), 3000)) << i;
    EXPECT_EQ(num_made, 1) << i;
  }
}

TEST(ArrayCache, AFileOfAnotherKeyIsRefused) {
  const core::TempDir folder;
  const fs::path path = folder.path() / "x.arrays";
  write_array_file(path, "numbers", "key", counting(10));
  EXPECT_TRUE(is_counting(read_array_file(path, "numbers", "key"), 10));
  EXPECT_THROW(read_array_file(path, "numbers", "other"), DataError);
  EXPECT_THROW(read_array_file(path, "letters", "key"), DataError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1)
      << "a temporary file is left";
}

TEST(ArrayCache, WithoutAFolderToWriteArraysAreMadeInMemory) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "file", "");
  const fs::path below_file = folder.path() / "file" / "cache";  // cannot be made, by root neither
  const ArrayCache unused(folder.path() / "unused", true);
  EXPECT_FALSE(fs::exists(folder.path() / "unused")) << "a folder for nothing";
  ArrayCache optional(below_file, false);
  EXPECT_FALSE(optional.is_writable());
  EXPECT_TRUE(is_counting(optional.get("numbers", "key", [] { return counting(10); }), 10));
  ArrayCache required(below_file, true);
  EXPECT_THROW(required.get("numbers", "key", [] { return counting(10); }), EnvironmentError);
}

TEST(ArrayCache, WhatIsThereIsFoundInAFolderThatCannotBeWritten) {
  const core::TempDir folder;
  ArrayCache(folder.path(), true).get("numbers", "key", [] { return counting(10); });
  fs::remove(folder.path() / "lock");
  fs::create_directory(folder.path() / "lock");  // takes the place of a missing right to write, which root has
  ArrayCache cache(folder.path(), true);
  EXPECT_FALSE(cache.is_writable());
  EXPECT_TRUE(is_counting(cache.get("numbers", "key", [] { return counting(11); }), 10));
  EXPECT_THROW(cache.get("numbers", "another", [] { return counting(11); }), EnvironmentError);
}

GptDataConfig single_corpus() {
  return {.data_path = {golden_gpt("one")},
          .split = "8,2,0",
          .sequence_length = 8,
          .num_samples = {60, 7, 0},
          .vocab_size = 200};
}

GptDataConfig blended_corpora() {
  GptDataConfig config = single_corpus();
  config.data_path = {"3", golden_gpt("one"), "1", golden_gpt("two")};
  return config;
}

std::vector<std::vector<int32_t>> all_samples(const GptSamples& samples, const GptDataConfig& config) {
  std::vector<std::vector<int32_t>> all;
  std::vector<int32_t> begins;
  for (int64_t k = 0; k < samples.num_samples(); ++k) {
    all.emplace_back(static_cast<size_t>(config.sequence_length) + 1);
    samples.read(k, all.back(), begins);
  }
  return all;
}

TEST(GptIndexFiles, SamplesAreTheSameAsWithout) {
  std::vector<GptDataConfig> configs = {single_corpus(), blended_corpora(), blended_corpora()};
  configs[2].data_path = {golden_gpt("one"), golden_gpt("two")};
  for (GptDataConfig& config : configs) {
    const core::TempDir folder;
    for (const Split split : {Split::kTrain, Split::kValid}) {
      config.cache = nullptr;
      const auto plain = open_gpt_samples(config, split);
      const auto want = all_samples(*plain, config);
      ASSERT_GE(want.size(), 7u);
      for (int i = 0; i < 2; ++i) {  // made, found
        config.cache = std::make_shared<ArrayCache>(folder.path(), true);
        const auto kept = open_gpt_samples(config, split);
        EXPECT_EQ(kept->hash(), plain->hash());
        EXPECT_EQ(kept->source_hash(), plain->source_hash());
        EXPECT_EQ(all_samples(*kept, config), want);
      }
    }
    const bool is_blend = config.data_path.size() > 1;
    EXPECT_GE(array_files(folder.path()).size(), is_blend ? 6u : 2u);
  }
}

TEST(ArrayCache, RemovesItsOwnOldTemporaryFilesAndNoOthers) {
  const core::TempDir folder;
  const std::string own = "index-0123456789abcdef0123456789abcdef.arrays.tmpnode-7-01234567";
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(100);
  const std::vector<std::string> others{"results.arrays.zip", "notes-x.arrays.tmp", "my.arrays.tmpnode-7"};
  for (const std::string& name : others) {
    core::write_file_atomic(folder.path() / name, "mine");
    fs::last_write_time(folder.path() / name, long_ago);
  }
  core::write_file_atomic(folder.path() / own, "left");
  fs::last_write_time(folder.path() / own, long_ago);
  ArrayCache(folder.path(), true).get("index", "a key", [] { return counting(10); });
  EXPECT_FALSE(fs::exists(folder.path() / own));
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
}

TEST(GptIndexFiles, EverythingThatChangesSamplesChangesTheFile) {
  const core::TempDir folder;
  const auto open = [&](GptDataConfig config) {
    config.cache = std::make_shared<ArrayCache>(folder.path(), true);
    const std::string kept = open_gpt_samples(config, Split::kTrain)->hash();
    config.cache = nullptr;
    EXPECT_EQ(kept, open_gpt_samples(config, Split::kTrain)->hash());
    return kept;
  };
  std::set<std::string> hashes = {open(single_corpus())};
  const auto add = [&](auto change) {
    GptDataConfig config = single_corpus();
    change(config);
    EXPECT_TRUE(hashes.insert(open(config)).second);
  };
  add([](GptDataConfig& c) { c.seed = 5; });
  add([](GptDataConfig& c) { c.sequence_length = 9; });
  add([](GptDataConfig& c) { c.num_samples[0] = 500; });
  add([](GptDataConfig& c) { c.split = "1,1,0"; });
  add([](GptDataConfig& c) { c.data_path = {golden_gpt("two")}; });
}

TEST(GptIndexFiles, DamagedNumbersAreDataErrors) {
  const core::TempDir folder;
  GptDataConfig config = single_corpus();
  config.cache = std::make_shared<ArrayCache>(folder.path(), true);
  const auto want = all_samples(*open_gpt_samples(config, Split::kTrain), config);
  fs::path path;
  for (const fs::path& file : array_files(folder.path()))
    if (file.filename().string().starts_with("samples-")) path = file;
  const uintmax_t size = fs::file_size(path);
  ASSERT_EQ(size, 4096u * 4);  // a header and three arrays: sequences, starts, order of samples
  for (const size_t at : {size_t{4096}, size_t{2 * 4096}, size_t{2 * 4096 + 4}, size_t{3 * 4096}}) {
    const std::string bytes = core::read_file(path);
    overwrite(path, at, std::string_view("\xff\xff\xff\x7f", 4));
    int num_refused = 0;
    const auto samples = open_gpt_samples(config, Split::kTrain);
    std::vector<int32_t> tokens(9), begins;
    for (int64_t k = 0; k < samples->num_samples(); ++k) {
      try {
        samples->read(k, tokens, begins);
      } catch (const DataError& error) {
        EXPECT_TRUE(lockstep::tests::holds(error.text(), "remove it")) << error.text();
        ++num_refused;
      }
    }
    EXPECT_GE(num_refused, at == 2 * 4096 ? 0 : 1) << at;  // a start behind the end is an empty sample
    core::write_file_atomic(path, bytes);
  }
  EXPECT_EQ(all_samples(*open_gpt_samples(config, Split::kTrain), config), want);
}

TEST(GptIndexFiles, FolderLiesBesideTheFirstPrefix) {
  EXPECT_EQ(default_index_folder({.data_path = {"0.5", "/d/a/x", "2", "/e/y"}}), "/d/a/cache/lockstep");
  EXPECT_EQ(default_index_folder({.data_path = {"x"}}), "cache/lockstep");
  EXPECT_EQ(default_index_folder({}), "");
  GptDataConfig config;
  config.path_of_split[1] = {"/v/x"};
  EXPECT_EQ(default_index_folder(config), "/v/cache/lockstep");
}

}  // namespace
}  // namespace lockstep::data
