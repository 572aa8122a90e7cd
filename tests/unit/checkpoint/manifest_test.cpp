#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "checkpoint/ranking.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/rng.h"
#include "support/error_text.h"

namespace lockstep::checkpoint {
namespace {

using core::Json;
namespace fs = std::filesystem;

/// A checkpoint of two small files in <run>/checkpoints.
fs::path make_checkpoint(const fs::path& run, int64_t step, int attempt) {
  const fs::path folder = run / "checkpoints" / checkpoint_name(step, attempt);
  fs::create_directories(folder);
  CheckpointManifest manifest{.step = step,
                              .attempt = attempt,
                              .world_size = 2,
                              .epoch = 1,
                              .samples_seen = step * 64,
                              .created_s = 1.7e9 + 0.1,
                              .code_version = "deadbeef",
                              .data_position = Json{{"epoch", 1}, {"lanes", {1, 2}}},
                              .extra = Json{{"scaler", 65536.0}}};
  for (const char* name : {"rank-0000.safetensors", "rank-0001.safetensors"}) {
    core::write_file_atomic(folder / name, fmt::format("{} of step {} attempt {}", name, step, attempt));
    manifest.files.push_back(describe_file(folder, name));
  }
  write_manifest(folder, manifest);
  return folder;
}

void overwrite(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

std::vector<std::string> usable_names(const fs::path& run) {
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    if (entry.problem.empty()) names.push_back(entry.folder.filename().string());
  }
  return names;
}

TEST(CheckpointName, RoundTripAndRefusals) {
  EXPECT_EQ(checkpoint_name(12000, 3), "step-00012000.a3");
  EXPECT_EQ(parse_checkpoint_name("step-00012000.a3"), (std::pair<int64_t, int>(12000, 3)));
  EXPECT_EQ(parse_checkpoint_name(checkpoint_name(123456789012, 1)), (std::pair<int64_t, int>(123456789012, 1)));
  for (const char* name : {"step-12000.a3", "step-00012000", "step-00012000.a", "step-00012000.a3.tmp",
                           "step--0012000.a3", "owner.3", "latest", "step-.a", "step-00000001.a-1"})
    EXPECT_FALSE(parse_checkpoint_name(name)) << name;
}

TEST(Manifest, RoundTrip) {
  const core::TempDir run;
  const fs::path folder = make_checkpoint(run.path(), 10, 1);
  const CheckpointManifest manifest = read_manifest(folder);
  EXPECT_EQ(manifest.step, 10);
  EXPECT_EQ(manifest.world_size, 2);
  EXPECT_EQ(manifest.samples_seen, 640);
  EXPECT_EQ(manifest.created_s, 1.7e9 + 0.1);
  EXPECT_EQ(manifest.data_position.dump(), R"({"epoch":1,"lanes":[1,2]})");
  EXPECT_EQ(manifest.extra["scaler"], 65536.0);
  ASSERT_EQ(manifest.files.size(), 2u);
  EXPECT_EQ(manifest.files[1].name, "rank-0001.safetensors");
  EXPECT_TRUE(verify_files(folder, manifest, VerifyDepth::kHashes).problems.empty());
}

TEST(Manifest, EveryDamageOfAFileIsFoundAndNamed) {
  const core::TempDir run;
  const fs::path folder = make_checkpoint(run.path(), 10, 1);
  const CheckpointManifest manifest = read_manifest(folder);
  const fs::path victim = folder / "rank-0001.safetensors";
  const std::string good = core::read_file(victim);
  const auto only_problem = [&](VerifyDepth depth) {
    const auto [problems, is_unreadable] = verify_files(folder, manifest, depth);
    EXPECT_FALSE(is_unreadable);
    EXPECT_EQ(problems.size(), 1u);
    EXPECT_NE(problems.at(0).find("rank-0001.safetensors"), std::string::npos) << problems.at(0);
    return problems.at(0);
  };
  std::string flipped = good;
  flipped[3] = static_cast<char>(flipped[3] ^ 1);
  overwrite(victim, flipped);
  EXPECT_NE(only_problem(VerifyDepth::kHashes).find("was altered"), std::string::npos);
  EXPECT_TRUE(verify_files(folder, manifest, VerifyDepth::kSizes).problems.empty());
  overwrite(victim, good.substr(1));
  EXPECT_NE(only_problem(VerifyDepth::kSizes).find(fmt::format("bytes={}, expected={}", good.size() - 1, good.size())),
            std::string::npos);
  fs::remove(victim);
  EXPECT_NE(only_problem(VerifyDepth::kSizes).find("cannot be read"), std::string::npos);
  overwrite(victim, good);
  EXPECT_TRUE(verify_files(folder, manifest, VerifyDepth::kHashes).problems.empty());
}

TEST(Manifest, NoMutationPassesUnnoticed) {
  const core::TempDir run;
  const fs::path folder = make_checkpoint(run.path(), 10, 1);
  const std::string clean = core::read_file(folder / kManifestName);
  const Json meaning = Json::parse(clean);
  core::CounterRng rng(core::stream_key(4, "manifest"));
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = clean;
    for (uint64_t edits = 1 + rng.below(3); edits > 0; --edits)
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    if (rng.below(4) == 0) text.resize(rng.below(text.size()));
    try {
      parse_manifest(text, "mutated");
      EXPECT_EQ(Json::parse(text), meaning) << text;  // white space only
    } catch (const CheckpointError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 4000);
}

TEST(Manifest, HostileFileNamesAreRefused) {
  const core::TempDir run;
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "..", "", "a/b", "manifest.json"}) {
    const fs::path folder = make_checkpoint(run.path(), 10, 1);
    CheckpointManifest manifest = read_manifest(folder);
    manifest.files[0].name = name;
    EXPECT_THROW(write_manifest(folder, manifest), Error) << name;
  }
}

