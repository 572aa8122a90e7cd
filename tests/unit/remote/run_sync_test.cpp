// Copies of runs to folders and to S3, and back.
#include "remote/run_sync.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <set>

#include "checkpoint/manifest.h"
#include "core/files.h"
#include "remote/fetch_run.h"
#include "remote/s3_store.h"
#include "support/error_text.h"
#include "support/s3_servers.h"
#include "support/user_rights.h"

namespace lockstep::remote {
namespace {
namespace fs = std::filesystem;

constexpr const char* kNewest = "checkpoints/step-00000020.a1/";

/// A run folder as training leaves it: a record, claims, checkpoints.
struct SmallRun {
  core::TempDir parent{"lockstep_sync"};
  fs::path folder = parent.path() / "run";

  SmallRun() {
    write("run.json", "{}");
    write("steps.jsonl", "{\"step\": 0}\n");
    checkpoint::claim_checkpoints(folder, {{"host", "here"}});
    add_checkpoint(10);
    add_checkpoint(20);
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  void add_checkpoint(int64_t step, int64_t bytes = 1000) const {
    const fs::path at = folder / "checkpoints" / checkpoint::checkpoint_name(step, 1);
    checkpoint::CheckpointManifest manifest{.step = step, .attempt = 1};
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      write(fs::path(at / name).lexically_relative(folder).string(),
            std::string(static_cast<size_t>(bytes), static_cast<char>('a' + step % 20)) + name);
      manifest.files.push_back(checkpoint::describe_file(at, name));
    }
    checkpoint::write_manifest(at, manifest);
  }
};

SyncReport send_all(const fs::path& run, const fs::path& to) {
  RunSync sync({.run_folder = run, .address = parse_address(to.string()), .retry = {.first_s = 0.01}});
  return sync.finish(60);
}

TEST(RunFiles, AreTheFinishedOnesAndManifestsComeLast) {
  const SmallRun run;
  run.write("checkpoints/step-00000030.a1/model.safetensors", "being written");
  run.write("checkpoints/trash.step-00000005.a1/manifest.json", "being deleted");
  run.write("status.json.tmphost-12-0a0b0c0d", "being written");
  run.write(kSyncStateName, "{}");
  run.write("tensorboard/events.1", "x");
  run.write("fetched/epoch_3.pt", "what the run began with");
  std::vector<std::string> names;
  const RunFiles files = list_run_files(run.folder);
  EXPECT_TRUE(files.unread.empty());
  for (const RunFileGroup& group : files.groups)
    for (const RunFile& file : group.files) names.push_back(file.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "checkpoints/owner.1", "run.json", "steps.jsonl", "tensorboard/events.1",
                "checkpoints/step-00000020.a1/model.safetensors", "checkpoints/step-00000020.a1/optimizer.safetensors",
                "checkpoints/step-00000020.a1/manifest.json", "checkpoints/step-00000010.a1/model.safetensors",
                "checkpoints/step-00000010.a1/optimizer.safetensors", "checkpoints/step-00000010.a1/manifest.json"}));
}

/// In place of a file or folder of a run something that is there and that nobody can look at, as long as this lives.
class Unreadable {
 public:
  Unreadable(const SmallRun& run, const std::string& name)
      : path_(run.folder / name), aside_(run.parent.path() / ("aside-" + std::to_string(count_++))) {
    fs::rename(path_, aside_);
    fs::create_symlink(path_.filename(), path_);
  }
  ~Unreadable() {
    fs::remove(path_);
    fs::rename(aside_, path_);
  }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;

 private:
  inline static int count_ = 0;
  fs::path path_, aside_;
};

TEST(RunFiles, WhatCannotBeLookedAtIsNeitherAbsentNorGone) {
  const SmallRun run;
  const Unreadable steps(run, "steps.jsonl"), manifest(run, "checkpoints/step-00000020.a1/manifest.json"),
      model(run, "checkpoints/step-00000010.a1/model.safetensors");
  std::set<std::string> unread;
  for (const UnreadFile& file : list_run_files(run.folder).unread) {
    unread.insert(file.name);
    EXPECT_NE(file.reason.find("Too many levels of symbolic links"), std::string::npos) << file.reason;
  }
  EXPECT_EQ(unread, (std::set<std::string>{"steps.jsonl", "checkpoints/step-00000020.a1",
                                           "checkpoints/step-00000010.a1/model.safetensors"}));
  EXPECT_FALSE(is_gone(run.folder / "steps.jsonl"));
  EXPECT_TRUE(is_gone(run.folder / "never.jsonl"));
  fs::create_symlink("nowhere", run.folder / "link");
  EXPECT_EQ(list_run_files(run.folder).unread.size(), 3u) << "behind that link nothing is";
}

