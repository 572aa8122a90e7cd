// `lockstep sweep` as users type it, with a stand-in for the program that the points run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/process.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

class SweepCommand : public ::testing::Test {
 protected:
  /// A program for points: appends its words and $MARK to `calls`, then does what the file "do-INDEX" of the top folder
  /// says.
  SweepCommand() {
    std::ofstream(top_.path() / "program")
        << "#!/bin/bash\necho \"$MARK $@\" >>'" << path("calls")
        << "'\n[[ \"$*\" =~ --name=([0-9]+) ]]\nindex=${BASH_REMATCH[1]}\n"
        << "if [ -e '" << path("do-") << "'$index ]; then . '" << path("do-") << "'$index; fi\n";
    ::chmod(path("program").c_str(), 0755);
  }
  std::string path(const std::string& name) const { return (top_.path() / name).string(); }
  void point_does(const std::string& index, const std::string& script) const {
    core::write_file_atomic(path("do-" + index), script);
  }
  std::string sweep_file(const std::string& more = "") const {
    core::write_file_atomic(path("s.toml"), "name = \"s\"\nout = \"" + path("out") + "\"\nprogram = \"" +
                                                path("program") +
                                                "\"\nranks-per-node = 2\n[axes]\nnodes = [1, 2, 3]\n[train]\nmodel = "
                                                "\"ViT-B-32\"\ntrain-data = \"d.tar\"\nbatch-size = 8\n[env]\nMARK "
                                                "= \"nodes ${nodes}\"\n" +
                                                more);
    return path("s.toml");
  }
  std::string folder() const { return path("out/s"); }
  core::Json state() const { return core::read_json_file(folder() + "/sweep.json"); }
  std::string states() const {
    std::string text;
    const core::Json json = state();
    for (const auto& point : json.at("points")) text += point.at("state").get<std::string>() + " ";
    return text;
  }
  std::vector<std::string> calls() const {
    if (!fs::exists(path("calls"))) return {};
    auto lines = core::split(core::read_file(path("calls")), "\n");
    lines.pop_back();
    return lines;
  }
  core::Process start_local(const std::string& file) const {
    return core::Process::spawn(
        {.argv = {"/bin/sh", "-c", "exec \"$0\" sweep \"$1\" --local >\"$2\"", lockstep_program(), file, path("said")},
         .err = core::ProcessOptions::Stream::kNull});
  }
  void wait_for_file(const std::string& name) const {
    for (int i = 0; i < 6000 && !fs::exists(path(name)); ++i) ::usleep(5000);
    ASSERT_TRUE(fs::exists(path(name))) << name;
  }

  core::TempDir top_{"lockstep_sweep"};
};

