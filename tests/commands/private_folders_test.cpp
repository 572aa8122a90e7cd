// Folders that the user of a command may not read: the rest is told, and nothing that is private counts as absent.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

/// Root reads everything, unless it gives that right away.
ProgramResult run_without_override(std::vector<std::string> argv) {
  if (::geteuid() == 0)
    argv.insert(argv.begin(), {"/usr/bin/env", "setpriv", "--bounding-set=-dac_override,-dac_read_search"});
  return run_program(std::move(argv));
}

class PrivateFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    make_private(path("probe"));
    const bool is_refused = run_without_override({"/bin/ls", path("probe")}).exit_code == 2;
    make_readable(path("probe"));
    if (!is_refused) GTEST_SKIP() << "no folder can be made that this user may not read";
    core::write_file_atomic(
        path("program"),
        "#!/bin/bash\n[[ \"$*\" =~ --name=([0-9]+) ]]\necho ${BASH_REMATCH[1]} >>'" + path("calls") + "'\n");
    ::chmod(path("program").c_str(), 0755);
    core::write_file_atomic(path("s.toml"), "name = \"s\"\nout = \"" + top_.path().string() + "\"\nprogram = \"" +
                                                path("program") +
                                                "\"\n[axes]\nnodes = [1, 2, 3]\n[train]\nmodel = \"ViT-B-32\"\n"
                                                "train-data = \"d.tar\"\nbatch-size = 8\n");
  }
  void TearDown() override {
    for (const fs::path& folder : private_) make_readable(folder);
  }
  std::string path(const std::string& name) const { return (top_.path() / name).string(); }
  void make_private(const fs::path& folder) {
    fs::create_directories(folder);
    fs::permissions(folder, fs::perms::none);
    private_.push_back(folder);
  }
  static void make_readable(const fs::path& folder) { fs::permissions(folder, fs::perms::owner_all); }
  static ProgramResult run(std::vector<std::string> words) {
    words.insert(words.begin(), lockstep_program());
    return run_without_override(std::move(words));
  }
  /// "finished planned finished ", as sweep.json has it.
  std::string states() const {
    std::string text;
    const core::Json json = core::read_json_file(path("s/sweep.json"));
    for (const core::Json& point : json.at("points")) text += point.at("state").get<std::string>() + " ";
    return text;
  }
  fs::path run_of(size_t position) const {
    const core::Json json = core::read_json_file(path("s/sweep.json"));
    return fs::path(path("s")) / json.at("points").at(position).at("run").get<std::string>();
  }
  std::string calls() const { return fs::exists(path("calls")) ? core::read_file(path("calls")) : ""; }

  core::TempDir top_{"lockstep_private"};
  std::vector<fs::path> private_;
};

/// The record of a run of 300 steps of at least `step_ms`.
void write_run(const fs::path& folder, int step_ms = 100) {
  fs::create_directories(folder);
  const core::Json setup = {{"task", "clip"}, {"nodes", 1}, {"devices", 2}, {"global_batch", 64}};
  core::write_file_atomic(folder / "run.json",
                          core::Json{{"record_version", 1}, {"attempts", {{{"attempt", 1}, {"setup", setup}}}}}.dump());
  std::string steps;
  for (int i = 0; i < 300; ++i)
    steps += core::Json{{"attempt", 1}, {"step", i}, {"samples", 64}, {"step_ms", step_ms + i * 37 % 23}, {"loss", 2.5}}
                 .dump() +
             "\n";
  core::write_file_atomic(folder / "steps.jsonl", steps);
}

