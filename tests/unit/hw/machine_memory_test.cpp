#include "hw/machine_memory.h"

#include <gtest/gtest.h>

#include "core/files.h"

namespace lockstep::hw {
namespace {

namespace fs = std::filesystem;

/// A tree of control groups in a folder of its own.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((folder_.path() / file).parent_path());
    core::write_file_atomic(folder_.path() / file, text + "\n");
  }
  std::optional<int64_t> left(const std::string& membership) const {
    write("membership", membership);
    return left_in_control_groups(folder_.path() / "membership", folder_.path() / "mount");
  }
  core::TempDir folder_{"lockstep_groups"};
};

TEST_F(ControlGroups, TheTightestOfAllAboveCounts) {
  write("mount/memory.current", "9000");  // the root of version 2 has no limit
  write("mount/slurm/memory.max", "8000"), write("mount/slurm/memory.current", "1000");
  write("mount/slurm/job_7/memory.max", "2000"), write("mount/slurm/job_7/memory.current", "500");
  write("mount/slurm/job_7/step_0/memory.max", "max"), write("mount/slurm/job_7/step_0/memory.current", "400");
  EXPECT_EQ(left("0::/slurm/job_7/step_0"), 1500);
  EXPECT_EQ(left("0::/slurm/job_8"), 7000);
  EXPECT_EQ(left("0::/"), std::nullopt);
  write("mount/slurm/job_7/step_0/memory.max", "700");
  EXPECT_EQ(left("0::/slurm/job_7/step_0"), 300);
  EXPECT_EQ(left("0::/slurm/job_7/step_0/task_1"), 300);  // not mounted here: the folder above it counts
}

TEST_F(ControlGroups, OfVersionOneOnlyTheMemoryHierarchyCounts) {
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712"),
      write("mount/memory/memory.usage_in_bytes", "100");
  write("mount/memory/uid_1/job_7/memory.limit_in_bytes", "3000"),
      write("mount/memory/uid_1/job_7/memory.usage_in_bytes", "1000");
  write("mount/memory/elsewhere/memory.limit_in_bytes", "10"),
      write("mount/memory/elsewhere/memory.usage_in_bytes", "5");
  EXPECT_EQ(left("9:name=systemd:/elsewhere\n4:cpu,memory:/uid_1/job_7\n3:cpuset:/elsewhere\n0::/"), 2000);
}

TEST_F(ControlGroups, PathsOutsideTheMountAndDamagedLinesAreNoHarm) {
  write("mount/memory.max", "50"), write("mount/memory.current", "20");
  write("memory.max", "1"), write("memory.current", "0");  // above the mount: not ours
  EXPECT_EQ(left("0::/../sibling"), 30);
  EXPECT_EQ(left("nothing\n0:"), std::nullopt);
  EXPECT_EQ(left_in_control_groups("/nonexistent", folder_.path()), std::nullopt);
  EXPECT_GT(available_memory_bytes(), 0);
}

TEST(Gpus, AreNamedByTheDriversFiles) {
  const core::TempDir folder;
  for (const char* bus : {"0000:0a:00.0", "0000:0b:00.0"}) {
    fs::create_directories(folder.path() / bus);
    core::write_file_atomic(folder.path() / bus / "information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t 17\n");
  }
  fs::create_directories(folder.path() / "empty");
  EXPECT_EQ(gpu_names(folder.path()), (std::vector<std::string>(2, "NVIDIA H100 80GB HBM3")));
  EXPECT_TRUE(gpu_names(folder.path() / "nothing").empty());
}

}  // namespace
}  // namespace lockstep::hw
