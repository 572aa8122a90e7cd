#include "checkpoint/room.h"

#include <gtest/gtest.h>

#include "core/files.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(Room, IsThatOfTheKeptCheckpointsAndTheOneBeingWritten) {
  const auto text = [](int64_t num_kept, int64_t num_there, int64_t free_bytes) {
    return lacking_room({.checkpoint_bytes = 100 * kMiB, .num_kept = num_kept, .num_there = num_there}, free_bytes,
                        "f");
  };
  EXPECT_EQ(text(2, 0, 300 * kMiB), "");
  EXPECT_EQ(
      text(2, 0, 299 * kMiB),
      "train: 3 checkpoints of 100 MiB (kept ones and the one being written) take 300 MiB, but 299 MiB are free in "
      "'f': saving will fail; make room, choose another --logs, or keep fewer");
  EXPECT_EQ(text(2, 2, 100 * kMiB), "") << "two of the three are there";
  EXPECT_NE(text(2, 5, 99 * kMiB).find("one checkpoint takes 100 MiB, but 99.0 MiB are free"), std::string::npos);
  EXPECT_EQ(text(0, 0, 100 * kMiB), "");
  EXPECT_NE(text(0, 0, 99 * kMiB), "");
}

TEST(Room, OfAFolderIsThatOfItsFileSystem) {
  const core::TempDir folder;
  EXPECT_EQ(lacking_room(folder.path(), 1, 2), "");
  const std::string text = lacking_room(folder.path(), int64_t{1} << 50, 0);
  EXPECT_NE(text.find("one checkpoint takes 1.00 PiB"), std::string::npos) << text;
  EXPECT_NE(text.find((folder.path() / "checkpoints").string()), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::checkpoint
