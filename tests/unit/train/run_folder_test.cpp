#include "train/run_folder.h"

#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "support/error_text.h"

namespace lockstep::train {
namespace {
namespace fs = std::filesystem;

/// A run "run" of a task that takes OpenCLIP's files.
class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.task = "clip";
    options_.logs = logs_.path().string();
    options_.name = "run";
    options_.takes_openclip_checkpoints = true;
    fs::create_directories(run_ / "checkpoints");
  }
  RunFolder choose(const SlurmStart& start = {}) const { return choose_run_folder(options_, {}, "now", start); }
  void add_file(const std::string& name) const { core::write_file_atomic(run_ / name, "{}"); }
  void add_checkpoint(int64_t step, int attempt) const {
    const fs::path folder = run_ / "checkpoints" / checkpoint::checkpoint_name(step, attempt);
    fs::create_directories(folder);
    core::write_file_atomic(folder / "model.safetensors", "weights");
    checkpoint::write_manifest(
        folder, {.step = step, .attempt = attempt, .files = {checkpoint::describe_file(folder, "model.safetensors")}});
  }

  core::TempDir logs_{"lockstep_run_folder"};
  fs::path run_ = logs_.path() / "run";
  config::RunOptions options_;
};

TEST_F(RunFolderTest, ARunOfOpenClipGoesOnFromItsFileUntilThereIsACheckpointOfOurs) {
  add_file("checkpoints/epoch_2.pt");
  EXPECT_TRUE(tests::holds(tests::message_of<UsageError>([&] { choose(); }), "of OpenCLIP already exists"));
  options_.resume = "latest";
  EXPECT_EQ(choose().resume_path, run_ / "checkpoints/epoch_2.pt");
  // The first start died before it saved, or while it did.
  add_file("run.json");
  checkpoint::claim_checkpoints(run_, {});
  fs::create_directories(run_ / "checkpoints/step-00000005.a1");
  const RunFolder again = choose();
  EXPECT_EQ(again.resume_path, run_ / "checkpoints/epoch_2.pt");
  EXPECT_TRUE(again.has_checkpoint && !again.resume_latest);
  add_checkpoint(5, 1);
  const RunFolder later = choose();
  EXPECT_TRUE(later.has_checkpoint && later.resume_latest);
  EXPECT_EQ(later.resume_path, "");
  options_.resume.reset();
  const auto refused = tests::message_of<UsageError>([&] { choose(); });
  EXPECT_FALSE(tests::holds(refused, "of OpenCLIP")) << "it is ours by now";
}

TEST_F(RunFolderTest, ARunOfOpenClipThatDiedBeforeItsFirstCheckpointIsNotWrittenOver) {
  add_file("out.log");  // a start of ours that was refused may leave one, too
  EXPECT_NO_THROW(choose());
  add_file("params.txt");
  const auto refused = tests::message_of<UsageError>([&] { choose(); });
  EXPECT_TRUE(tests::holds(refused, "run 'run' of OpenCLIP already exists")) << refused;
  EXPECT_TRUE(tests::holds(refused, "it has saved no checkpoint")) << refused;
  options_.resume = "latest";
  EXPECT_FALSE(choose().has_checkpoint) << "begun again, as the hint says";
}

TEST_F(RunFolderTest, ACheckpointOfOpenClipThatCannotBeLookedAtIsNoNewBeginning) {
  options_.resume = "latest";
  EXPECT_FALSE(choose().has_checkpoint);
  fs::create_symlink("epoch_latest.pt", run_ / "checkpoints/epoch_latest.pt");  // leads to itself
  try {
    choose();
    FAIL() << "the run would begin at step 0";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << error.text();
    EXPECT_TRUE(tests::holds(error.what(), "epoch_latest.pt'")) << error.text();
  }
}

TEST_F(RunFolderTest, NobodyIsToldThatARunHasSavedNothingWhoseCheckpointsCannotBeListed) {
  add_file("run.json");
  options_.takes_openclip_checkpoints = false;
  EXPECT_TRUE(tests::holds(tests::message_of<UsageError>([&] { choose(); }), "it has saved no checkpoint"));
  fs::remove_all(run_ / "checkpoints");
  fs::create_symlink("checkpoints", run_ / "checkpoints");  // leads to itself
  const auto refused = tests::message_of<UsageError>([&] { choose(); });
  EXPECT_FALSE(tests::holds(refused, "it has saved no checkpoint")) << refused;
  EXPECT_TRUE(tests::holds(refused, "whether it has saved a checkpoint is not known")) << refused;
  fs::remove(run_ / "run.json");
  fs::create_symlink("run.json", run_ / "run.json");
  const auto unknown = tests::message_of<CheckpointError>([&] { choose(); });
  EXPECT_TRUE(tests::holds(unknown, "cannot look at '" + (run_ / "run.json").string())) << unknown;
}