TEST(RunSync, WhatCannotBeReadHasNotArrived) {
  const SmallRun run;
  const core::TempDir there;
  run.write("tensorboard/events.1", "x");
  {
    const tests::UserRights user;
    const tests::Private folder(run.folder / "tensorboard");
    if (!folder.is_refused()) GTEST_SKIP() << "no folder can be made that this user may not read";
    const SyncReport report = send_all(run.folder, there.path());
    EXPECT_EQ(report.missing, std::vector<std::string>{"tensorboard"});
    EXPECT_EQ(report.num_missing, 1);
    EXPECT_EQ(report.num_sent, 9) << "the others";
  }
  {
    const Unreadable checkpoints(run, "checkpoints");
    const SyncReport report = send_all(run.folder, there.path());
    EXPECT_EQ(report.num_missing, 1);
    EXPECT_EQ(report.missing, std::vector<std::string>{"checkpoints"});
    EXPECT_EQ(report.num_sent, 1) << "what could not be read before";
  }
  EXPECT_EQ(send_all(run.folder, there.path()).num_missing, 0);
}

TEST(RunSync, AFileWhoseNameIsNoUtf8HoldsUpNoOther) {
  const SmallRun run;
  const core::TempDir there;
  run.write(
      "gr\xfc\xdf"
      "e.txt",
      "x");
  const SyncReport first = send_all(run.folder, there.path());
  EXPECT_EQ(first.num_missing, 0);
  EXPECT_TRUE(fs::exists(there.path() / kNewest / checkpoint::kManifestName));
  EXPECT_EQ(send_all(run.folder, there.path()).num_sent, 1) << "what has arrived is on record, but for that name";
}

