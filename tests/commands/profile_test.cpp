// `lockstep profile train`: traces, tables, marks; and what a run measures of itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "commands/engine_test.h"
#include "commands/faulty_files.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "record/reader.h"
#include "record/run_data.h"
#include "support/sanitizers.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProfiledModel = R"({"embed_dim": 32,
  "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
  "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}})";

class ProfileCommand : public EngineTest {
 protected:
  ProfileCommand() { std::ofstream(folder_.path() / "tiny.json") << kProfiledModel; }
  ProgramResult run(std::vector<std::string> words, const std::vector<std::string>& flags,
                    const EnvChanges& changes = {}) const {
    const std::vector<std::string> common = {"clip",
                                             "--dataset-type",
                                             "synthetic",
                                             "--train-num-samples",
                                             "64",
                                             "--model",
                                             (folder_.path() / "tiny.json").string(),
                                             "--batch-size",
                                             "4",
                                             "--workers",
                                             "1",
                                             "--threads",
                                             "1",
                                             "--device",
                                             "cpu",
                                             "--epochs",
                                             "4",
                                             "--logs",
                                             folder_.path().string(),
                                             "--name",
                                             "run"};
    words.insert(words.end(), common.begin(), common.end());
    words.insert(words.end(), flags.begin(), flags.end());
    return run_lockstep(words, changes);
  }
  fs::path run_folder() const { return folder_.path() / "run"; }

  core::TempDir folder_{"lockstep_profile"};
};