TEST(Manifest, WhatSomebodyElseWroteAndHashedIsRefusedToo) {
  const core::TempDir run;
  const fs::path folder = make_checkpoint(run.path(), 10, 1);
  const Json clean = core::read_json_file(folder / kManifestName);
  const auto parse = [](Json json) {
    json.erase("manifest_xxh3");
    json["manifest_xxh3"] = core::xxh3_hex(json.dump(-1, ' ', true));
    return parse_manifest(json.dump(), "forged");
  };
  EXPECT_EQ(parse(clean).step, 10);
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "..", "", "a/b", "manifest.json"}) {
    Json json = clean;
    json["files"][0]["name"] = name;
    EXPECT_THROW(parse(json), CheckpointError) << name;
  }
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  for (const auto& [key, value] : {std::pair<const char*, Json>{"step", kLarge},
                                   {"epoch", kLarge},
                                   {"samples_seen", kLarge},
                                   {"created_s", 1e300},
                                   {"created_s", -1}}) {
    Json json = clean;
    json[key] = value;
    EXPECT_THROW(parse(json), CheckpointError) << key;
  }
  Json large = clean;  // each file's size fits, their sum would not
  for (Json& file : large["files"]) file["bytes"] = 400'000'000'000'000'000;
  EXPECT_EQ(parse(large).files.size(), 2u);
  for (Json& file : large["files"]) file["bytes"] = kLarge - 1;
  EXPECT_THROW(parse(large), CheckpointError);
  for (Json& file : large["files"]) file["bytes"] = 600'000'000'000'000'000;
  EXPECT_THROW(parse(large), CheckpointError);
  Json json = clean;
  json["extra"] = nullptr;
  EXPECT_TRUE(parse(json).extra.is_object()) << "whoever asks for a key finds none";
  for (const Json& extra : {Json(5), Json::array({1}), Json("text")}) {
    json["extra"] = extra;
    EXPECT_THROW(parse(json), CheckpointError) << extra;
  }
}

TEST(Checkpoints, ListedNewestFirst) {
  const core::TempDir run;
  for (const auto& [step, attempt] : std::vector<std::pair<int, int>>{{5, 1}, {100, 1}, {20, 1}, {95, 2}})
    make_checkpoint(run.path(), step, attempt);
  fs::create_directories(run.path() / "checkpoints" / "step-junk");
  EXPECT_EQ(usable_names(run.path()),
            (std::vector<std::string>{"step-00000095.a2", "step-00000100.a1", "step-00000020.a1", "step-00000005.a1"}));
  EXPECT_TRUE(list_checkpoints(run.path() / "no such run").empty());
}

TEST(Checkpoints, LatestFallsBackPastDamagedOnesAndSaysSo) {
  const core::TempDir run;
  EXPECT_FALSE(choose_latest(run.path()).chosen);
  EXPECT_TRUE(choose_latest(run.path()).skipped.empty());
  for (const int step : {1, 2, 3, 4}) make_checkpoint(run.path(), step, 1);
  const fs::path checkpoints = run.path() / "checkpoints";
  EXPECT_EQ(choose_latest(run.path()).chosen->step, 4);
  fs::remove(checkpoints / "step-00000004.a1" / kManifestName);
  overwrite(checkpoints / "step-00000003.a1" / "rank-0000.safetensors", "cut");
  std::string manifest = core::read_file(checkpoints / "step-00000002.a1" / kManifestName);
  manifest.replace(manifest.find("\"epoch\": 1"), 10, "\"epoch\": 2");
  overwrite(checkpoints / "step-00000002.a1" / kManifestName, manifest);
  const LatestChoice choice = choose_latest(run.path());
  ASSERT_TRUE(choice.chosen);
  EXPECT_EQ(choice.chosen->step, 1);
  ASSERT_EQ(choice.skipped.size(), 3u);
  EXPECT_NE(choice.skipped[0].find("step-00000004.a1: has no manifest"), std::string::npos) << choice.skipped[0];
  EXPECT_NE(choice.skipped[1].find("rank-0000.safetensors"), std::string::npos) << choice.skipped[1];
  EXPECT_NE(choice.skipped[2].find("was altered"), std::string::npos) << choice.skipped[2];
}

