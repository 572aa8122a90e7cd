#include "checkpoint/openclip_files.h"

#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "support/error_text.h"

namespace lockstep::checkpoint {
namespace {
namespace fs = std::filesystem;

TEST(OpenClipFiles, TheNewestIsThatOfTheHighestEpoch) {
  const core::TempDir run;
  EXPECT_EQ(newest_openclip_file(run.path()), "");
  fs::create_directories(run.path() / "checkpoints");
  const auto add = [&](const std::string& name) { core::write_file_atomic(run.path() / "checkpoints" / name, "x"); };
  for (const char* name : {"epoch_9.pt", "epoch_10.pt", "epoch_99.pth", "epoch_x.pt", "epoch_.pt", "epoch_-1.pt"})
    add(name);
  EXPECT_EQ(newest_openclip_file(run.path()).filename(), "epoch_10.pt");
  add("epoch_latest.pt");
  EXPECT_EQ(newest_openclip_file(run.path()).filename(), "epoch_latest.pt");
  EXPECT_EQ(openclip_epoch("epoch_12.pt"), 12);
  EXPECT_FALSE(openclip_epoch("epoch_latest.pt"));
  EXPECT_FALSE(openclip_epoch("epoch_pt"));
}

TEST(OpenClipFiles, WhatCannotBeLookedAtIsNotAbsent) {
  const core::TempDir run;
  const fs::path checkpoints = run.path() / "checkpoints";
  fs::create_directories(checkpoints);
  core::write_file_atomic(checkpoints / "epoch_1.pt", "x");
  for (const char* name : {"epoch_latest.pt", "epoch_2.pt"}) {
    fs::create_symlink(name, checkpoints / name);  // leads to itself: nobody can look at it, root neither
    const auto refused = tests::message_of<CheckpointError>([&] { newest_openclip_file(run.path()); });
    EXPECT_TRUE(tests::holds(refused, fmt::format("cannot look at '{}'", (checkpoints / name).string()))) << refused;
    fs::remove(checkpoints / name);
    fs::create_symlink("gone.pt", checkpoints / name);  // that is known: nothing is there
    EXPECT_EQ(newest_openclip_file(run.path()).filename(), "epoch_1.pt");
    fs::remove(checkpoints / name);
  }
  fs::rename(checkpoints, run.path() / "aside");
  fs::create_symlink("checkpoints", checkpoints);
  EXPECT_THROW(newest_openclip_file(run.path()), CheckpointError);
  fs::remove(checkpoints);
  EXPECT_EQ(newest_openclip_file(run.path()), "");
}

TEST(OpenClipFiles, NotesThatCannotBeReadAreNotBegunAnew) {
  const core::TempDir run;
  const fs::path checkpoints = run.path() / "checkpoints", notes = checkpoints / "openclip_files.txt";
  fs::create_directories(checkpoints);
  EXPECT_TRUE(claim_openclip_file(run.path(), "epoch_1.pt"));
  fs::rename(notes, run.path() / "aside");
  fs::create_symlink(notes.filename(), notes);
  EXPECT_THROW(claim_openclip_file(run.path(), "epoch_2.pt"), EnvironmentError);
  EXPECT_THROW(is_own_openclip_file(run.path(), "epoch_1.pt"), EnvironmentError);
  fs::remove(notes);
  fs::rename(run.path() / "aside", notes);
  EXPECT_TRUE(is_own_openclip_file(run.path(), "epoch_1.pt"));
}

TEST(OpenClipFiles, ARunWritesOverItsOwnAlone) {
  const core::TempDir run;
  const fs::path checkpoints = run.path() / "checkpoints";
  fs::create_directories(checkpoints);
  core::write_file_atomic(checkpoints / "epoch_1.pt", "theirs");
  EXPECT_FALSE(claim_openclip_file(run.path(), "epoch_1.pt"));
  EXPECT_TRUE(claim_openclip_file(run.path(), "epoch_2.pt"));
  EXPECT_TRUE(claim_openclip_file(run.path(), "epoch_3.pt"));
  core::write_file_atomic(checkpoints / "epoch_2.pt", "ours");
  EXPECT_TRUE(claim_openclip_file(run.path(), "epoch_2.pt")) << "as a later attempt does";
  EXPECT_TRUE(is_own_openclip_file(run.path(), "epoch_2.pt"));
  EXPECT_FALSE(is_own_openclip_file(run.path(), "epoch_1.pt"));
  EXPECT_FALSE(is_own_openclip_file(run.path(), ""));
}

}  // namespace
}  // namespace lockstep::checkpoint
