#include "train/parts_index.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "support/error_text.h"
#include "support/ranks/run_ranks.h"
#include "train/shared_hashing.h"

namespace lockstep::train {
namespace {
namespace fs = std::filesystem;

using Names = std::vector<std::string>;

/// Rows [begin, begin + rows) of a table of 8 x 3, of their memory [offset, offset + count).
TensorPart rows_of_table(int64_t begin, int64_t rows, int64_t offset, int64_t count) {
  return {.sizes = {rows, 3},
          .strides = {3, 1},
          .offset = offset,
          .count = count,
          .place = {.whole = {8, 3}, .dim = 0, .begin = begin}};
}

TensorPart number() { return {.sizes = {}, .strides = {}, .count = 1, .place = {.whole = {}}}; }

/// Two tensor ranks with two data ranks each: a half of the table, of which each data rank has a half; and a number
/// that lies in all files.
PartsIndex four_files() {
  PartsIndex index;
  index.add("a", {{"table", rows_of_table(0, 4, 0, 6)}, {"steps", number()}});
  index.add("b", {{"table", rows_of_table(0, 4, 6, 6)}, {"steps", number()}});
  index.add("c", {{"table", rows_of_table(4, 4, 0, 6)}, {"steps", number()}});
  index.add("d", {{"table", rows_of_table(4, 4, 6, 6)}, {"steps", number()}});
  return index;
}

const Names kAll{"a", "b", "c", "d"};

TEST(PartsIndex, OpensWhatHoldsSomethingOfThePart) {
  const PartsIndex index = four_files();
  const auto with = [&](const TensorPart& part) { return index.files_with({{"table", part}}, kAll); };
  EXPECT_EQ(with(rows_of_table(0, 4, 0, 6)), Names{"a"});
  EXPECT_EQ(with(rows_of_table(4, 4, 5, 2)), (Names{"c", "d"}));  // a range across two data ranks
  EXPECT_EQ(with(rows_of_table(0, 8, 0, 24)), kAll);
  EXPECT_EQ(with(rows_of_table(0, 2, 0, 6)), (Names{"a", "b"}));  // another cut: all that has some of the rows
  EXPECT_EQ(with(rows_of_table(6, 2, 3, 3)), (Names{"c", "d"}));
  EXPECT_EQ(with(rows_of_table(2, 4, 0, 12)), kAll);
  TensorPart columns = rows_of_table(0, 8, 0, 8);  // cut along the other dimension
  columns.sizes = {8, 1};
  columns.place.dim = 1;
  EXPECT_EQ(with(columns), kAll);
}

/// Vocabulary tables of other layouts have more rows of padding.
TEST(PartsIndex, RowsOfPaddingAloneLieInNoFileButTheTableIsThere) {
  TensorPart padding = rows_of_table(8, 4, 0, 12);
  padding.place.whole = {12, 3};
  padding.place.num_rows = 7;
  EXPECT_EQ(four_files().files_with({{"table", padding}}, kAll), (Names{"c", "d"}));
}

TEST(PartsIndex, ANumberIsTakenFromAFileThatIsOpenedAnyhow) {
  const PartsIndex index = four_files();
  EXPECT_EQ(index.files_with({{"table", rows_of_table(4, 4, 6, 6)}, {"steps", number()}}, kAll), Names{"d"});
  EXPECT_EQ(index.files_with({{"steps", number()}}, kAll).size(), 1u);
  EXPECT_EQ(index.files_with({{"unheard of", number()}}, kAll), Names{});
}

TEST(PartsIndex, TellsWhichShareOfAFileIsWanted) {
  const PartsIndex index = four_files();
  using Shares = std::map<std::string, double>;
  const auto of = [&](const TensorPart& part) { return index.shares_of({{"table", part}}, kAll); };
  EXPECT_EQ(of(rows_of_table(0, 4, 0, 6)), (Shares{{"a", 6.0 / 7}})) << "the number is not";
  EXPECT_EQ(of(rows_of_table(4, 4, 5, 2)), (Shares{{"c", 1.0 / 7}, {"d", 1.0 / 7}}));
  EXPECT_EQ(of(rows_of_table(0, 2, 0, 6)), (Shares{{"a", 6.0 / 7}, {"b", 6.0 / 7}})) << "another cut: read as a whole";
  EXPECT_EQ(index.shares_of({{"table", rows_of_table(0, 4, 0, 6)}, {"steps", number()}}, kAll), (Shares{{"a", 1.0}}));
  EXPECT_EQ(index.shares_of({{"steps", number()}}, {"a", "new"}), (Shares{{"a", 1.0 / 7}})) << "\"new\" is not known";
}

TEST(PartsIndex, AFileThatIsNotKnownIsOpened) {
  EXPECT_EQ(four_files().files_with({{"steps", number()}}, {"a", "new"}), (Names{"a", "new"}));
  EXPECT_EQ(PartsIndex().files_with({{"steps", number()}}, kAll), kAll);
}

TEST(PartsIndex, IsKeptInTheManifest) {
  core::Json extra = core::Json::object();
  four_files().add_to_manifest(extra);
  EXPECT_EQ(extra.at("parts").at("cuts").size(), 3u) << "cuts that many files share are kept once";
  const PartsIndex index = PartsIndex::of_manifest(core::parse_json(extra.dump(), "a manifest"));
  EXPECT_EQ(index.files_with({{"table", rows_of_table(4, 4, 0, 6)}}, kAll), Names{"c"});
  EXPECT_EQ(index.names_in({"a"}), (Names{"steps", "table"}));
  EXPECT_EQ(PartsIndex::of_manifest(core::Json::object()).names_in(kAll), Names{});
  for (const char* key : {"names", "cuts", "files"}) {
    core::Json cut = extra;
    cut["parts"].erase(key);
    EXPECT_THROW(PartsIndex::of_manifest(cut), CheckpointError) << key;
  }
  core::Json beyond = extra;
  beyond["parts"]["files"]["a"][0][0] = 7;
  EXPECT_THROW(PartsIndex::of_manifest(beyond), CheckpointError);
  for (const core::Json& value : {core::Json(0.5), core::Json("0"), core::Json(UINT64_MAX), core::Json(nullptr)}) {
    for (const size_t place : {0, 1, 2, 3}) {
      beyond = extra;
      beyond["parts"]["files"]["a"][0][place] = value;
      EXPECT_THROW(PartsIndex::of_manifest(beyond), CheckpointError) << place << " " << value;
    }
    for (const char* key : {"sizes", "strides", "offset", "whole", "dim", "begin"}) {
      beyond = extra;
      for (auto& cut : beyond["parts"]["cuts"]) cut[key] = value;
      EXPECT_THROW(PartsIndex::of_manifest(beyond), CheckpointError) << key << " " << value;
    }
  }
  for (const auto& [place, value] : {std::pair(2, -1), {2, 13}, {3, -1}, {3, 13}}) {  // offset and count
    beyond = extra;
    for (auto& [file, ranges] : beyond["parts"]["files"].items())
      for (auto& range : ranges)
        if (range[3] == 6) range[place] = value;
    EXPECT_THROW(PartsIndex::of_manifest(beyond), CheckpointError) << place << " " << value;
  }
  beyond = extra;
  for (auto& cut : beyond["parts"]["cuts"])
    if (!cut["sizes"].empty()) cut["begin"] = INT64_MAX;
  EXPECT_THROW(PartsIndex::of_manifest(beyond), CheckpointError);
  beyond = extra;
  beyond["parts"]["cuts"][0]["dim"] = 2;
  beyond["parts"]["cuts"][1]["dim"] = 2;
  EXPECT_THROW(PartsIndex::of_manifest(beyond), CheckpointError);
}

TEST(PartsIndex, DescriptionsOfFilesComeBack) {
  const FileParts parts{{"table", rows_of_table(4, 4, 6, 6)}, {"steps", number()}};
  const FileParts again = parts_from_json(describe_parts(parts));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(has_same_cut(again.at("table"), parts.at("table")));
  EXPECT_EQ(again.at("table").offset, 6);
  EXPECT_EQ(again.at("table").count, 6);
}

/// Every file is hashed by one rank, by the one that wrote it where as many are there.
TEST(SharedHashing, EachFileIsOneRanks) {
  std::vector<checkpoint::CheckpointFile> files{{.name = "model.safetensors"}};
  for (int rank = 0; rank < 5; ++rank)
    files.push_back({.name = fmt::format("optimizer-{:05}-of-00005.safetensors", rank)});
  for (const int num_ranks : {1, 2, 3, 5, 6, 7, 20}) {
    std::map<std::string, int> times;
    for (int rank = 0; rank < num_ranks; ++rank)
      for (const auto& file : hashing_share(files, rank, num_ranks)) {
        ++times[file.name];
        if (num_ranks == 5 && file.name != "model.safetensors") {
          EXPECT_EQ(file.name, fmt::format("optimizer-{:05}-of-00005.safetensors", rank));
        }
      }
    EXPECT_EQ(times.size(), files.size()) << num_ranks;
    for (const auto& [name, count] : times) EXPECT_EQ(count, 1) << name << " with " << num_ranks;
  }
}

/// A file is hashed by one of the ranks that keep it, none of which holds much more than the others.
TEST(SharedHashing, RanksHashWhatTheyKeep) {
  std::vector<checkpoint::CheckpointFile> files;
  for (const char* name : {"a", "b", "c", "d", "e"}) files.push_back({.name = name, .bytes = 10});
  files[0].bytes = 15;
  const std::vector<std::set<std::string>> kept{{"e"}, {}, {"a", "b", "c"}, {"a", "b", "c"}};
  const auto names_of = [&](int rank) {
    Names names;
    for (const auto& file : hashing_share(files, rank, 4, kept)) names.push_back(file.name);
    return names;
  };
  EXPECT_EQ(names_of(2), (Names{"a", "d"})) << "nobody keeps d";
  EXPECT_EQ(names_of(3), (Names{"b", "c"}));
  EXPECT_EQ(names_of(0), Names{"e"});
  EXPECT_EQ(names_of(1), Names{});
}

void make_checkpoint(const fs::path& run, int64_t step) {
  const fs::path folder = run / "checkpoints" / checkpoint::checkpoint_name(step, 1);
  fs::create_directories(folder);
  checkpoint::CheckpointManifest manifest{.step = step, .attempt = 1, .world_size = 2};
  for (const char* name : {"optimizer-00000-of-00002.safetensors", "optimizer-00001-of-00002.safetensors"}) {
    core::write_file_atomic(folder / name, fmt::format("{} of step {}", name, step));
    manifest.files.push_back(checkpoint::describe_file(folder, name));
  }
  checkpoint::write_manifest(folder, manifest);
}

/// What was hashed is held, of the checkpoint that is taken alone.
TEST(SharedHashing, KeepsTheFilesOfTheCheckpointThatIsTaken) {
  const core::TempDir dir;
  for (const int64_t step : {10, 20}) make_checkpoint(dir.path(), step);
  const auto name_of = [](int rank) { return fmt::format("optimizer-{:05}-of-00002.safetensors", rank); };
  const auto path_of = [&](int64_t step, int rank) {
    return dir.path() / "checkpoints" / checkpoint::checkpoint_name(step, 1) / name_of(rank);
  };
  fs::resize_file(path_of(20, 1), 1);
  for (const bool is_shared : {false, true}) {
    std::vector<HeldFiles> held(2);
    tests::run_ranks(2, [&](comm::Comm& world) {
      HeldFiles& own = held[static_cast<size_t>(world.rank())];
      const KeptFiles kept{.choose = [&](const auto&) { return std::set<std::string>{name_of(1 - world.rank())}; },
                           .held = own};
      decide_on_checkpoints(
          world, is_shared, {},
          [&](const checkpoint::VerifyFunction& verify) {
            return checkpoint::choose_latest(dir.path(), verify).chosen->folder.string();
          },
          &kept);
    });
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(fmt::format("shared {}, rank {}", is_shared, rank));
      const HeldFiles& own = held[static_cast<size_t>(rank)];
      for (const int file : {0, 1}) {
        const bool is_held = is_shared ? file == 1 - rank : rank == 0;
        EXPECT_EQ(own.find(path_of(20, file)), nullptr);
        ASSERT_EQ(own.find(path_of(10, file)) != nullptr, is_held) << file;
        if (is_held) {
          EXPECT_EQ(own.find(path_of(10, file))->xxh3, core::hash_file(path_of(10, file)).xxh3);
        }
      }
      EXPECT_EQ(own.counts().num_files, is_shared ? 1 : rank == 0 ? 2 : 0);
    }
  }
}

/// What two ranks choose, each of which sees folders of its own: the checkpoint, or the message.
std::vector<std::string> chosen_by_ranks(const std::vector<fs::path>& runs) {
  std::vector<std::string> chosen(2);
  tests::run_ranks(2, [&](comm::Comm& world) {
    const auto rank = static_cast<size_t>(world.rank());
    if (::unshare(CLONE_FS) != 0) core::throw_errno("cannot have a working folder of the thread's own in", runs[rank]);
    const fs::path before = fs::current_path();
    fs::current_path(runs[rank]);
    std::string folder;
    const std::string problem = tests::message_of<CheckpointError>([&] {
      folder = decide_on_checkpoints(world, /*is_shared=*/true, {}, [](const checkpoint::VerifyFunction& verify) {
        return checkpoint::choose_latest(".", verify).chosen->folder.filename().string();
      });
    });
    chosen[rank] = folder.empty() ? problem : folder;
    fs::current_path(before);
  });
  return chosen;
}

TEST(SharedHashing, AFileThatOneRankDoesNotSeeIsNoDamage) {
  const core::TempDir here, there;
  for (const int64_t step : {10, 20}) make_checkpoint(here.path(), step);
  fs::copy(here.path(), there.path(), fs::copy_options::recursive);
  for (const std::string& text : chosen_by_ranks({here.path(), there.path()})) EXPECT_EQ(text, "step-00000020.a1");
  const fs::path part = "checkpoints/step-00000020.a1/optimizer-00001-of-00002.safetensors";
  fs::remove(there.path() / part);
  for (const std::string& text : chosen_by_ranks({here.path(), there.path()}))
    EXPECT_TRUE(tests::holds(text, "rank 1 does not see in './checkpoints/step-00000020.a1' what rank 0 sees")) << text;
  fs::remove(here.path() / part);
  for (const std::string& text : chosen_by_ranks({here.path(), there.path()}))
    EXPECT_EQ(text, "step-00000010.a1") << "nobody has it";
}

}  // namespace
}  // namespace lockstep::train
