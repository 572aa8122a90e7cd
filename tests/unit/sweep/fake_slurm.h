#pragma once
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/files.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_folder.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// A folder of programs that stand in for SLURM's, first in PATH while it lives.
class FakePrograms {
 public:
  FakePrograms() : old_path_(std::getenv("PATH")) {
    ::setenv("PATH", (folder_.path().string() + ":" + old_path_).c_str(), 1);
  }
  ~FakePrograms() { ::setenv("PATH", old_path_.c_str(), 1); }
  void add(const std::string& name, const std::string& script) const {
    core::write_file_atomic(path(name), "#!/bin/bash\n" + script);
    ::chmod(path(name).c_str(), 0755);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string read(const std::string& name) const {
    return std::filesystem::exists(path(name)) ? core::read_file(path(name)) : "";
  }
  void write(const std::string& name, const std::string& text) const { core::write_file_atomic(path(name), text); }
  /// sbatch that notes its arguments and counts up from 101.
  void add_sbatch() const {
    add("sbatch", "echo \"$@\" >>'" + path("sbatch.log") + "'\nn=$(($(cat '" + path("count") +
                      "' 2>/dev/null || echo 100) + 1))\necho $n >'" + path("count") + "'\necho $n\n");
  }

 private:
  core::TempDir folder_{"fake-slurm"};
  std::string old_path_;
};

/// A sweep folder of a small CLIP sweep; `more` is put into the file.
struct SweepFixture {
  core::TempDir top{"sweep-test"};
  std::filesystem::path folder;
  SweepFile file;
  Plan plan;
  SweepState state;

  explicit SweepFixture(const std::string& more = "", const std::string& program = "/bin/true") {
    file = parse_sweep_file(
        "name = \"s\"\n[axes]\nnodes = [1, 2, 4]\n[train]\nmodel = \"ViT-B-32\"\ntrain-data = \"d.tar\"\n" + more,
        "f.toml");
    plan = make_plan(file, [](const std::string&) { return std::nullopt; });
    folder = sweep_folder(plan, top.path().string());
    std::filesystem::create_directories(folder);
    state = write_sweep(file, plan, folder, program);
  }
  PointRecord& point(size_t position) { return state.points.at(position); }
  /// What a job script would have noted.
  void note(size_t position, const std::string& event, const std::string& job, int restart, int64_t time_s,
            const std::string& code) {
    std::ofstream(folder / point(position).events, std::ios::app)
        << R"({"event":")" << event << R"(","job":")" << job << R"(","restart":)" << restart << R"(,"time_s":)"
        << time_s << R"(,"nodes":"node1","exit_code":)" << code << "}\n";
  }
  /// A record whose status.json says this.
  void record(size_t position, const std::string& state_text, const std::string& message, double heartbeat_s) {
    const auto run = folder / point(position).run;
    std::filesystem::create_directories(run);
    const core::Json status = {{"record_version", 1}, {"state", state_text},        {"attempt", 1},
                               {"started_s", 1000},   {"heartbeat_s", heartbeat_s}, {"heartbeat_every_s", 10},
                               {"last_step", 7},      {"exit_code", nullptr},       {"first_failing_rank", nullptr},
                               {"message", message},  {"dropped_lines", 0}};
    core::write_file_atomic(run / "status.json", status.dump());
  }
};

}  // namespace lockstep::sweep