TEST_F(PrivateFolders, APointThatCannotBeReadEndsNoSweepAndIsNotStarted) {
  ASSERT_EQ(run({"sweep", path("s.toml")}).exit_code, 0);
  make_private(run_of(1));
  const auto status = run({"sweep", "status", path("s"), "--json"});
  ASSERT_EQ(status.exit_code, 0) << status.err;
  const core::Json points = core::parse_json(status.out, "status").at("points");
  EXPECT_EQ(points.at(0).at("message"), "");
  EXPECT_NE(points.at(1).at("message").get<std::string>().find(run_of(1).string()), std::string::npos) << status.out;
  EXPECT_NE(points.at(1).at("message").get<std::string>().find("Permission denied"), std::string::npos) << status.out;
  const auto local = run({"sweep", path("s.toml"), "--local"});
  EXPECT_EQ(local.exit_code, 0) << local.err;
  EXPECT_NE(local.err.find("not started: 0002"), std::string::npos) << local.err;
  EXPECT_EQ(states(), "finished planned finished ");
  EXPECT_EQ(calls(), "0001\n0003\n");
  const auto collected = run({"sweep", "collect", path("s")});
  EXPECT_EQ(collected.exit_code, 0) << collected.err;
  const auto resumed = run({"sweep", "resume", path("s")});
  EXPECT_EQ(resumed.exit_code, 6) << resumed.out;
  EXPECT_NE(resumed.err.find("1 of 3 points"), std::string::npos) << resumed.err;
  EXPECT_EQ(calls(), "0001\n0003\n");
  make_readable(run_of(1));
  EXPECT_EQ(run({"sweep", "resume", path("s")}).exit_code, 0);
  EXPECT_EQ(states(), "finished finished finished ");
  EXPECT_EQ(calls(), "0001\n0003\n0002\n");
}

TEST_F(PrivateFolders, EndedPointsStayAsTheyEndedWhenTheirFoldersBecomePrivate) {
  ASSERT_EQ(run({"sweep", path("s.toml"), "--local"}).exit_code, 0);
  make_private(run_of(1));
  for (const char* below : {"runs", "jobs", "logs", ""}) {
    if (*below != '\0') make_private(fs::path(path("s")) / below);
    for (const char* command : {"status", "collect", "resume"}) {
      const auto result = run({"sweep", command, path("s")});
      EXPECT_EQ(result.exit_code, 0) << command << " '" << below << "': " << result.err;
      EXPECT_EQ(states(), "finished finished finished ") << command << " '" << below << "'";
    }
    if (*below != '\0') make_readable(fs::path(path("s")) / below);
  }
  EXPECT_EQ(calls(), "0001\n0002\n0003\n");
}

TEST_F(PrivateFolders, AReportTellsOfTheOtherRuns) {
  write_run(path("logs/open"));
  write_run(path("logs/closed/run"));
  make_private(path("logs/closed"));
  const auto report = run({"report", path("logs"), "--json"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const core::Json runs = core::parse_json(report.out, "report").at("runs");
  ASSERT_EQ(runs.size(), 1u) << report.out.substr(0, 3000);
  EXPECT_EQ(runs.at(0).at("name"), "open");
  EXPECT_NE(report.err.find("logs/closed' cannot be read"), std::string::npos) << report.err;
}

TEST_F(PrivateFolders, AReportTellsOfAFolderThatItMayListAndNotSearch) {
  write_run(path("logs/open"));
  write_run(path("logs/closed/run"));
  make_private(path("logs/closed"));
  fs::permissions(path("logs/closed"), fs::perms::owner_read);
  const auto report = run({"report", path("logs"), "--json"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_EQ(core::parse_json(report.out, "report").at("runs").size(), 1u) << report.out.substr(0, 3000);
  EXPECT_NE(
      report.err.find("logs/closed' is left out; the first: '" + path("logs/closed/run") + "': Permission denied"),
      std::string::npos)
      << report.err;
}

TEST_F(PrivateFolders, AReportOfASweepLeavesOutThePrivatePointInWords) {
  ASSERT_EQ(run({"sweep", path("s.toml"), "--local"}).exit_code, 0);
  write_run(path("open"));
  write_run(run_of(0), 101);  // another than that one, else it is taken for its copy
  make_private(run_of(1));
  write_run(run_of(2), 102);
  for (const bool is_all_private : {false, true}) {
    if (is_all_private) make_private(path("s/runs"));
    const auto report = run({"report", path("s"), path("open"), "--json"});
    ASSERT_EQ(report.exit_code, 0) << report.err;
    const core::Json left = core::parse_json(report.out, "report").at("left_out");
    ASSERT_EQ(left.size(), is_all_private ? 3u : 1u) << report.out.substr(0, 3000);
    for (const core::Json& one : left) {
      const std::string reason = one.at("reason");
      EXPECT_NE(reason.find("Permission denied"), std::string::npos) << reason;
      EXPECT_EQ(reason.find("left no record"), std::string::npos) << reason;
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