TEST(Checkpoints, ARenamedFolderIsNotTrusted) {
  const core::TempDir run;
  fs::rename(make_checkpoint(run.path(), 7, 1), run.path() / "checkpoints" / "step-00000009.a1");
  EXPECT_TRUE(usable_names(run.path()).empty());
}

TEST(Fence, ALateCommitOfASupersededAttemptIsVoid) {
  const core::TempDir run;
  const OwnerClaim first = claim_checkpoints(run.path(), Json{{"host", "a"}});
  EXPECT_EQ(first.attempt, 1);
  make_checkpoint(run.path(), 10, first.attempt);
  EXPECT_FALSE(is_superseded(run.path(), first.attempt));
  const OwnerClaim second = claim_checkpoints(run.path(), Json{{"host", "b"}});
  EXPECT_EQ(second.attempt, 2);
  EXPECT_NE(second.token, first.token);
  EXPECT_TRUE(is_superseded(run.path(), first.attempt));
  EXPECT_FALSE(is_superseded(run.path(), second.attempt));
  make_checkpoint(run.path(), 11, first.attempt);  // it lived on behind a partition
  EXPECT_EQ(usable_names(run.path()), (std::vector<std::string>{"step-00000010.a1"}));
  make_checkpoint(run.path(), 12, second.attempt);
  EXPECT_EQ(usable_names(run.path()), (std::vector<std::string>{"step-00000012.a2", "step-00000010.a1"}));
  const OwnerClaim third = claim_checkpoints(run.path(), Json::object());
  EXPECT_EQ(third.attempt, 3);
  EXPECT_EQ(usable_names(run.path()).size(), 2u);
}

TEST(Fence, AClaimTellsWhoMadeIt) {
  const core::TempDir run;
  EXPECT_EQ(claim_checkpoints(run.path(), Json{{"job", "7"}}).attempt, 1);
  EXPECT_EQ(who_claimed(run.path(), 1), (Json{{"job", "7"}}));
  EXPECT_FALSE(who_claimed(run.path(), 2));
  overwrite(run.path() / "checkpoints" / "owner.2", "");
  EXPECT_FALSE(who_claimed(run.path(), 2));
}

TEST(Fence, AClaimThatDiedBeforeItsListJudgesNothing) {
  const core::TempDir run;
  make_checkpoint(run.path(), 10, 1);
  overwrite(run.path() / "checkpoints" / "owner.2", "");
  EXPECT_EQ(usable_names(run.path()).size(), 1u);
  EXPECT_EQ(claim_checkpoints(run.path(), Json::object(), /*lowest=*/2).attempt, 3);
  EXPECT_EQ(claim_checkpoints(run.path(), Json::object(), /*lowest=*/9).attempt, 9);
}

TEST(Fence, AClaimCountsOnFromCheckpointsThatWereCopiedAlone) {
  const core::TempDir run;
  make_checkpoint(run.path(), 10, 3);  // from a backup, say: without owner.3
  ASSERT_EQ(claim_checkpoints(run.path(), Json::object()).attempt, 4);
  make_checkpoint(run.path(), 12, 4);
  EXPECT_EQ(usable_names(run.path()), (std::vector<std::string>{"step-00000012.a4", "step-00000010.a3"}));
  EXPECT_EQ(choose_latest(run.path()).chosen->step, 12) << "what was saved last counts";
}

/// In place of `path` something that exists and cannot be read, by root either.
void make_unreadable(const fs::path& path) {
  fs::rename(path, path.string() + ".aside");
  fs::create_symlink(path.filename(), path);
}
void make_readable(const fs::path& path) {
  fs::remove(path);
  fs::rename(path.string() + ".aside", path);
}

TEST(Unreadable, AFolderThatCannotBeListedIsNoEmptyOne) {
  const core::TempDir run;
  make_checkpoint(run.path(), 10, 1);
  make_unreadable(run.path() / "checkpoints");
  EXPECT_THROW(list_checkpoints(run.path()), CheckpointError);
  EXPECT_THROW(choose_latest(run.path()), CheckpointError);
  EXPECT_THROW(is_superseded(run.path(), 1), CheckpointError);
  make_readable(run.path() / "checkpoints");
  EXPECT_EQ(usable_names(run.path()).size(), 1u);
}