TEST_F(ProfileCommand, LeavesTracesTablesAndAMark) {
  const auto done = run({"launch", "--nproc-per-node", "2", "--", "profile", "train"},
                        {"--profile-step-start", "2", "--profile-step-end", "5", "--profile-ranks", "0,1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ((done.out + done.err).find("gpuGetDeviceCount"), std::string::npos)
      << "the profiler's library complains of a driver that nobody asked for";
  const fs::path profile = run_folder() / "profile";
  const auto trace = core::parse_json(core::read_file(profile / "trace.json"), "trace.json");
  std::map<std::string, int> steps_of_rank, forwards_of_rank;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string name = event.value("name", ""), rank = event.value("pid", "").substr(0, 6);
    if (name == "step") ++steps_of_rank[rank];
    if (name == "forward") ++forwards_of_rank[rank];
  }
  EXPECT_EQ(steps_of_rank, (std::map<std::string, int>{{"rank 0", 3}, {"rank 1", 3}}));
  EXPECT_EQ(forwards_of_rank, steps_of_rank);
  const auto collectives = core::read_file(profile / "collectives.csv");
  EXPECT_NE(collectives.find("all_reduce,world,2,"), std::string::npos) << collectives;
  EXPECT_NE(collectives.find(",3,"), std::string::npos) << collectives;  // three steps
  EXPECT_NE(done.out.find("backward"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("mean of 3 steps"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("ms/call is the time in flight"), std::string::npos) << done.out;
  EXPECT_TRUE(record::load_run(run_folder()).setup.is_profiled);
  EXPECT_EQ(record::read_steps(run_folder()).steps.size(), 5u);  // the run ends with the profile
}

/// Collectives wait for three seconds here.
TEST_F(ProfileCommand, MergingTracesMayTakeLongAndFailWithoutHarmToTheRun) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const FaultyFiles faulty;
  for (const char* fault : {"slow 4000", "enospc 0"}) {
    SCOPED_TRACE(fault);
    fs::remove_all(run_folder());
    const auto done = run({"launch", "--nproc-per-node", "2", "--", "profile", "train"},
                          {"--profile-step-start", "2", "--profile-step-end", "3", "--dist-timeout", "3"},
                          faulty.environment(run_folder() / "profile" / "trace.json", fault));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(record::read_status(run_folder()).state, "finished");
    const bool is_merged = fs::exists(run_folder() / "profile" / "trace.json");
    EXPECT_EQ(is_merged, fault == std::string("slow 4000"));
    EXPECT_EQ(done.err.find("profile: it could not be summed up") == std::string::npos, is_merged) << done.err;
  }
}

TEST_F(ProfileCommand, WrongRangesAndRanksAreUsageErrors) {
  const auto ends_first = run({"profile", "train"}, {"--profile-step-start", "5", "--profile-step-end", "5"});
  EXPECT_EQ(ends_first.exit_code, 2);
  EXPECT_NE(ends_first.err.find("--profile-step-end 5 is not behind"), std::string::npos) << ends_first.err;
  EXPECT_EQ(run({"profile", "train"}, {"--profile-ranks", "0,x"}).exit_code, 2);
  EXPECT_EQ(run({"profile", "train"}, {"--max-steps", "20"}).exit_code, 2);  // nothing of the profile would happen
  const auto without = run({"train"}, {"--profile-ranks", "1"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_NE(without.err.find("lockstep profile train"), std::string::npos) << without.err;
  const auto no_such_rank =
      run({"profile", "train"}, {"--profile-ranks", "3", "--profile-step-start", "1", "--profile-step-end", "2"});
  EXPECT_EQ(no_such_rank.exit_code, 2);
  EXPECT_NE(no_such_rank.err.find("names rank 3"), std::string::npos) << no_such_rank.err;
  const auto no_task = run_lockstep({"profile", "train", "--profile-ranks", "0"});
  EXPECT_EQ(no_task.exit_code, 2);
  const auto help = run_lockstep({"profile", "train", "gpt", "--help"});
  EXPECT_EQ(help.out.rfind("Usage: lockstep profile train gpt [FLAGS]\n", 0), 0u) << help.out.substr(0, 200);
  EXPECT_NE(help.out.find("are traced into"), std::string::npos);
  const auto too_short =
      run_lockstep({"profile", "train", "gpt", "--mock-data", "--model", "gpt2", "--lr", "1e-4", "--train-iters", "5"});
  EXPECT_EQ(too_short.exit_code, 2);
  EXPECT_NE(too_short.err.find("--train-iters 5 ends the run before --profile-step-start 20"), std::string::npos)
      << too_short.err;
}

TEST_F(ProfileCommand, ARunMeasuresItself) {
  const auto done = run({"launch", "--nproc-per-node", "2", "--", "train"},
                        {"--log-every-n-steps", "5", "--max-steps", "10", "--accum-freq", "2"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  for (const auto& step : record::read_steps(run_folder()).steps) {
    double sum = 0;
    for (const auto& [phase, ms] : step.phases_ms) sum += ms;
    ASSERT_EQ(step.phases_ms.size(), 8u);
    EXPECT_LE(sum, step.step_ms * (1 + 1e-9));  // of rank 0; step_ms is the slowest rank's
    EXPECT_GT(sum, 0);
    EXPECT_EQ(step.phases_ms[4].second, step.exposed_comm_ms);
  }
  const auto run_data = record::load_run(run_folder());
  EXPECT_EQ(run_data.setup.devices, 2);
  EXPECT_EQ(run_data.setup.nodes, 1);
  EXPECT_EQ(run_data.setup.global_batch, 16);
  EXPECT_EQ(run_data.setup.samples_per_device, 8);
  EXPECT_EQ(run_data.setup.accum, 2);
  EXPECT_EQ(run_data.setup.is_synthetic, true);
  EXPECT_FALSE(run_data.setup.is_profiled);
  EXPECT_GT(run_data.setup.forward_gflops_per_sample.value_or(0), 0);
  EXPECT_TRUE(run_data.problems.empty()) << run_data.problems.front();  // a record of ours is read whole
  ASSERT_EQ(run_data.startup.size(), 1u);
  std::vector<std::string> phases;
  for (const auto& [phase, ms] : run_data.startup[0].phases_ms) {
    phases.push_back(phase);
    EXPECT_GE(ms, 0) << phase;
  }
  EXPECT_EQ(phases,
            (std::vector<std::string>{"start", "rendezvous", "communicator", "loader", "weights", "first_step"}));
  ASSERT_EQ(run_data.system.size(), 3u);                     // steps 0 to 3 (an epoch), to 7, to 9
  EXPECT_GT(run_data.system[0].received_bytes.at("lo"), 0);  // the two ranks talked
  ASSERT_EQ(run_data.rank_times.size(), 3u);
  EXPECT_EQ(run_data.rank_times[0].step_ms.size(), 2u);
  EXPECT_FALSE(run_data.collectives.empty());
}

TEST_F(ProfileCommand, ASlowRankIsSeenInItsComputeTime) {
  auto arguments = std::vector<std::string>{"launch", "--nproc-per-node", "2", "--", "train"};
  constexpr double kDelayMs = 400;  // far above what a busy machine adds to steps of a few milliseconds
  const EnvChanges fault = {{"LOCKSTEP_FAULT", fmt::format("slow-compute rank=1 from=8 ms={}", kDelayMs)}};
  const auto done = run(arguments, {"--log-every-n-steps", "4", "--max-steps", "12", "--epochs", "8"}, fault);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto run_data = record::load_run(run_folder());
  double base_ms = 0;
  int64_t num_slow = 0;
  for (const auto& times : run_data.rank_times) {
    const int64_t first = times.step - times.num_steps + 1;
    if (first < 8) {                                    // an epoch of eight steps ends an interval
      if (first > 0) base_ms = times.compute_ms.at(1);  // the very first steps warm up
      continue;
    }
    num_slow += times.num_steps;
    EXPECT_GE(times.compute_ms.at(1), kDelayMs);
    EXPECT_GT(times.compute_ms.at(1), base_ms);
    EXPECT_GT(times.compute_ms.at(1), times.compute_ms.at(0));
    EXPECT_GT(times.comm_wait_ms.at(0), times.comm_wait_ms.at(1));  // the other rank waits for it
  }
  EXPECT_EQ(num_slow, 4);
  EXPECT_GT(base_ms, 0);
  EXPECT_EQ(run(arguments, {}, {{"LOCKSTEP_FAULT", "slowly rank=1"}}).exit_code, 2);
}

/// The wrapper for Nsight with programs in place of nsys and lockstep that only say how they were called.
TEST_F(ProfileCommand, NsightWrapperNamesReportsAndPicksRanks) {
  const fs::path fake = folder_.path() / "echo_arguments";
  std::ofstream(fake) << "#!/bin/sh\necho \"$0 $*\"\n";
  fs::permissions(fake, fs::perms::owner_all);
  const auto wrapped = [&](const std::string& rank) {
    const EnvChanges environment = {{"SLURM_STEP_ID", "0"},
                                    {"LOCKSTEP_NSYS_TASK", "1"},
                                    {"SLURM_PROCID", rank},
                                    {"SLURM_NTASKS", "8"},
                                    {"SLURM_JOB_ID", "77"},
                                    {"SLURM_NODEID", "1"},
                                    {"SLURM_LOCALID", "2"},
                                    {"MODEL", "ViT-B-32"},
                                    {"DTYPE", "bf16"},
                                    {"PROFILE_RANKS", "0,5-6"},
                                    {"NSYS", fake.string()},
                                    {"LOCKSTEP", "the-program"},
                                    {"PROFILE_DIR", (folder_.path() / "reports").string()},
                                    {"PROFILE_CPU", "true"}};
    return run_program(
        {"/bin/bash", std::string(LOCKSTEP_SOURCE_DIR) + "/examples/profile/nsys.sbatch", "train", "clip"}, environment,
        std::chrono::seconds(20));
  };
  const auto traced = wrapped("6");
  EXPECT_NE(traced.out.find("profile --trace=cuda,nvtx --cuda-graph-trace=node --capture-range=cudaProfilerApi"),
            std::string::npos)
      << traced.out << traced.err;
  EXPECT_NE(traced.out.find("ViT-B-32-base-bf16_8g_77_1_2"), std::string::npos) << traced.out;
  EXPECT_NE(traced.out.find("--sample=process-tree"), std::string::npos) << traced.out;
  EXPECT_NE(traced.out.find("the-program profile train clip --profile-tool nsys"), std::string::npos) << traced.out;
  const auto untraced = wrapped("4");  // starts the program itself, which is not there
  EXPECT_EQ(untraced.out, "");
  EXPECT_NE(untraced.err.find("the-program"), std::string::npos) << untraced.err;
}

}  // namespace
}  // namespace lockstep::tests
