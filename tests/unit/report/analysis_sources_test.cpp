// What a folder's search tells of files that it does not report.
#include "report/analysis_sources.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "report/analysis_curve.h"
#include "unit/report/synthetic_runs.h"

namespace lockstep::report {
namespace {

const std::string kClipLine =
    "2026-01-01,12:00:00 | INFO | Train Epoch: 0 [1024/10240000 (9%)] Data (t): 0.031 Batch (t): 1.217, 841.3/s, 105.2/s/gpu LR: 0.000012 Logit Scale: 14.286 Loss: 8.3 (8.4)\n";
const std::string kOutOfMemory =
    "Traceback (most recent call last):\n  File \"train.py\", line 1\ntorch.OutOfMemoryError: CUDA out of memory\nsrun: error: n1: task 0: Out Of Memory\n";

TEST(FoundLogs, AFailedRunWithoutAStepIsToldBesideTheOthers) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "n8_r1.log", kClipLine);
  core::write_file_atomic(folder.path() / "n16_r1.log", kOutOfMemory);
  core::write_file_atomic(folder.path() / "notes.txt", "nothing of a run\n");
  const std::vector<Source> sources = find_sources({folder.path().string()});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].name, "n8_r1.log");
  EXPECT_EQ(sources[1].name, "n16_r1.log");
  EXPECT_NE(sources[1].damage.find("it ends as that of a run that failed: srun: error"), std::string::npos) << sources[1].damage;
}

TEST(FoundLogs, AFailedRunInAFolderOfItsOwnIsToldWithItsLastWords) {
  core::TempDir folder;
  for (const char* name : {"n8", "n16", "n32"}) std::filesystem::create_directories(folder.path() / name);
  core::write_file_atomic(folder.path() / "n8" / "out.log", kClipLine);
  core::write_file_atomic(folder.path() / "n16" / "out.log", kOutOfMemory);
  core::write_file_atomic(folder.path() / "n32" / "out.log", "nothing of a failure\n");
  const std::vector<Source> sources = find_sources({folder.path().string()});
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_NE(sources[1].damage.find("its out.log ends as that of a run that failed: srun: error"), std::string::npos) << sources[1].damage;
  EXPECT_NE(sources[2].damage.find("the run ended before its record began"), std::string::npos) << sources[2].damage;
  EXPECT_THROW(
      try { find_sources({(folder.path() / "n16").string()}); } catch (const EnvironmentError& error) {
        EXPECT_NE(error.text().find("a run that failed: srun: error"), std::string::npos) << error.text();
        throw;
      },
      EnvironmentError);
}

TEST(FoundLogs, CompressedLogsAndOwnTablesAreToldNotPassedOver) {
  core::TempDir folder;
  std::filesystem::create_directories(folder.path() / "n8");
  core::write_file_atomic(folder.path() / "n8" / "out.log.gz", "\x1f\x8b\x08");
  core::write_file_atomic(folder.path() / "n4.log", kClipLine);
  core::write_file_atomic(folder.path() / "weights.tar.gz", "\x1f\x8b\x08");
  const std::vector<RunSummary> runs = load_sources(find_sources({folder.path().string()}), {});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_NE(runs[1].unusable.find("is compressed"), std::string::npos) << runs[1].unusable;
  core::TempDir tables;
  core::write_file_atomic(tables.path() / "steps.csv", "step,time,loss\n0,0.5,7\n");
  try {
    find_sources({tables.path().string()});
    FAIL() << "a table without step times was taken";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("its first line is 'step,time,loss'"), std::string::npos) << error.text();
  }
}

TEST(FoundLogs, ALogWithMeasurementsBesideARecordIsTold) {
  core::TempDir folder;
  std::filesystem::create_directories(folder.path() / "ours");
  core::write_file_atomic(folder.path() / "ours" / "run.json", "{}");
  core::write_file_atomic(folder.path() / "theirs.log", kClipLine);
  const std::vector<Source> sources = find_sources({folder.path().string()});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[1].name, "theirs.log");
  EXPECT_NE(sources[1].damage.find("holds measurements (openclip) and lies beside records of runs"), std::string::npos) << sources[1].damage;
}

TEST(FoundLogs, RunsOfOneSizeAThousandfoldApartAreNotPooled) {
  const auto run = [](const char* name, double ms) { return summarise_run(testing::make_run({.name = name, .step_ms = ms}), {}); };
  try {
    analyse({run("a", 500), run("b", 0.5)}, {});
    FAIL() << "seconds and milliseconds were pooled";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("no repeats and are not pooled"), std::string::npos) << error.text();
  }
  EXPECT_NO_THROW(analyse({run("a", 500), run("b", 50)}, {}));
}

}  // namespace
}  // namespace lockstep::report