TEST(RunSync, ACheckpointThatCannotBeLookedAtIsNotTakenForARemovedOne) {
  const SmallRun run;
  const core::TempDir there;
  {
    const tests::UserRights user;
    const tests::Private file(run.folder / kNewest / "optimizer.safetensors");
    if (!file.is_refused()) GTEST_SKIP() << "no file can be made that this user may not read";
    RunSync sync({.run_folder = run.folder, .address = parse_address(there.path().string()), .frequency_s = 0.01});
    while (sync.num_passes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(sync.finish(0).num_missing, 2) << "the file and its manifest";
  }
  const fs::path arrived = there.path() / kNewest / "model.safetensors";
  ASSERT_TRUE(fs::exists(arrived));
  {
    const Unreadable newest(run, "checkpoints/step-00000020.a1");
    EXPECT_EQ(send_all(run.folder, there.path()).missing, std::vector<std::string>{"checkpoints/step-00000020.a1"});
    EXPECT_TRUE(fs::exists(arrived));
  }
  EXPECT_EQ(send_all(run.folder, there.path()).num_sent, 2);
}

TEST(RunSync, ACopyInAFolderCanBeGoneOnFrom) {
  const SmallRun run;
  const core::TempDir there;
  const fs::path copy = there.path() / "deep/er";
  SyncReport report = send_all(run.folder, copy);
  EXPECT_EQ(report.num_sent, 9);
  EXPECT_EQ(report.num_missing, 0);
  EXPECT_EQ(send_all(run.folder, copy).num_sent, 0);  // all is there, another process knows
  run.write("steps.jsonl", "{\"step\": 0}\n{\"step\": 1}\n");
  fs::remove(copy / "run.json");  // lost there
  EXPECT_EQ(send_all(run.folder, copy).num_sent, 2);
  EXPECT_EQ(core::read_file(copy / "steps.jsonl"), core::read_file(run.folder / "steps.jsonl"));

  const core::TempDir other;
  const auto store = open_store(parse_address(copy.string()));
  EXPECT_TRUE(holds_run(*store));
  const FetchedRun fetched = fetch_latest(*store, other.path());
  EXPECT_TRUE(fetched.has_record);
  ASSERT_TRUE(fetched.checkpoint);
  EXPECT_EQ(fetched.checkpoint->filename(), "step-00000020.a1");
  EXPECT_EQ(core::read_file(other.path() / "steps.jsonl"), core::read_file(run.folder / "steps.jsonl"));
  EXPECT_EQ(send_all(other.path(), copy).num_sent, 0);  // what came from there need not go there
  EXPECT_FALSE(fs::exists(other.path() / "fetching.part"));
  const auto choice = checkpoint::choose_latest(other.path());
  ASSERT_TRUE(choice.chosen);
  EXPECT_EQ(choice.chosen->step, 20);
  EXPECT_EQ(checkpoint::claim_checkpoints(other.path(), {}).attempt, 2);  // the claim of the first came along
  const FetchedRun again = fetch_latest(*store, other.path());
  EXPECT_FALSE(again.checkpoint || again.has_record);  // as new as what is here
}

TEST(RunSync, ADamagedCopyIsPassedOverForTheOneBefore) {
  const SmallRun run;
  const core::TempDir there, other;
  send_all(run.folder, there.path());
  std::ofstream(there.path() / kNewest / "model.safetensors", std::ios::in | std::ios::out) << "X";
  const auto store = open_store(parse_address(there.path().string()));
  const auto fetched = fetch_latest(*store, other.path());
  ASSERT_TRUE(fetched.checkpoint);
  EXPECT_EQ(fetched.checkpoint->filename(), "step-00000010.a1");
  const auto text = tests::message_of<CheckpointError>(
      [&] { fetch_checkpoint(parse_address((there.path() / "checkpoints/step-00000020.a1").string()), other.path()); });
  EXPECT_TRUE(tests::holds(text, "is damaged: '")) << text;
  EXPECT_TRUE(tests::holds(text, "was altered: xxh3=")) << text;
  fs::remove(there.path() / "checkpoints/step-00000010.a1/optimizer.safetensors");
  const core::TempDir third;
  const auto none = tests::message_of<CheckpointError>([&] { fetch_latest(*store, third.path()); });
  EXPECT_TRUE(tests::holds(none, "no checkpoint at")) << none;
  EXPECT_TRUE(tests::holds(none, "'optimizer.safetensors' is missing")) << none;
}

TEST(RunSync, OneCheckpointIsFetchedWithItsAttempt) {
  const SmallRun run;
  const core::TempDir other;
  const std::string address = (run.folder / "checkpoints/step-00000010.a1").string();
  const fs::path here = fetch_checkpoint(parse_address(address), other.path());
  EXPECT_EQ(here, other.path() / "checkpoints/step-00000010.a1");
  EXPECT_EQ(fetch_checkpoint(parse_address(address), other.path()), here);
  EXPECT_EQ(checkpoint::claim_checkpoints(other.path(), {}).attempt, 2);
  const core::TempDir alone, third;  // copied without its claims
  fs::copy(address, alone.path() / "step_10", fs::copy_options::recursive);
  fetch_checkpoint(parse_address((alone.path() / "step_10").string()), third.path());
  EXPECT_EQ(checkpoint::claim_checkpoints(third.path(), {}).attempt, 2);
  const auto text =
      tests::message_of<CheckpointError>([&] { fetch_checkpoint(parse_address(run.folder.string()), third.path()); });
  EXPECT_TRUE(tests::holds(text, "is no whole checkpoint: it has no manifest.json")) << text;
}

TEST(RunSync, AFetchedCheckpointReplacesNoOtherOfItsName) {
  const SmallRun own, other;
  const fs::path name = "checkpoints/step-00000010.a1", mine = own.folder / name, theirs = other.folder / name;
  checkpoint::claim_checkpoints(other.folder, {});
  own.write((name / "model.safetensors").string(), "weights of this run");
  checkpoint::write_manifest(
      mine, {.step = 10, .attempt = 1, .files = {checkpoint::describe_file(mine, "model.safetensors")}});
  const Address address = parse_address(theirs.string());
  const auto refused = [&] {
    return tests::message_of<CheckpointError>([&] { fetch_checkpoint(address, own.folder); });
  };
  const std::string text = refused();
  EXPECT_TRUE(tests::holds(text, "'" + mine.string() + "' has that name and is another one")) << text;
  const std::string manifest = core::read_file(mine / checkpoint::kManifestName);
  core::write_file_atomic(mine / checkpoint::kManifestName, "{}");  // damaged
  EXPECT_TRUE(tests::holds(refused(), "is another one"));
  fs::remove(mine / checkpoint::kManifestName);
  fs::create_symlink(checkpoint::kManifestName, mine / checkpoint::kManifestName);  // leads to itself
  EXPECT_TRUE(tests::holds(refused(), (mine / checkpoint::kManifestName).string()));
  fs::remove(mine / checkpoint::kManifestName);
  core::write_file_atomic(mine / checkpoint::kManifestName, manifest);
  EXPECT_EQ(core::read_file(mine / "model.safetensors"), "weights of this run");
  EXPECT_FALSE(fs::exists(own.folder / "fetching.part"));
  // One of a free name comes, and voids none of this run's: the other's claims stay away.
  other.add_checkpoint(30);
  const fs::path fetched =
      fetch_checkpoint(parse_address((other.folder / "checkpoints/step-00000030.a1").string()), own.folder);
  EXPECT_TRUE(fs::exists(fetched / checkpoint::kManifestName));
  EXPECT_FALSE(fs::exists(own.folder / "checkpoints/owner.2"));
  for (const auto& entry : checkpoint::list_checkpoints(own.folder)) EXPECT_EQ(entry.problem, "") << entry.folder;
  // What an interrupted save left is no checkpoint.
  fs::remove(mine / checkpoint::kManifestName);
  EXPECT_EQ(fetch_checkpoint(address, own.folder), mine);
  EXPECT_EQ(core::read_file(mine / checkpoint::kManifestName), core::read_file(theirs / checkpoint::kManifestName));
}

TEST(RunSync, ACheckpointOfOpenClipIsOneFile) {
  const core::TempDir there, here;
  core::write_file_atomic(there.path() / "epoch_3.pt", "weights");
  const fs::path file = fetch_checkpoint(parse_address((there.path() / "epoch_3.pt").string()), here.path());
  EXPECT_EQ(file.filename(), "epoch_3.pt");
  EXPECT_EQ(core::read_file(file), "weights");
  EXPECT_THROW(fetch_checkpoint(parse_address((there.path() / "epoch_4.pt").string()), here.path()), Error);
}

TEST(RunSync, TheNewestFileOfOpenClipIsFetchedWhereNobodyHasACheckpoint) {
  const core::TempDir there, here;
  fs::create_directories(there.path() / "checkpoints");
  for (const char* name : {"checkpoints/epoch_2.pt", "checkpoints/epoch_10.pt", "out.log"})
    core::write_file_atomic(there.path() / name, name);
  const auto store = open_store(parse_address(there.path().string()));
  const auto refused = tests::message_of<CheckpointError>([&] { fetch_latest(*store, here.path()); });
  EXPECT_TRUE(tests::holds(refused, "holds 'checkpoints/epoch_10.pt', from which this command cannot go on"))
      << refused;
  const FetchedRun fetched = fetch_latest(*store, here.path(), /*takes_openclip=*/true);
  ASSERT_TRUE(fetched.openclip);
  EXPECT_FALSE(fetched.checkpoint);
  EXPECT_EQ(core::read_file(here.path() / "checkpoints/epoch_10.pt"), "checkpoints/epoch_10.pt");
  EXPECT_FALSE(fs::exists(here.path() / "checkpoints/epoch_2.pt"));
  EXPECT_EQ(send_all(here.path(), there.path()).num_sent, 0);
  EXPECT_FALSE(fetch_latest(*store, here.path(), true).openclip) << "it is here";

  const SmallRun run;  // our own checkpoints go before
  send_all(run.folder, there.path());
  const core::TempDir third;
  const FetchedRun own = fetch_latest(*store, third.path(), true);
  EXPECT_TRUE(own.checkpoint && !own.openclip);
}

TEST(RunSync, WhatACutOffCopyLeftIsNotFetched) {
  const SmallRun run;
  const core::TempDir there, here;
  send_all(run.folder, there.path());
  for (const char* name : {"steps.jsonl.part", "steps.jsonl.part.tmphost-1-0a", "run.json.tmphost-1-0b"})
    std::ofstream(there.path() / name) << "half";
  const auto store = open_store(parse_address(there.path().string()));
  EXPECT_TRUE(fetch_latest(*store, here.path()).has_record);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(here.path())) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"checkpoints", "run.json", "steps.jsonl", kSyncStateName}));
}

