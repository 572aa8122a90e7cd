// What a folder's search tells of files that it does not report.
#include "analysis/sources.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/analyse.h"
#include "analysis/curve.h"
#include "core/error.h"
#include "core/files.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

const std::string kClipLine =
    "2026-01-01,12:00:00 | INFO | Train Epoch: 0 [1024/10240000 (9%)] Data (t): 0.031 Batch (t): 1.217, 841.3/s, "
    "105.2/s/gpu LR: 0.000012 Logit Scale: 14.286 Loss: 8.3 (8.4)\n";
const std::string kOutOfMemory =
    "Traceback (most recent call last):\n  File \"train.py\", line 1\ntorch.OutOfMemoryError: CUDA out of "
    "memory\nsrun: error: n1: task 0: Out Of Memory\n";

TEST(FoundLogs, AFailedRunWithoutAStepIsToldBesideTheOthers) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "n8_r1.log", kClipLine);
  core::write_file_atomic(folder.path() / "n16_r1.log", kOutOfMemory);
  core::write_file_atomic(folder.path() / "notes.txt", "nothing of a run\n");
  const std::vector<Source> sources = find_sources({folder.path().string()});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].name, "n8_r1.log");
  EXPECT_EQ(sources[1].name, "n16_r1.log");
  EXPECT_NE(sources[1].damage.find("it ends as that of a run that failed: srun: error"), std::string::npos)
      << sources[1].damage;
}

TEST(FoundLogs, WhatCannotBeReadEndsNoReport) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "n8_r1.log", kClipLine);
  std::filesystem::create_directory_symlink("loop", folder.path() / "loop");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe.log").c_str(), 0600), 0);  // nobody writes: reading it would wait
  std::filesystem::create_directories(folder.path() / "private");
  core::write_file_atomic(folder.path() / "private" / "run.json", "{}");
  std::filesystem::permissions(folder.path() / "private", std::filesystem::perms::none);
  // Root reads everything: the search runs in a process of another user.
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(9);
    try {
      ::_exit(find_sources({folder.path().string()}).size() == 1 ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::filesystem::permissions(folder.path() / "private", std::filesystem::perms::all);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(FoundLogs, LinksToFoldersAboveAreNotFollowed) {
  const core::TempDir folder;
  std::filesystem::create_directory(folder.path() / "a");
  core::write_file_atomic(folder.path() / "a/table.log", "nothing measured\n");
  for (int i = 0; i < 12; ++i)  // ever more ways with each level: nobody sees the end of them
    std::filesystem::create_directory_symlink("..", folder.path() / fmt::format("a/link{}", i));
  std::vector<Source> sources;
  try {
    sources = find_sources({folder.path().string()});
  } catch (const Error&) {
  }
  EXPECT_LE(sources.size(), 1u);
}

TEST(FoundLogs, AFailedRunInAFolderOfItsOwnIsToldWithItsLastWords) {
  core::TempDir folder;
  for (const char* name : {"n8", "n16", "n32"}) std::filesystem::create_directories(folder.path() / name);
  core::write_file_atomic(folder.path() / "n8" / "out.log", kClipLine);
  core::write_file_atomic(folder.path() / "n16" / "out.log", kOutOfMemory);
  core::write_file_atomic(folder.path() / "n32" / "out.log", "nothing of a failure\n");
  const std::vector<Source> sources = find_sources({folder.path().string()});
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_NE(sources[1].damage.find("its out.log ends as that of a run that failed: srun: error"), std::string::npos)
      << sources[1].damage;
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
  EXPECT_NE(sources[1].damage.find("holds measurements (openclip) and lies beside records of runs"), std::string::npos)
      << sources[1].damage;
}

/// A run by its size and step; of a guessed unit where asked.
RunSummary run_of(const char* name, int nodes, double ms, bool is_unit_guessed = false) {
  record::RunData run = tests::make_run({.name = name, .nodes = nodes, .step_ms = ms});
  run.is_unit_guessed = is_unit_guessed;
  return summarise_run(std::move(run), {});
}

std::vector<std::string> names_of(const Analysis& analysis, const std::vector<size_t>& runs) {
  std::vector<std::string> names;
  for (const size_t index : runs) names.push_back(analysis.runs[index].name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Disagreement, ARunFarFromItsRepeatsIsLeftOutInWordsAndTheRestIsReported) {
  const Analysis analysis = analyse({run_of("n1", 1, 100), run_of("n4a", 4, 110), run_of("n4b", 4, 16500)}, {});
  ASSERT_EQ(analysis.curves.size(), 1u);
  ASSERT_EQ(analysis.curves[0].points.size(), 2u);
  EXPECT_EQ(names_of(analysis, analysis.curves[0].points[1].runs), Names{"n4a"}) << "of two the faster";
  EXPECT_NEAR(analysis.curves[0].points[1].efficiency.value, 100.0 / 110, 0.01);
  ASSERT_EQ(analysis.left_out.size(), 1u);
  EXPECT_EQ(analysis.runs[analysis.left_out[0].run].name, "n4b");
  const std::string& reason = analysis.left_out[0].reason;
  EXPECT_NE(reason.find("those of n4a, a run of the same size"), std::string::npos) << reason;
  EXPECT_NE(reason.find("its steps take 16494 ms"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("seconds and"), std::string::npos) << "own records tell their unit";
  EXPECT_NE(analysis.left_out[0].conclusion.find("the point stands on the faster"), std::string::npos)
      << analysis.left_out[0].conclusion;

  const Analysis majority = analyse({run_of("n4c", 4, 16500), run_of("n4a", 4, 110), run_of("n4b", 4, 16600)}, {});
  EXPECT_EQ(names_of(majority, majority.curves.at(0).points.at(0).runs), (Names{"n4c", "n4b"})) << "the larger set";
  ASSERT_EQ(majority.left_out.size(), 1u);
  EXPECT_NE(majority.left_out[0].conclusion.find("stands on the runs that agree"), std::string::npos);
  EXPECT_EQ(analyse({run_of("a", 1, 500), run_of("b", 1, 50)}, {}).left_out.size(), 0u) << "tenfold apart are repeats";
}

TEST(Disagreement, WhereTheUnitWasGuessedThePointGoesAndOnlyItUnlessItIsAllThereIs) {
  constexpr bool kGuessed = true;
  const Analysis analysis = analyse(
      {run_of("n1", 1, 100), run_of("n4a", 4, 110, kGuessed), run_of("n4b", 4, 0.11, kGuessed), run_of("n2", 2, 105)},
      {});
  ASSERT_EQ(analysis.curves.size(), 1u);
  ASSERT_EQ(analysis.curves[0].points.size(), 2u);
  EXPECT_EQ(analysis.curves[0].points[1].size, 2);
  ASSERT_EQ(analysis.left_out.size(), 2u);
  for (const LeftOut& left : analysis.left_out) {
    EXPECT_NE(left.reason.find("most likely some are seconds and some milliseconds"), std::string::npos) << left.reason;
    EXPECT_NE(left.conclusion.find("step_time_ms"), std::string::npos) << left.conclusion;
  }
  try {
    analyse({run_of("a", 1, 500, kGuessed), run_of("b", 1, 0.5, kGuessed)}, {});
    FAIL() << "seconds and milliseconds were pooled";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("no repeats and are not pooled"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("seconds and the other milliseconds"), std::string::npos) << error.text();
  }
}

}  // namespace
}  // namespace lockstep::analysis