TEST_F(RunFolderTest, AFileInTheWayIsNamed) {
  core::write_file_atomic(logs_.path() / "notdir", "x");
  options_.logs = (logs_.path() / "notdir").string();
  const auto refused = tests::message_of<EnvironmentError>([&] { choose(); });
  EXPECT_TRUE(tests::holds(refused, "notdir' is a file")) << refused;
}

TEST_F(RunFolderTest, ARefusedStartRemovesWhatItMadeAndNothingOfAnother) {
  options_.name = "new";
  const RunFolder refused = choose();
  ASSERT_EQ(refused.first_made, logs_.path() / "new");
  checkpoint::claim_checkpoints(refused.path, {});
  const RunFolder other = choose();  // a second start of the same name, before either has a record
  EXPECT_EQ(other.first_made, "");
  checkpoint::claim_checkpoints(other.path, {});
  remove_new_folders(refused);
  EXPECT_TRUE(fs::exists(other.checkpoints() / "owner.2")) << "it may be about to save";
  fs::remove(other.checkpoints() / "owner.2");
  fs::create_directories(other.checkpoints() / "step-00000005.a2");
  remove_new_folders(refused);
  EXPECT_TRUE(fs::exists(other.checkpoints() / "step-00000005.a2"));
  fs::remove(other.checkpoints() / "step-00000005.a2");
  remove_new_folders(refused);
  EXPECT_FALSE(fs::exists(refused.path));
}

TEST_F(RunFolderTest, ARequeuedJobDoesNotPassOverWhatItCannotRead) {
  options_.resume = "/elsewhere/start";
  const SlurmStart again{.restart_count = 1, .job_id = "7"};
  checkpoint::claim_checkpoints(run_, {{"job", "6"}});
  add_checkpoint(20, 1);
  checkpoint::claim_checkpoints(run_, {{"job", "7"}});
  add_checkpoint(5, 2);
  add_checkpoint(15, 2);
  const fs::path manifest = run_ / "checkpoints/step-00000015.a2" / checkpoint::kManifestName;
  core::write_file_atomic(manifest, "{}");
  EXPECT_TRUE(choose(again).resume_latest) << "the damaged one is passed over for step 5, not for the start";
  fs::remove(manifest);
  fs::create_symlink(manifest.filename(), manifest);  // leads to itself: it exists and cannot be read
  const RunFolder unknown = choose(again);
  EXPECT_TRUE(unknown.resume_latest && unknown.has_checkpoint) << unknown.resume_path;
  EXPECT_THROW(checkpoint::choose_latest(run_), CheckpointError) << "so that the run ends";
  for (const char* step : {"step-00000005.a2", "step-00000015.a2"}) {
    const fs::path damaged = run_ / "checkpoints" / step / checkpoint::kManifestName;
    fs::remove(damaged);
    core::write_file_atomic(damaged, "{}");
  }
  EXPECT_EQ(choose(again).resume_path, "/elsewhere/start") << "step 20 was left behind on purpose";
}

TEST_F(RunFolderTest, ARequeuedJobGoesOnFromWhatItSaved) {
  options_.resume = "/elsewhere/start";
  const SlurmStart first{.restart_count = 0, .job_id = "7"}, again{.restart_count = 1, .job_id = "7"};
  checkpoint::claim_checkpoints(run_, {{"job", "6"}});  // what the user chose to leave behind
  add_checkpoint(20, 1);
  EXPECT_EQ(choose(first).resume_path, "/elsewhere/start");
  EXPECT_EQ(choose(again).resume_path, "/elsewhere/start") << "it has saved nothing";
  checkpoint::claim_checkpoints(run_, {{"job", "7"}});
  add_checkpoint(15, 2);
  EXPECT_EQ(choose(first).resume_path, "/elsewhere/start");
  const RunFolder latest = choose(again);
  EXPECT_TRUE(latest.resume_latest && latest.has_checkpoint);
  EXPECT_EQ(latest.resume_path, "");
  options_.resume.reset();
  EXPECT_TRUE(choose(again).resume_latest);
}

}  // namespace
}  // namespace lockstep::train