TEST(RunSync, AnAttemptThatALaterOneHasSupersededAtTheCopySendsNothingMore) {
  const SmallRun here, elsewhere;  // machines that share no files: both have attempt 1
  const core::TempDir there;
  const auto send = [&](const SmallRun& run, int attempt) {
    return RunSync({.run_folder = run.folder, .address = parse_address(there.path().string()), .attempt = attempt})
        .finish(60)
        .num_sent;
  };
  EXPECT_EQ(send(here, 1), 9);
  here.write("steps.jsonl", "more\n");
  EXPECT_EQ(send(here, 1), 1) << "the claim at the copy is its own";
  EXPECT_EQ(send(elsewhere, 1), 0) << "of the same number";
  checkpoint::claim_checkpoints(elsewhere.folder, {});
  elsewhere.write("steps.jsonl", "of attempt 2\n");
  EXPECT_GT(send(elsewhere, 2), 0);
  here.write("steps.jsonl", "of a process that lives on\n");
  EXPECT_EQ(send(here, 1), 0);
  EXPECT_EQ(core::read_file(there.path() / "steps.jsonl"), "of attempt 2\n");
  EXPECT_EQ(fetch_latest(*open_store(parse_address(there.path().string())), here.folder).highest_attempt, 2);
  EXPECT_EQ(checkpoint::claim_checkpoints(here.folder, {}, 3).attempt, 3);
}