TEST(Unreadable, NobodyIsToldThatNothingWasSaved) {
  const core::TempDir run;
  const std::string none = how_to_continue(run.path(), "--resume latest");
  EXPECT_NE(none.find("no checkpoint was saved"), std::string::npos) << none;
  make_checkpoint(run.path(), 10, 1);
  make_unreadable(run.path() / "checkpoints");
  const std::string unknown = how_to_continue(run.path(), "--resume latest");
  EXPECT_EQ(unknown.find("no checkpoint was saved"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("whether there is a checkpoint is not known"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("--resume latest"), std::string::npos) << unknown;
}

TEST(Unreadable, WhetherThereIsAUsableOneIsThenNotKnown) {
  const core::TempDir run;
  EXPECT_EQ(find_usable_checkpoint(run.path()), Presence::kAbsent);
  const fs::path only = make_checkpoint(run.path(), 10, 1);
  EXPECT_EQ(find_usable_checkpoint(run.path()), Presence::kPresent);
  for (const fs::path& hidden : {run.path() / "checkpoints", only / kManifestName}) {
    make_unreadable(hidden);
    EXPECT_EQ(find_usable_checkpoint(run.path()), Presence::kUnknown) << hidden;
    EXPECT_TRUE(tests::holds(how_to_continue(run.path(), "--resume latest"), "is not known")) << hidden;
    make_readable(hidden);
  }
  make_checkpoint(run.path(), 20, 1);
  make_unreadable(only / kManifestName);
  EXPECT_EQ(find_usable_checkpoint(run.path()), Presence::kPresent);
}

TEST(Unreadable, ANewerCheckpointIsNotPassedOver) {
  const core::TempDir run;
  make_checkpoint(run.path(), 10, 1);
  const fs::path newest = make_checkpoint(run.path(), 20, 1);
  for (const char* file : {kManifestName, "rank-0001.safetensors"}) {
    make_unreadable(newest / file);
    try {
      choose_latest(run.path());
      FAIL() << file;
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find((newest / file).string()), std::string::npos) << error.what();
      EXPECT_NE(error.hint(), "");
    }
    make_readable(newest / file);
  }
  make_unreadable(run.path() / "checkpoints" / "step-00000010.a1" / kManifestName);
  EXPECT_EQ(choose_latest(run.path()).chosen->step, 20) << "the older one is not needed";
}

TEST(Unreadable, ARankedCheckpointIsNotForgotten) {
  const core::TempDir run;
  make_checkpoint(run.path(), 10, 1);
  make_unreadable(make_checkpoint(run.path(), 20, 1) / kManifestName);
  Ranking ranking;
  for (const int64_t step : {10, 20, 30, 40}) ranking.entries.push_back({.name = checkpoint_name(step, 1)});
  ranking.forget_absent(run.path(), {checkpoint_name(40, 1)});
  std::vector<std::string> names;
  for (const RankedCheckpoint& entry : ranking.entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000010.a1", "step-00000020.a1", "step-00000040.a1"}));
}

TEST(Unreadable, ARankingIsNotSetAside) {
  const core::TempDir run;
  fs::create_directories(run.path() / "checkpoints");
  write_ranking(run.path(), {.metrics = {"m"}, .num_best = 1, .entries = {}});
  const fs::path file = run.path() / "checkpoints" / "best.json";
  make_unreadable(file);
  set_aside_damaged_ranking(run.path());
  make_readable(file);
  EXPECT_EQ(read_ranking(run.path()).num_best, 1);
}

TEST(Unreadable, AClaimRejectsNothingThatItCouldNotRead) {
  const core::TempDir run;
  EXPECT_EQ(claim_checkpoints(run.path(), Json::object()).attempt, 1);
  const fs::path folder = make_checkpoint(run.path(), 10, 1);
  make_unreadable(folder / kManifestName);
  EXPECT_EQ(claim_checkpoints(run.path(), Json::object()).attempt, 2);
  make_readable(folder / kManifestName);
  EXPECT_EQ(usable_names(run.path()), std::vector<std::string>{"step-00000010.a1"});
  make_unreadable(run.path() / "checkpoints" / "owner.2");
  EXPECT_THROW(list_checkpoints(run.path()), CheckpointError) << "it may name what is void";
}

TEST(LeftOvers, OfKilledWritersAreRemoved) {
  const core::TempDir run;
  const fs::path checkpoints = run.path() / "checkpoints";
  make_checkpoint(run.path(), 10, 1);
  for (const char* name : {"step-00000020.a1", "step-00000030.a2", "trash.step-00000005.a1", "trash.mine"}) {
    fs::create_directories(checkpoints / name);
    overwrite(checkpoints / name / "rank-0000.safetensors", "part");
  }
  remove_left_overs(run.path(), /*attempt=*/2);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(checkpoints)) left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"step-00000010.a1", "step-00000030.a2", "trash.mine"}));
}

}  // namespace
}  // namespace lockstep::checkpoint