TEST_F(SweepCommand, DryRunSaysWhatFitsAndWhereTensorRanksCrossNodes) {
  core::write_file_atomic(path("g.toml"),
                          "name = \"g\"\ncommand = \"train gpt\"\nranks-per-node = 4\n[axes]\nnodes = [2]\n"
                          "tensor-model-parallel-size = [1, 8]\n[train]\nmodel = \"13b\"\nbf16 = true\n"
                          "mock-data = true\ntrain-iters = 10\nlr = 1e-4\nattention-dropout = 0\n");
  const auto shown = run_lockstep({"sweep", path("g.toml"), "--dry-run", "--device-memory", "H100 80GB", "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const core::Json plan = core::Json::parse(shown.out);
  EXPECT_EQ(plan.at("points").at(0).at("memory_per_rank").at("fits"), false);
  EXPECT_EQ(plan.at("points").at(1).at("memory_per_rank").at("fits"), true);
  EXPECT_EQ(plan.at("points").at(1).at("nodes_of_tensor_group"), 2);
  const std::string warnings = plan.at("warnings").dump();
  EXPECT_NE(warnings.find("point 0001: too large: "), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("point 0002: tensor ranks of one group lie on 2 nodes of 4 ranks"), std::string::npos)
      << warnings;
  const auto table = run_lockstep({"sweep", path("g.toml"), "--dry-run", "--target-device", "80G"});
  EXPECT_NE(table.out.find("  fits"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("  no "), std::string::npos) << table.out;
  for (const std::string& line : core::split(table.out, "\n")) EXPECT_LE(line.size(), 80u) << line;
  const auto bytes = static_cast<int64_t>(plan.at("points").at(1).at("memory_per_rank").at("bytes").get<double>());
  const auto narrow =
      run_lockstep({"sweep", path("g.toml"), "--dry-run", "--device-memory", std::to_string(bytes + 1), "--json"});
  EXPECT_EQ(core::Json::parse(narrow.out).at("points").at(1).at("memory_per_rank").at("is_doubtful"), true)
      << narrow.out;
  EXPECT_EQ(run_lockstep({"sweep", path("g.toml"), "--device-memory", "H100 80GB"}).exit_code, 2);
}

TEST_F(SweepCommand, OneWarningNamesAllPointsThatItIsAbout) {
  core::write_file_atomic(path("w.toml"),
                          "name = \"w\"\ncommand = \"train gpt\"\nranks-per-node = 4\n[axes]\nnodes = [2, 4, 8]\n"
                          "[train]\nmodel = \"13b\"\nbf16 = true\nmock-data = true\ntrain-iters = 10\nlr = 1e-4\n");
  const auto shown = run_lockstep({"sweep", path("w.toml"), "--dry-run", "--device-memory", "A100 40GB"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("warning: points 0001, 0002, 0003: too large: "), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("too large"), shown.out.rfind("too large")) << shown.out;
}

TEST_F(SweepCommand, DeviceHoursStandBesideNodeHours) {
  const auto gpus =
      run_lockstep({"sweep", sweep_file("[slurm]\ntime = \"01:00:00\"\ngpus-per-node = \"a100:4\"\n"), "--dry-run"});
  EXPECT_NE(gpus.out.find("at most 6.00 node-hours = 24.00 GPU-hours\n"), std::string::npos) << gpus.out << gpus.err;
  const auto cores =
      run_lockstep({"sweep", sweep_file("[slurm]\ntime = \"01:00:00\"\ncpus-per-task = 8\n"), "--dry-run", "--json"});
  const core::Json plan = core::parse_json(cores.out, "plan");
  EXPECT_EQ(plan.at("device_hours").at("core-hours"), 6 * 2 * 8) << cores.out;
}

TEST_F(SweepCommand, DryRunShowsEveryPointAndWritesNothing) {
  const auto shown = run_lockstep(
      {"sweep", sweep_file("[slurm]\ntime = \"01:00:00\"\n[billing]\nunit = \"GPU-h\"\nper-node-hour = 4\n"),
       "--dry-run"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  for (const char* row :
       {" 0003      3       1      6            8            48  2.50 GiB     01:00:00\n", " 0003        3.00\n"})
    EXPECT_NE(shown.out.find(row), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("3 points; at most 6.00 node-hours = 24.0 GPU-h\n"), std::string::npos) << shown.out;
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_NE(shown.out.find("warning: every point: --train-data"), std::string::npos)
      << "d.tar is not here: " << shown.out;
  const auto json = run_lockstep({"sweep", "run", sweep_file(), "--dry-run", "--json"});
  EXPECT_EQ(core::parse_json(json.out, "dry run").at("points").at(1).at("ranks"), 4);
}

TEST_F(SweepCommand, ShippedSweepsExpand) {
  const auto demo =
      core::run_command({.argv = {lockstep_program(), "sweep", "recipes/sweeps/clip_demo.toml", "--dry-run"},
                         .working_folder = LOCKSTEP_SOURCE_DIR},
                        60s);
  EXPECT_EQ(demo.status.code, 0) << demo.err;
  const auto latency = core::run_command(
      {.argv = {lockstep_program(), "sweep", "recipes/sweeps/clip_latency.toml", "--dry-run", "--json"},
       .working_folder = LOCKSTEP_SOURCE_DIR},
      60s);
  ASSERT_EQ(latency.status.code, 0) << latency.err;
  EXPECT_EQ(core::parse_json(latency.out, "dry run").at("points").size(), 6u) << "fp16 is for GPUs";
  const std::string jupiter = std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/sweeps/clap_jupiter.toml";
  const std::vector<std::string> site{"ACCOUNT=a", "PARTITION=p", "SCRATCH=/s"};
  const auto nowhere = run_lockstep({"sweep", jupiter, "--dry-run", "--set", site[0], site[1]});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_NE(nowhere.err.find("${SCRATCH} is not set"), std::string::npos) << nowhere.err;
  const auto clap = run_lockstep({"sweep", jupiter, "--dry-run", "--json", "--set", site[0], site[1], site[2]});
  ASSERT_EQ(clap.exit_code, 0) << clap.err;
  const auto plan = core::parse_json(clap.out, "dry run");
  ASSERT_EQ(plan.at("points").size(), 16u);
  for (const auto& point : plan.at("points")) {
    const int64_t nodes = point.at("nodes");
    EXPECT_EQ(point.at("time_limit_s"), nodes <= 8 ? 900 : nodes <= 32 ? 1500 : 1800) << nodes;
    EXPECT_EQ(point.at("samples_per_replica"), point.at("axes").at("case") == "tiny" ? 616 : 416);
    EXPECT_EQ(point.at("env").contains("NCCL_BUFFSIZE"), nodes >= 16) << nodes;
    EXPECT_EQ(point.at("ranks"), 4 * nodes);
  }
}

TEST_F(SweepCommand, TheVisionStudyHasWeakAndStrongScalingInTwoPrecisions) {
  const auto run = core::run_command(
      {.argv = {lockstep_program(), "sweep", "recipes/sweeps/resnet50_epicure.toml", "--dry-run", "--json", "--set",
                "ACCOUNT=a", "PARTITION=p", "SCRATCH=/s", "DATA=/not/here", "NODES=1-8*2", "BATCH=128"},
       .working_folder = LOCKSTEP_SOURCE_DIR},
      60s);
  ASSERT_EQ(run.status.code, 0) << run.err;  // the data need not be on the login node
  const auto plan = core::parse_json(run.out, "dry run");
  ASSERT_EQ(plan.at("points").size(), 16u);
  for (const auto& point : plan.at("points")) {
    const int64_t nodes = point.at("nodes");
    const bool is_weak = point.at("axes").at("case") == "weak";
    EXPECT_EQ(point.at("ranks"), 4 * nodes);
    EXPECT_EQ(point.at("samples_per_replica"), is_weak ? 128 : 128 / nodes) << point.dump(1);
  }
}

TEST_F(SweepCommand, MistakesAreUsageErrorsWithTheLine) {
  const auto bad = run_lockstep({"sweep", sweep_file("[submit]\nin-fligt = 2\n"), "--submit"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("s.toml:14: 'in-fligt' is unknown in [submit]"), std::string::npos) << bad.err;
  EXPECT_NE(bad.err.find("did you mean 'in-flight'?"), std::string::npos) << bad.err;
  EXPECT_EQ(run_lockstep({"sweep", sweep_file(), "--local", "--submit"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"sweep", sweep_file(), "--dry-run", "--set", "ACCOUNT"}).exit_code, 2);
  const auto unused =
      run_lockstep({"sweep", sweep_file("[slurm]\naccount = \"${ACCOUNT}\"\n"), "--dry-run", "--set", "ACOUNT=a"});
  EXPECT_EQ(unused.exit_code, 2);
  EXPECT_NE(unused.err.find("--set ACOUNT"), std::string::npos) << unused.err;
  const auto long_word =
      run_lockstep({"sweep", sweep_file("# " + std::string(300'000, 'a') + "\n"), "--dry-run", "--set", "ACOUNT=a"});
  EXPECT_EQ(long_word.exit_code, 2) << long_word.err.substr(0, 1000);
  EXPECT_NE(long_word.err.find("--set ACOUNT"), std::string::npos) << long_word.err.substr(0, 1000);
  EXPECT_NE(unused.err.find("asks for no variable of that name"), std::string::npos) << unused.err;
  EXPECT_NE(unused.err.find("ACCOUNT"), std::string::npos) << unused.err;
  const auto used =
      run_lockstep({"sweep", sweep_file("[slurm]\naccount = \"${ACCOUNT}\"\n"), "--dry-run", "--set", "ACCOUNT=a"});
  EXPECT_EQ(used.exit_code, 0) << used.err;
  EXPECT_EQ(run_lockstep({"sweep"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"sweep", path("none.toml")}).exit_code, 2);
  for (const char* command : {"status", "resume", "collect", "cancel"}) {
    const auto refused = run_lockstep({"sweep", command, path("nowhere")});
    EXPECT_EQ(refused.exit_code, 2) << command;
    EXPECT_NE(refused.err.find("is no sweep"), std::string::npos) << refused.err;
    EXPECT_NE(run_lockstep({"sweep", command, "--help"}).out.find("DIR"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(path("nowhere")));
}

TEST_F(SweepCommand, WithoutAFlagTheScriptsAreWritten) {
  const auto written =
      run_lockstep({"sweep", sweep_file("[slurm]\npartition = \"${PARTITION}\"\n"), "--set", "PARTITION=fast"});
  EXPECT_EQ(written.exit_code, 0) << written.err;
  const std::string script = core::read_file(folder() + "/jobs/0002.sh");
  EXPECT_NE(script.find("#SBATCH --partition=fast\n"), std::string::npos) << script;
  const auto syntax = run_program({"/bin/bash", "-n", folder() + "/jobs/0002.sh"});
  EXPECT_EQ(syntax.exit_code, 0) << syntax.err;
  EXPECT_EQ(states(), "planned planned planned ");
  const auto early = run_lockstep({"sweep", "resume", folder()});
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_NE(early.err.find("was started yet"), std::string::npos) << early.err;
}

TEST_F(SweepCommand, LocalRunsEveryPointAndResumeOnlyWhatFailed) {
  point_does("0002", "echo broken; exit 4\n");
  const auto first = run_lockstep({"sweep", sweep_file(), "--local"});
  EXPECT_EQ(first.exit_code, 4) << first.err;
  EXPECT_EQ(states(), "finished failed finished ");
  ASSERT_EQ(calls().size(), 3u);
  EXPECT_TRUE(core::starts_with(
      calls()[1],
      "nodes 2 launch --nproc-per-node 4 -- train clip --model=ViT-B-32 --train-data=d.tar --batch-size=8 --logs="))
      << calls()[1];
  EXPECT_TRUE(core::ends_with(calls()[1], " --name=0002-nodes_2 --resume=latest")) << calls()[1];
  EXPECT_EQ(core::read_file(folder() + "/logs/0002.out"), "broken\n");
  const auto status = run_lockstep({"sweep", "status", folder()});
  EXPECT_NE(status.out.find("exit code 4; see logs/0002.out"), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("s: 3 points: 1 failed, 2 finished"), std::string::npos) << status.out;
  // --local again leaves failed points alone; resume does not.
  EXPECT_NE(run_lockstep({"sweep", sweep_file(), "--local"}).out.find("nothing is left to start"), std::string::npos);
  const auto mixed = run_lockstep({"sweep", sweep_file(), "--submit"});
  EXPECT_EQ(mixed.exit_code, 2) << "one sweep runs in one way";
  EXPECT_NE(mixed.err.find("ran on this machine"), std::string::npos) << mixed.err;
  point_does("0002", "exit 0\n");
  EXPECT_EQ(run_lockstep({"sweep", "resume", folder()}).exit_code, 0);
  EXPECT_EQ(states(), "finished finished finished ");
  EXPECT_EQ(calls().size(), 4u);
  EXPECT_NE(run_lockstep({"sweep", "resume", folder()}).out.find("every point has finished"), std::string::npos);
  const auto collected = run_lockstep({"sweep", "collect", folder(), "--json"});
  EXPECT_EQ(collected.exit_code, 0) << collected.err;
  const auto json = core::parse_json(collected.out, "collect");
  EXPECT_EQ(json.at("job_starts"), 4);
  EXPECT_EQ(json.at("failed_job_starts"), 1);
  EXPECT_EQ(json.at("points").at(1).at("jobs"), 2);
  const auto csv = core::split(core::read_file(folder() + "/collected.csv"), "\n");
  ASSERT_EQ(csv.size(), 5u);
  EXPECT_TRUE(core::starts_with(csv[0], "point,repeat,nodes,ranks,samples_per_replica,global_batch,state,")) << csv[0];
  EXPECT_TRUE(core::starts_with(csv[2], "2,1,2,4,8,32,finished,")) << csv[2];
}

/// A sweep of two precisions; its program writes the result that bench latency would, after the file "do-INDEX".
class BenchSweepCommand : public SweepCommand {
 protected:
  BenchSweepCommand() {
    std::ofstream(top_.path() / "program")
        << "#!/bin/bash\necho \"$@\" >>'" << path("calls")
        << "'\n[[ \"$*\" =~ --precisions=([a-z0-9]+).*--output=(.*/([0-9]+)[^/]*) ]]\nindex=${BASH_REMATCH[3]}\n"
        << "out=${BASH_REMATCH[2]} precision=${BASH_REMATCH[1]}\n"
        << "if [ -e '" << path("do-") << "'$index ]; then . '" << path("do-") << "'$index; fi\n"
        << "echo '{\"format\": \"lockstep-bench-1\", \"case\": \"latency\", \"summary\": {\"num_wrong\": 0}, \"rows\": "
           "["
        << R"({"model": "ViT-B-32", "precision": "'$precision'", "from": "pixels", "tower": "both", "batch": 8,)"
        << R"( "p50_ms": 40, "p50_low_ms": 39, "p50_high_ms": 42}, {"model": "ViT-B-32", "precision": "'$precision'",)"
        << R"( "from": "pixels", "tower": "both", "batch": 1, "p50_ms": 9}]}' >"$out")"
        << "\n";
    ::chmod(path("program").c_str(), 0755);
  }
  std::string bench_file() const {
    core::write_file_atomic(path("b.toml"), "name = \"s\"\nout = \"" + path("out") + "\"\nprogram = \"" +
                                                path("program") +
                                                "\"\ncommand = \"bench latency\"\n[axes]\nprecisions = [\"fp32\", "
                                                "\"bf16\"]\n[bench]\nbatch-size = [1, 8]\n[tags]\nsystem = \"mine\"\n");
    return path("b.toml");
  }
};

TEST_F(BenchSweepCommand, PointsRunFailResumeAndAreReportedBesideThePublishedTable) {
  EXPECT_EQ(run_lockstep({"sweep", bench_file(), "--dry-run"}).exit_code, 0);
  const auto refused = run_lockstep({"sweep", bench_file(), "--dry-run", "--predict-on", "LUMI-G"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_NE(refused.err.find("--predict-on predicts training"), std::string::npos) << refused.err;
  EXPECT_EQ(run_lockstep({"sweep", bench_file(), "--dry-run", "--device-memory", "LUMI-G"}).exit_code, 2);
  point_does("0002", "exit 6\n");
  EXPECT_EQ(run_lockstep({"sweep", bench_file(), "--local"}).exit_code, 6);
  EXPECT_EQ(states(), "finished failed ");
  EXPECT_EQ(calls().at(0), "launch --nproc-per-node 1 -- bench latency --precisions=fp32 --batch-size 1 8 --output=" +
                               folder() + "/runs/0001-precisions_fp32.json");
  point_does("0002", "\n");
  const auto resumed = run_lockstep({"sweep", "resume", folder()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(states(), "finished finished ");
  EXPECT_EQ(calls().size(), 3u) << "what has finished is not measured again";
  const auto report =
      run_lockstep({"report", folder(), std::string(LOCKSTEP_GOLDEN_DIR) + "/published/nemo_clip_inference.csv", "-o",
                    path("page")});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const auto chart = core::split(core::read_file(path("page/figures/latency-batch.csv")), "\n");
  for (const char* line : {"TensorRT B/32 fp16 (nemo_clip_inference.csv)", "both from pixels (mine)"})
    EXPECT_NE(chart.at(0).find(line), std::string::npos) << chart.at(0);
  EXPECT_EQ(core::trim(chart.at(1)), "1,14,32,9,,,9,,") << "published points and one call have no interval";
  EXPECT_NE(chart.at(4).find("40,39,42,40,39,42"), std::string::npos) << chart.at(4);
}

TEST_F(BenchSweepCommand, AskedToStopAPointBeginsAnewLater) {
  point_does("0001", "touch '" + path("up") + "'\nexec sleep 60\n");
  core::Process process = start_local(bench_file());
  wait_for_file("up");
  process.send_signal(SIGINT);
  const auto ended = process.wait_for(30s);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code, 75);
  EXPECT_EQ(states(), "stopped planned ");
  point_does("0001", "\n");
  EXPECT_EQ(run_lockstep({"sweep", bench_file(), "--local"}).exit_code, 0);
  EXPECT_EQ(states(), "finished finished ");
}

TEST_F(SweepCommand, CollectAndReportTellTheSameNumberOfARun) {
  // A restarted run: 300 steps of about 100 ms with a slow start, then 120 steps of 200 ms; the first attempt is the
  // longest.
  std::string steps;
  for (int i = 0; i < 420; ++i) {
    const double ms = i < 300 ? 100 + (i * 37 % 23) * 0.5 + (i < 40 ? 150 : 0) : 200;
    steps +=
        core::Json{
            {"attempt", i < 300 ? 1 : 2}, {"step", i}, {"samples", i < 300 ? 64 : 128}, {"step_ms", ms}, {"loss", 2.5}}
            .dump() +
        "\n";
  }
  core::write_file_atomic(path("steps.jsonl"), steps);
  const auto attempt = [](int number, int devices) {
    return core::Json{
        {"attempt", number},
        {"setup", {{"task", "clip"}, {"nodes", 1}, {"devices", devices}, {"global_batch", 32 * devices}}}};
  };
  core::write_file_atomic(path("run.json"),
                          core::Json{{"record_version", 1}, {"attempts", {attempt(1, 2), attempt(2, 4)}}}.dump());
  point_does("0001",
             "[[ \"$*\" =~ --logs=([^ ]+) ]]; logs=${BASH_REMATCH[1]}\n[[ \"$*\" =~ --name=([^ ]+) ]]\n"
             "mkdir -p \"$logs/${BASH_REMATCH[1]}\"\ncp '" +
                 path("run.json") + "' '" + path("steps.jsonl") + "' \"$logs/${BASH_REMATCH[1]}\"\n");
  const auto ran = run_lockstep({"sweep", sweep_file(), "--local"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto collected = run_lockstep({"sweep", "collect", folder(), "--json"}),
             reported = run_lockstep({"report", folder(), "--json"});
  ASSERT_EQ(collected.exit_code, 0) << collected.err;
  ASSERT_EQ(reported.exit_code, 0) << reported.err;
  const core::Json row = core::parse_json(collected.out, "collect").at("points").at(0),
                   report = core::parse_json(reported.out, "report");
  core::Json run;
  for (const core::Json& one : report.at("runs"))
    if (one.contains("series")) run = one;
  ASSERT_TRUE(run.contains("series")) << reported.out.substr(0, 3000);
  const core::Json& series = run.at("series");
  EXPECT_NEAR(row.at("step_ms").get<double>(), 105.5, 1);
  EXPECT_EQ(row.at("step_ms"), series.at("median_ms"));
  EXPECT_EQ(row.at("step_ms_low"), series.at("median_interval_ms").at(0));
  EXPECT_EQ(row.at("step_ms_high"), series.at("median_interval_ms").at(1));
  EXPECT_EQ(row.at("measured_steps"), series.at("measured_steps"));
  const core::Json& point = report.at("curves").at(0).at("points").at(0);
  EXPECT_NEAR(row.at("samples_per_s").get<double>(), point.at("samples_per_s").at("value").get<double>(), 1e-6);
  EXPECT_NEAR(row.at("samples_per_s").get<double>(), 64 / 0.1055, 6);
}

TEST_F(SweepCommand, ASignalReachesThePointAndTheSweepGoesOnLater) {
  point_does("0002", "trap 'exit 75' TERM\ntouch '" + path("up") + "'\nwhile :; do sleep 0.05; done\n");
  core::Process process = start_local(sweep_file());
  wait_for_file("up");
  EXPECT_EQ(run_lockstep({"sweep", "resume", folder()}).exit_code, 6);  // locked
  const auto meanwhile = run_lockstep({"sweep", "status", folder()});
  EXPECT_NE(meanwhile.out.find("1 finished, 1 planned, 1 running"), std::string::npos)
      << meanwhile.out << meanwhile.err;
  process.send_signal(SIGINT);
  const auto ended = process.wait_for(30s);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code, 75);
  EXPECT_EQ(states(), "finished stopped planned ");
  EXPECT_NE(core::read_file(path("said")).find("`lockstep sweep resume " + folder() + "`"), std::string::npos)
      << core::read_file(path("said"));
  const auto collected = run_lockstep({"sweep", "collect", folder(), "--json"});
  ASSERT_EQ(collected.exit_code, 0) << collected.err;
  EXPECT_EQ(core::parse_json(collected.out, "collect").at("points").at(1).at("state"), "stopped");
  point_does("0002", "exit 0\n");
  EXPECT_EQ(run_lockstep({"sweep", sweep_file(), "--local"}).exit_code, 0);
  EXPECT_EQ(states(), "finished finished finished ");
  EXPECT_EQ(calls().size(), 4u);
}

TEST_F(SweepCommand, ASecondInterruptLeavesNoRankBehind) {
  core::write_file_atomic(path("rank"),
                          "trap '' TERM INT\necho $$ >>'" + path("pids") + "'\nwhile :; do sleep 0.1; done\n");
  point_does("0001", "exec '" + lockstep_program() +
                         "' launch --nproc-per-node 2 --kill-grace 60 --program /bin/sh -- '" + path("rank") + "'\n");
  core::Process process = start_local(sweep_file());
  const auto pids = [&] {
    return fs::exists(path("pids")) ? core::split(core::read_file(path("pids")), "\n") : std::vector<std::string>{};
  };
  for (int i = 0; i < 6000 && pids().size() < 3; ++i) ::usleep(5000);
  ASSERT_EQ(pids().size(), 3u) << "two ranks, and what follows the last line";
  process.send_signal(SIGINT);
  ::usleep(500000);
  process.send_signal(SIGINT);
  const auto ended = process.wait_for(30s);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code, 75);
  for (size_t i = 0; i < 2; ++i) EXPECT_NE(::kill(std::stoi(pids()[i]), 0), 0) << "rank " << pids()[i] << " lives on";
  EXPECT_EQ(states(), "stopped planned planned ") << "nothing failed: the user ended it";
}

TEST_F(SweepCommand, AVariableThatTheFileDoesNotKnowIsRefused) {
  const std::string file = sweep_file("[slurm]\npartition = \"${PARTITION}\"\n");
  const auto refused = run_lockstep({"sweep", file, "--dry-run", "--set", "PARTITION=fast", "PARTITON=slow"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_NE(refused.err.find("--set PARTITON"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("did you mean 'PARTITION'?"), std::string::npos) << refused.err;
  EXPECT_EQ(run_lockstep({"sweep", file, "--dry-run", "--set", "PARTITION=fast"}).exit_code, 0);
  // Names are looked for in words of any length.
  const std::string with_word =
      sweep_file("[slurm]\npartition = \"${PARTITION}\"  # " + std::string(300'000, 'n') + "\n");
  EXPECT_EQ(run_lockstep({"sweep", with_word, "--dry-run", "--set", "PARTITION=fast"}).exit_code, 0);
}

TEST_F(SweepCommand, AKilledSweepIsSeenAndResumed) {
  point_does("0001", "touch '" + path("up") + "'\nsleep 60\n");
  core::Process process = start_local(sweep_file());
  wait_for_file("up");
  process.send_signal(SIGKILL);
  process.wait();
  const auto status = run_lockstep({"sweep", "status", folder()});
  EXPECT_NE(status.out.find("1 died, 2 planned"), std::string::npos) << status.out << status.err;
  point_does("0001", "exit 0\n");
  EXPECT_EQ(run_lockstep({"sweep", "resume", folder()}).exit_code, 0);
  EXPECT_EQ(states(), "finished finished finished ");
}

TEST_F(SweepCommand, ThePointThatPassesItsTimeLimitIsAskedToStop) {
  point_does("0001", "trap 'exit 75' TERM\nwhile :; do sleep 0.05; done\n");
  const auto run = run_lockstep({"sweep", sweep_file("[slurm]\ntime = \"1s\"\nstop-before-end = 0\n"), "--local"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(states(), "stopped finished finished ");
}

TEST_F(SweepCommand, ADamagedStateIsADataError) {
  ASSERT_EQ(run_lockstep({"sweep", sweep_file()}).exit_code, 0);
  core::write_file_atomic(folder() + "/sweep.json", "{\"sweep_version\": 1");
  const auto refused = run_lockstep({"sweep", "status", folder()});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_NE(refused.err.find("sweep.json"), std::string::npos) << refused.err;
}

TEST_F(SweepCommand, ALostStateNeverSubmitsAJobThatRuns) {
  // A SLURM of two scripts: sbatch counts up from 101 and squeue shows what was submitted, with its comment.
  const auto program = [&](const std::string& name, const std::string& text) {
    core::write_file_atomic(path(name), "#!/bin/bash\n" + text);
    ::chmod(path(name).c_str(), 0755);
  };
  core::write_file_atomic(path("queue"), "");
  program("sbatch", "n=$((101 + $(wc -l <'" + path("queue") +
                        "')))\nfor word; do case $word in --comment=*) echo \"$n|RUNNING|None|node1|${word#*=}\" >>'" +
                        path("queue") + "';; esac; done\necho $n\n");
  program("squeue", "cat '" + path("queue") + "'\n");
  program("sacct", "exit 1\n");
  program("scontrol", "exit 1\n");
  const auto sweep = [&](const std::vector<std::string>& words) {
    std::vector<std::string> args{"sweep"};
    args.insert(args.end(), words.begin(), words.end());
    return run_lockstep(args, {{"PATH", top_.path().string() + ":" + std::getenv("PATH")}});
  };
  ASSERT_EQ(sweep({sweep_file(), "--submit"}).exit_code, 0);
  const std::string queue = core::read_file(path("queue"));
  ASSERT_EQ(core::split(queue, "\n").size(), 4u) << queue;
  fs::remove(folder() + "/sweep.json");
  ASSERT_EQ(sweep({folder() + "/sweep.toml", "--output", path("out")}).exit_code, 0);
  const auto status = sweep({"status", folder() + "/"});
  EXPECT_NE(status.out.find("s: 3 points: 3 running"), std::string::npos) << status.out << status.err;
  EXPECT_EQ(sweep({folder() + "/sweep.toml", "--output", path("out"), "--submit"}).exit_code, 0);
  EXPECT_EQ(sweep({"resume", folder()}).exit_code, 0);
  EXPECT_EQ(core::read_file(path("queue")), queue);
  // Nobody knows the job of the second point any more, but its run is alive.
  fs::remove(folder() + "/sweep.json");
  core::write_file_atomic(path("queue"), core::split(queue, "\n")[0] + "\n" + core::split(queue, "\n")[2] + "\n");
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  fs::create_directories(folder() + "/runs/0002-nodes_2");
  core::write_file_atomic(folder() + "/runs/0002-nodes_2/status.json", core::Json{{"record_version", 1},
                                                                                  {"state", "running"},
                                                                                  {"attempt", 1},
                                                                                  {"started_s", now_s},
                                                                                  {"heartbeat_s", now_s},
                                                                                  {"heartbeat_every_s", 100},
                                                                                  {"last_step", 7},
                                                                                  {"exit_code", nullptr},
                                                                                  {"first_failing_rank", nullptr},
                                                                                  {"message", ""},
                                                                                  {"dropped_lines", 0}}
                                                                           .dump());
  const auto held = sweep({folder() + "/sweep.toml", "--output", path("out"), "--submit"});
  EXPECT_EQ(held.exit_code, 0) << held.err;
  EXPECT_NE(held.err.find("not started again: 0002: the heartbeat of the run is alive"), std::string::npos) << held.err;
  EXPECT_EQ(core::split(core::read_file(path("queue")), "\n").size(), 3u);
}

TEST_F(SweepCommand, SubmitWithoutSlurmSaysWhatToDo) {
  const auto refused = run_lockstep({"sweep", sweep_file(), "--submit"}, {{"PATH", "/nonexistent"}});
  EXPECT_EQ(refused.exit_code, 6);
  EXPECT_NE(refused.err.find("cannot run sbatch"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--local"), std::string::npos) << refused.err;
  EXPECT_EQ(states(), "planned planned planned ");
}

}  // namespace
}  // namespace lockstep::tests