TEST(RunSync, WhatACutOffCopyLeftInAFolderGoes) {
  const SmallRun run;
  const core::TempDir there;
  fs::create_directories(there.path() / "checkpoints/x");
  for (const char* name : {"checkpoints/x/model.safetensors.part", "steps.jsonl.part.tmphost-1-0a"})
    std::ofstream(there.path() / name) << "half";
  std::ofstream(there.path() / "steps.jsonl.partly") << "somebody's";
  EXPECT_EQ(send_all(run.folder, there.path()).num_missing, 0);
  EXPECT_FALSE(fs::exists(there.path() / "checkpoints/x/model.safetensors.part"));
  EXPECT_FALSE(fs::exists(there.path() / "steps.jsonl.part.tmphost-1-0a"));
  EXPECT_TRUE(fs::exists(there.path() / "steps.jsonl.partly"));
}

TEST(RunSync, AStoppedRunSendsNothingMore) {
  const SmallRun run;
  const core::TempDir there;
  RunSync sync({.run_folder = run.folder, .address = parse_address(there.path().string()), .reason_to_stop = [] {
                  return std::string("another attempt has taken over");
                }});
  EXPECT_EQ(sync.finish(60).num_sent, 0);
  EXPECT_TRUE(fs::is_empty(there.path()));
}

class RunSyncS3 : public tests::S3Test {
 protected:
  void SetUp() override {
    tests::S3Test::SetUp();
    if (IsSkipped()) return;
    for (const auto& [name, value] : servers_->variables()) ::setenv(name.c_str(), value.c_str(), 1);
  }
  SyncConfig config(const SmallRun& run, const std::string& folder) const {
    return {.run_folder = run.folder,
            .address = parse_address("s3://runs/" + folder),
            .frequency_s = 0.01,
            .retry = {.first_s = 0.01, .cap_s = 0.02, .max_attempts = 3}};
  }
  std::unique_ptr<ObjectStore> store(const std::string& folder) const {
    return open_store(parse_address("s3://runs/" + folder), servers_->config());
  }
};

TEST_F(RunSyncS3, AHalfUploadedCheckpointIsNeverTakenForOne) {
  const SmallRun run;
  servers_->order({{"fail", 1000}, {"match", "step-00000020.a1/optimizer"}});
  RunSync sync(config(run, "half"));
  while (sync.num_passes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const SyncReport report = sync.finish(0);
  EXPECT_EQ(report.num_missing, 2);  // the file and its manifest
  EXPECT_EQ(servers_->num_requests("PUT", "/runs/half/checkpoints/step-00000020.a1/manifest.json"), 0);
  EXPECT_GT(servers_->num_requests("PUT", "/runs/half/checkpoints/step-00000020.a1/optimizer"), 2);
  const core::TempDir other;
  const auto fetched = fetch_latest(*store("half"), other.path());
  ASSERT_TRUE(fetched.checkpoint);
  EXPECT_EQ(fetched.checkpoint->filename(), "step-00000010.a1");
  servers_->order({{"fail", 0}});
  RunSync next(config(run, "half"));
  EXPECT_EQ(next.finish(60).num_missing, 0);
  const core::TempDir third;
  EXPECT_EQ(fetch_latest(*store("half"), third.path()).checkpoint->filename(), "step-00000020.a1");
}

TEST_F(RunSyncS3, ACheckpointThatIsRemovedInMidUploadLeavesNothingThere) {
  const SmallRun run;
  servers_->order({{"fail", 1000}, {"match", "step-00000020.a1/optimizer"}});
  RunSync sync(config(run, "removed"));
  while (sync.num_passes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  sync.finish(0);
  EXPECT_EQ(store("removed")->list(kNewest).size(), 1u);  // model.safetensors
  fs::remove_all(run.folder / kNewest);
  run.add_checkpoint(30);
  servers_->order({{"fail", 0}});
  RunSync next(config(run, "removed"));
  EXPECT_EQ(next.finish(60).num_missing, 0);
  EXPECT_TRUE(store("removed")->list(kNewest).empty());
  EXPECT_EQ(store("removed")->list("checkpoints/step-00000010.a1/").size(), 3u);
  fs::remove_all(run.folder / "checkpoints/step-00000010.a1");  // a whole copy stays
  RunSync last(config(run, "removed"));
  EXPECT_EQ(last.finish(60).num_missing, 0);
  EXPECT_EQ(store("removed")->list("checkpoints/step-00000010.a1/").size(), 3u);
}

/// What a process leaves whose last checkpoint, of 24 MiB files, was on its way.
TEST_F(RunSyncS3, UploadsThatNobodyGoesOnWithAreAborted) {
  const auto unfinished = [&] { return remote::S3Client("runs", servers_->config()).list_unfinished("lost/").size(); };
  const auto cut_off = [&](const SmallRun& run) {
    servers_->order({{"fail", 1000}, {"match", "model.safetensors?partNumber=2"}});
    RunSync sync(config(run, "lost"));
    while (sync.num_passes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_GT(sync.finish(0).num_missing, 0);
    servers_->order({{"fail", 0}});
  };
  const SmallRun run, elsewhere;
  run.add_checkpoint(40, 3 * kPartBytes);
  cut_off(run);
  ASSERT_EQ(unfinished(), 1u);
  fs::remove_all(run.folder / "checkpoints/step-00000040.a1");  // the checkpoint is gone
  EXPECT_EQ(RunSync(config(run, "lost")).finish(60).num_missing, 0);
  EXPECT_EQ(unfinished(), 0u);

  run.add_checkpoint(60, 3 * kPartBytes);
  cut_off(run);
  ASSERT_EQ(unfinished(), 1u);
  EXPECT_EQ(RunSync(config(elsewhere, "lost")).finish(60).num_missing, 0);  // another machine, with nothing of the run
  EXPECT_EQ(unfinished(), 0u);

  run.write("steps.jsonl", std::string(static_cast<size_t>(2 * kPartBytes), 'x'));
  servers_->order({{"fail", 1000}, {"match", "steps.jsonl?partNumber=2"}});
  RunSync sync(config(run, "lost"));
  while (sync.num_passes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  run.write("steps.jsonl", std::string(static_cast<size_t>(2 * kPartBytes + 1), 'x'));  // it grows, and begins anew
  servers_->order({{"fail", 0}});
  EXPECT_EQ(sync.finish(60).num_missing, 0);
  EXPECT_EQ(unfinished(), 0u);
}

TEST_F(RunSyncS3, AServerWithoutListsOfUploadsGetsEverything) {
  const SmallRun run;
  servers_->order({{"unknown", 1000}, {"match", "uploads="}});
  RunSync sync(config(run, "plain"));
  EXPECT_EQ(sync.finish(60).num_missing, 0);
  EXPECT_EQ(servers_->num_requests("GET", "prefix=plain%2F&uploads="), 1) << "asked once";
  EXPECT_EQ(store("plain")->list("").size(), 9u);
}

TEST_F(RunSyncS3, AServerThatIsKilledAndComesBackGetsEverything) {
  const SmallRun run;
  run.add_checkpoint(40, 3 * (int64_t{8} << 20));
  servers_->order({{"hang", true}, {"match", "model.safetensors?partNumber=2"}});  // until it is killed
  RunSync sync(config(run, "killed"));
  while (!servers_->has_part("killed/checkpoints/step-00000040.a1/model.safetensors", 1))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  servers_->kill_gate();
  const int64_t passes = sync.num_passes();
  while (sync.num_passes() < passes + 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  servers_->start_gate();
  EXPECT_EQ(sync.finish(120).num_missing, 0);
  EXPECT_EQ(servers_->num_requests("PUT", "model.safetensors?partNumber=1"), 0)
      << "the new gate saw a part again: " << servers_->order().at("lines").dump(1);
  const core::TempDir other;
  EXPECT_EQ(fetch_latest(*store("killed"), other.path()).checkpoint->filename(), "step-00000040.a1");
}

/// As a run that keeps one checkpoint and saves faster than the storage takes them.
TEST_F(RunSyncS3, TheCheckpointOnItsWayIsHeld) {
  const SmallRun run;
  checkpoint::HeldCheckpoint held;
  SyncConfig slow = config(run, "slow");
  slow.held = &held;
  const std::string stuck = "slow/checkpoints/step-00000020.a1/optimizer";
  servers_->order({{"hang", true}, {"match", stuck}});
  RunSync sync(slow);
  while (servers_->num_requests("PUT", stuck) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(held.is_held("step-00000020.a1"));
  run.add_checkpoint(30);
  for (const char* name : {"step-00000010.a1", "step-00000020.a1"})
    if (!held.is_held(name)) checkpoint::remove_checkpoint(run.folder / "checkpoints" / name);
  servers_->order({{"hang", false}});
  EXPECT_EQ(sync.finish(60).num_missing, 0);
  EXPECT_FALSE(held.is_held("step-00000020.a1"));
  for (const char* name : {"step-00000020.a1", "step-00000030.a1"})
    EXPECT_EQ(store("slow")->list(fmt::format("checkpoints/{}/", name)).size(), 3u) << name;
  EXPECT_TRUE(store("slow")->list("checkpoints/step-00000010.a1/").empty());
}

TEST_F(RunSyncS3, AFileThatIsReplacedOnceItIsListedArrivesWhole) {
  const SmallRun run;
  run.write("a.log", "is sent first");
  SyncConfig rare = config(run, "replaced");
  rare.frequency_s = 1000;
  RunSync sync(rare);
  servers_->order({{"hang", true}, {"match", "replaced/a.log"}});
  auto last = std::async(std::launch::async, [&] { return sync.finish(60); });
  while (servers_->num_requests("PUT", "replaced/a.log") == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  core::write_file_atomic(run.folder / "run.json", R"({"much": "longer than before"})");
  servers_->order({{"hang", false}});
  EXPECT_EQ(last.get().num_missing, 0);
  EXPECT_EQ(store("replaced")->read("run.json"), R"({"much": "longer than before"})");
}

TEST_F(RunSyncS3, TheEndWaitsNoLongerOnceItIsTold) {
  const SmallRun run;
  servers_->order({{"hang", true}});
  RunSync sync(config(run, "told"));
  const auto began = std::chrono::steady_clock::now();
  const auto told = [&] { return std::chrono::steady_clock::now() - began > std::chrono::milliseconds(300); };
  EXPECT_GT(sync.finish(600, told).num_missing, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  servers_->order({{"hang", false}});
}

TEST_F(RunSyncS3, KeysThatMayNotDeleteStillSendEverything) {
  const SmallRun run;
  servers_->order({{"fail", 1000}, {"match", "step-00000020.a1/optimizer"}});
  RunSync sync(config(run, "append"));
  while (sync.num_passes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  sync.finish(0);
  fs::remove_all(run.folder / kNewest);
  servers_->order({{"fail", 0}, {"forbid", "DELETE"}});
  RunSync next(config(run, "append"));
  EXPECT_EQ(next.finish(60).num_missing, 0);
  servers_->order({{"forbid", ""}});
  EXPECT_EQ(store("append")->list(kNewest).size(), 1u) << "it could not be removed, and is no checkpoint";
}

TEST_F(RunSyncS3, AServerThatNeverAnswersHoldsNobodyUp) {
  const SmallRun run;
  servers_->order({{"hang", true}});
  {
    RunSync sync(config(run, "hang"));  // destroyed at once, though a request is under way
  }
  RunSync sync(config(run, "hang"));
  const SyncReport report = sync.finish(0.2);
  servers_->order({{"hang", false}});
  EXPECT_GT(report.num_missing, 0);
}

}  // namespace
}  // namespace lockstep::remote
