#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/line_reader.h"
#include "core/rng.h"
#include "core/strings.h"
#include "record/reader.h"
#include "record/run_data.h"
#include "record/run_record.h"
#include "record/run_setup.h"
#include "support/fuzz.h"

namespace lockstep::record {
namespace {

using core::Json;
namespace fs = std::filesystem;

StepRecord timed_step(int64_t step, double step_ms = 10.25) {
  return {.step = step,
          .epoch = step / 4,
          .samples = 64,
          .samples_seen = 64 * (step + 1),
          .tokens = 4928,
          .step_ms = step_ms,
          .data_wait_ms = 0.5,
          .samples_per_s = 6244,
          .loss = 1.5,
          .lr = 5e-4,
          .phases_ms = {{"forward", 4}, {"backward", 6.25}},
          .time_s = 1700000000.5 + static_cast<double>(step)};
}

RunSetup full_setup() {
  RunSetup setup;
  setup.task = "clip", setup.model = "ViT-B-32", setup.precision = "bf16", setup.system = "JUPITER",
  setup.device = "NVIDIA GH200", setup.layout = "dp=8";
  setup.nodes = 2, setup.devices = 8, setup.global_batch = 64, setup.samples_per_device = 8, setup.accum = 1,
  setup.sequence_length = 77;
  setup.sample_unit = "images", setup.forward_gflops_per_sample = 14.78, setup.flops_formula = "matrix products",
  setup.peak_tflops_per_device = 989;
  setup.peak_source = "datasheet", setup.is_synthetic = false, setup.is_profiled = true, setup.tags = {{"sweep", "a"}};
  return setup;
}

void append_to(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::app) << text; }

bool has_problem(const RunData& run, const std::string& words) {
  for (const std::string& problem : run.problems)
    if (problem.find(words) != std::string::npos) return true;
  ADD_FAILURE() << "no problem says '" << words << "'; there are: " << core::join(run.problems, " | ");
  return false;
}

TEST(RunLoad, WhatBecameOfCudaGraphsIsASettingOfTheRun) {
  const core::TempDir folder;
  const core::TempDir cpu;
  for (const auto& [path, cuda_graphs] :
       {std::pair(folder.path(), "refused: 1.00 GiB of memory are free"), std::pair(cpu.path(), "")}) {
    RunRecord record(path, core::Json::object());
    record.append_step(timed_step(0));
    record.note_cuda_graphs(cuda_graphs);
    record.finish({});
  }
  EXPECT_EQ(read_status(folder.path()).cuda_graphs, "refused: 1.00 GiB of memory are free");
  EXPECT_EQ(load_run(folder.path()).software.at("CUDA graphs"), "refused") << "without the number, which varies";
  EXPECT_FALSE(load_run(cpu.path()).software.contains("CUDA graphs"));
}

TEST(RunLoad, ManyNamesOfPhasesDoNotMultiplyWithTheRows) {
  const core::TempDir folder;
  std::string steps = R"({"step":0,"step_ms":1,"phases_ms":{"p0":1)";
  for (int i = 1; i < 2000; ++i) steps += fmt::format(",\"p{}\":1", i);
  steps += "}}\n";
  for (int i = 1; i < 1000; ++i) steps += fmt::format("{{\"step\":{},\"step_ms\":1,\"phases_ms\":{{\"p0\":2}}}}\n", i);
  core::write_file_atomic(folder.path() / "steps.jsonl", steps);
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.steps.size(), 1000u);
  EXPECT_EQ(run.steps.phases_ms.size(), 256u);
  EXPECT_EQ(run.steps.phases_ms.at("p0").back(), 2);
  EXPECT_TRUE(has_problem(run, "names more than 256 phases, 1744 times of others were left out"));
}

TEST(LoadRun, TheCommandStartsEveryRank) {
  const core::TempDir folder;
  const auto command_for = [&](const std::string& from, int num_ranks, int nodes) {
    const fs::path path = folder.path() / fmt::format("{}{}{}", from, num_ranks, nodes);
    {
      RunRecord record(path, Json{{"setup", {{"nodes", nodes}}},
                                  {"world_size", num_ranks},
                                  {"ranks_from", from},
                                  {"command", "lockstep train clip"}});
      record.finish({});
    }
    return load_run(path).command;
  };
  EXPECT_EQ(command_for("torchrun", 4, 1), "lockstep launch --nproc-per-node 4 -- train clip");
  EXPECT_EQ(command_for("slurm", 8, 2), "srun --nodes=2 --ntasks=8 lockstep train clip");
  EXPECT_EQ(command_for("torchrun", 1, 1), "lockstep train clip");
  EXPECT_EQ(command_for("torchrun", 8, 2), "lockstep train clip") << "one command line cannot start two nodes";
}

TEST(LoadRun, ACountThatWasLeftToTheDataIsTheOneFoundThere) {
  const core::TempDir folder;
  const fs::path path = folder.path() / "logs" / "mine";
  {
    RunRecord record(path,
                     Json{{"model", {{"num_classes", 28}, {"name", "resnet18"}}},
                          {"options", {{"num_classes", nullptr}, {"name", nullptr}, {"clip_grad_norm", nullptr}}}});
    record.finish({});
  }
  EXPECT_EQ(load_run(path).options,
            (std::map<std::string, std::string>{{"num_classes", "28"}, {"name", "null"}, {"clip_grad_norm", "null"}}));
}

TEST(LoadRun, EverythingThatWasWrittenComesBack) {
  const core::TempDir folder;
  const fs::path path = folder.path() / "logs" / "mine";
  {
    RunRecord record(path, Json{{"setup", to_json(full_setup())},
                                {"code_version", "0.1.0 abc"},
                                {"host", "n1"},
                                {"slurm_job_id", "4711"},
                                {"command", {"lockstep", "train", "clip"}},
                                {"software", {{"nccl", "2.27"}}},
                                {"options", {{"local_loss", true}, {"workers", 4}, {"train_data", "a.tar"}}},
                                {"environment", {{"NCCL_ALGO", "Tree"}}}});
    record.append_step(timed_step(0)), record.append_step(timed_step(1, 11));
    record.append_rank_times(
        {.step = 1, .num_steps = 2, .step_ms = {10, 11.5}, .data_wait_ms = {1, 2}, .hosts = {"a", "b"}});
    record.append_comm(
        {.step = 0, .kind = "all_reduce", .axis = "dp", .group_size = 2, .bytes = 4096, .count = 1, .time_ms = 0.25});
    record.append_comm(
        {.step = 1, .kind = "all_reduce", .axis = "dp", .group_size = 2, .bytes = 4096, .count = 3, .time_ms = 0.75});
    record.append_result({.step = 2, .epoch = 1, .name = "val", .metrics = {{"clip_val_loss", 3.5}}});
    record.append_system({.step = 1,
                          .num_steps = 2,
                          .host = "a",
                          .received_bytes = {{"ib0", 1e9}},
                          .sent_bytes = {{"ib0", 2e9}},
                          .energy_j = {{"nvml-0", 700.5}},
                          .seconds = 2.5});
    record.append_startup({.phases_ms = {{"start", 12.5}, {"first_step", 900}}});
    record.finish({});
  }
  const RunData run = load_run(path);
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  EXPECT_EQ(run.name, "mine");
  EXPECT_EQ(run.format, "lockstep");
  EXPECT_EQ(run.state, "finished");
  EXPECT_EQ(run.allocation, "slurm 4711");
  EXPECT_EQ(run.command, "lockstep train clip");
  EXPECT_EQ(run.software, (std::map<std::string, std::string>{
                              {"lockstep", "0.1.0 abc"}, {"host", "n1"}, {"nccl", "2.27"}, {"NCCL_ALGO", "Tree"}}));
  EXPECT_EQ(to_json(run.setup).dump(), to_json(full_setup()).dump());
  EXPECT_EQ(run.options,
            (std::map<std::string, std::string>{{"local_loss", "true"}, {"workers", "4"}, {"train_data", "a.tar"}}));
  ASSERT_TRUE(run.started_s && run.ended_s);
  EXPECT_LE(*run.started_s, *run.ended_s);
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps.step, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(run.steps.step_ms, (std::vector<double>{10.25, 11}));
  EXPECT_EQ(run.steps.num_steps, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(run.steps.epoch, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(run.steps.attempt, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(run.steps.data_wait_ms[1], 0.5);
  EXPECT_EQ(run.steps.samples[1], 64);
  EXPECT_EQ(run.steps.tokens[1], 4928);
  EXPECT_EQ(run.steps.samples_seen[1], 128);
  EXPECT_EQ(run.steps.loss[1], 1.5);
  EXPECT_EQ(run.steps.time_s[1], 1700000001.5);
  EXPECT_EQ(run.steps.logged_samples_per_s[1], 6244);
  EXPECT_TRUE(std::isnan(run.steps.logged_tflops_per_device[1]));
  EXPECT_EQ(run.steps.phases_ms.at("backward"), (std::vector<float>{6.25f, 6.25f}));
  ASSERT_EQ(run.rank_times.size(), 1u);
  EXPECT_EQ(run.rank_times[0].step_ms, (std::vector<double>{10, 11.5}));
  EXPECT_EQ(run.rank_times[0].hosts, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(run.collectives.size(), 1u);
  EXPECT_EQ(run.collectives[0].count, 3);
  EXPECT_EQ(run.collectives[0].time_ms, 0.75);
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].metrics, (NamedNumbers{{"clip_val_loss", 3.5}}));
  ASSERT_EQ(run.system.size(), 1u);
  EXPECT_EQ(run.system[0].attempt, 1);
  EXPECT_EQ(run.system[0].num_steps, 2);
  EXPECT_EQ(run.system[0].sent_bytes, (std::map<std::string, double>{{"ib0", 2e9}}));
  EXPECT_EQ(run.system[0].energy_j.at("nvml-0"), 700.5);
  EXPECT_EQ(run.system[0].seconds, 2.5);
  ASSERT_EQ(run.startup.size(), 1u);
  EXPECT_EQ(run.startup[0].phases_ms, (NamedNumbers{{"start", 12.5}, {"first_step", 900}}));
}

TEST(LoadRun, OfAStepDoneAgainTheLastAttemptCounts) {
  const core::TempDir folder;
  for (const int attempt : {1, 2}) {
    RunRecord record(folder.path(), Json{{"world_size", 2 * attempt}});
    for (int step = attempt == 1 ? 0 : 3; step < 5 + attempt; ++step)
      record.append_step(timed_step(step, 10.0 * attempt));
    record.append_comm(
        {.step = 5, .kind = "all_reduce", .axis = "dp", .bytes = 8, .count = 10 * attempt, .time_ms = 1.0 * attempt});
    record.finish({.state = RunState::kStopped, .exit_code = 75});
  }
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.num_attempts, 2);
  EXPECT_EQ(run.state, "stopped");
  EXPECT_EQ(run.steps.step, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run.steps.step_ms, (std::vector<double>{10, 10, 10, 20, 20, 20, 20}));
  EXPECT_EQ(run.steps.attempt, (std::vector<int32_t>{1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(run.steps.phases_ms.at("forward").size(), 7u);
  has_problem(run, "3 steps were done more than once");
  has_problem(run, "attempt 1 ran with devices = 2, the measured attempt 2 with 4");
  ASSERT_EQ(run.collectives.size(), 1u);
  EXPECT_EQ(run.collectives[0].count, 20) << "totals of the measured attempt alone";
  EXPECT_EQ(run.collectives[0].num_steps, 3) << "steps 3 to 5 of attempt 2";
  EXPECT_EQ(run.collectives[0].time_ms, 2.0);
}

TEST(LoadRun, EverythingIsOfTheMeasuredAttempt) {
  const core::TempDir folder;
  const auto attempt = [](int devices, int batch) {
    return Json{{"setup", {{"nodes", devices}, {"devices", devices}, {"global_batch", batch}, {"precision", "bf16"}}},
                {"world_size", devices},
                {"ranks_from", "slurm"},
                {"options", {{"workers", devices}}},
                {"slurm_job_id", fmt::format("{}", 100 + devices)},
                {"code_version", fmt::format("version {}", devices)},
                {"environment", {{fmt::format("NCCL_{}", devices), "1"}}},
                {"command", fmt::format("lockstep train clip --workers {}", devices)}};
  };
  for (const auto& [devices, first, end] : {std::tuple{2, 0, 20}, {4, 20, 25}}) {
    RunRecord record(folder.path(), attempt(devices, 16 * devices));
    for (int step = first; step < end; ++step) record.append_step(timed_step(step, 10.0 * devices));
    record.append_rank_times({.step = end - 1,
                              .num_steps = 5,
                              .step_ms = std::vector<double>(static_cast<size_t>(devices), 10.0),
                              .hosts = {}});
    record.append_comm({.step = end - 1,
                        .kind = "all_reduce",
                        .axis = "dp",
                        .group_size = devices,
                        .bytes = 8,
                        .count = 10,
                        .time_ms = 1});
    record.append_system({.step = end - 1, .num_steps = 5, .host = "a", .energy_j = {{"nvml-0", 100.0 * devices}}});
    record.finish({.state = RunState::kStopped, .exit_code = 75});
  }
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.num_attempts, 2);
  EXPECT_EQ(run.measured_attempt, 1) << "20 steps against 5";
  EXPECT_EQ(run.setup.devices, 2);
  EXPECT_EQ(run.setup.global_batch, 32);
  EXPECT_EQ(run.options, (std::map<std::string, std::string>{{"workers", "2"}}));
  EXPECT_EQ(run.allocation, "slurm 102");
  EXPECT_EQ(run.software.at("lockstep"), "version 2");
  EXPECT_TRUE(run.software.contains("NCCL_2") && !run.software.contains("NCCL_4"));
  EXPECT_EQ(run.command, "srun --nodes=2 --ntasks=2 lockstep train clip --workers 2");
  ASSERT_EQ(run.rank_times.size(), 1u);
  EXPECT_EQ(run.rank_times[0].step_ms.size(), 2u);
  ASSERT_EQ(run.collectives.size(), 1u);
  EXPECT_EQ(run.collectives[0].group_size, 2);
  ASSERT_EQ(run.system.size(), 1u);
  EXPECT_EQ(run.system[0].energy_j.at("nvml-0"), 200);
  has_problem(run, "attempt 2 ran with devices = 4, the measured attempt 1 with 2");
  has_problem(run, "attempt 2 ran with global batch = 64, the measured attempt 1 with 32");
}

TEST(LoadRun, AnAttemptThatOnlyEvaluatedIsNotComparedWithTheMeasuredOne) {
  for (const bool evaluates : {true, false}) {
    const core::TempDir folder;
    for (const int attempt : {1, 2}) {
      RunRecord record(folder.path(), Json{{"world_size", attempt},
                                           {"options", {{"evaluate", evaluates && attempt == 2}}},
                                           {"plan", {{"global_batch", 32 * attempt}}}});
      for (int step = 0; attempt == 1 && step < 5; ++step) record.append_step(timed_step(step, 10.0));
      record.finish({.state = RunState::kFinished});
    }
    const RunData run = load_run(folder.path());
    EXPECT_EQ(run.measured_attempt, 1);
    EXPECT_EQ(run.setup.global_batch, 32);
    const auto is_of_batches = [](const std::string& problem) {
      return problem.find("attempt 2 ran with global batch = 64") != std::string::npos;
    };
    EXPECT_EQ(std::any_of(run.problems.begin(), run.problems.end(), is_of_batches), !evaluates);
  }
}

TEST(LoadRun, ARunThatOnlyEvaluatedLacksNoSteps) {
  for (const int64_t steps_per_epoch : {0, 10}) {
    const core::TempDir folder;
    RunRecord record(folder.path(), Json{{"plan", {{"steps_per_epoch", steps_per_epoch}}}});
    record.finish({.state = RunState::kFinished});
    const RunData run = load_run(folder.path());
    EXPECT_EQ(run.only_evaluated, steps_per_epoch == 0);
    EXPECT_EQ(core::join(run.problems, "; ").find("no step was recorded") == std::string::npos, steps_per_epoch == 0);
  }
}

TEST(LoadRun, SkippedStepsAreMarkedAndOnlyThose) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    for (int step = 0; step < 4; ++step) {
      StepRecord one = timed_step(step);
      one.is_skipped = step == 2;
      record.append_step(one);
    }
    record.finish({});
  }
  EXPECT_EQ(load_run(folder.path()).steps.num_skipped, (std::vector<int32_t>{0, 0, 1, 0}));
}

TEST(LoadRun, AMeasuredAttemptThatRunJsonLacksIsTold) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json{{"setup", {{"devices", 2}}}});
    for (int step = 0; step < 3; ++step) record.append_step(timed_step(step));
  }
  std::ofstream(folder.path() / "run.json")
      << R"({"record_version": 1, "attempts": [{"attempt": 2, "setup": {"devices": 8}}]})";
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.setup.devices, 8);
  has_problem(run, "run.json does not tell of attempt 1, which was measured: the setup shown is that of attempt 2");
}

TEST(LoadRun, DamagedLinesAreCountedAndToldAndTheRestIsRead) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    for (int step = 0; step < 3; ++step) record.append_step(timed_step(step));
    record.finish({});
  }
  append_to(folder.path() / "steps.jsonl",
            "garbage\n{\"step\":7}\n{\"step\":8,\"step_ms\":-1}\n[1]\n\n{\"step\":9,\"step_ms\":3,\"loss\":null,"
            "\"nonfinite\":{\"loss\":\"nan\"}}\n{\"st");
  append_to(folder.path() / "comm.jsonl", "{\"kind\":\"all_red");
  append_to(folder.path() / "ranks.jsonl", "{\"step\":1,\"step_ms\":[]}\n");
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.steps.step, (std::vector<int64_t>{0, 1, 2, 9}));
  EXPECT_TRUE(std::isnan(run.steps.samples[3]));
  EXPECT_TRUE(std::isnan(run.steps.phases_ms.at("forward")[3]));
  EXPECT_EQ(run.num_rejected_lines, 5 + 1 + 1);
  has_problem(
      run, "steps.jsonl: 5 lines could not be read and were left out (the first is line 4, the last one is cut off)");
  has_problem(run, "comm.jsonl: the last line is cut off");
  has_problem(run, "ranks.jsonl: 1 line could not be read and was left out");
  has_problem(run, "the loss of 1 step is not finite (the first is step 9)");
}

TEST(LoadRun, IntervalsWithoutStepsOfOlderRecordsAreNoDamage) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    for (int step = 0; step < 3; ++step) record.append_step(timed_step(step));
    record.finish({});
  }
  append_to(folder.path() / "system.jsonl",
            "{\"step\":1,\"num_steps\":2,\"host\":\"a\"}\n{\"step\":2,\"num_steps\":0,\"host\":\"a\"}\n");
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.num_rejected_lines, 0);
  EXPECT_EQ(run.system.size(), 1u);
}

TEST(LoadRun, AnEndOfTheStepsThatIsLostIsTold) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    for (int64_t step = 0; step < 40; ++step) record.append_step(timed_step(step));
    record.finish({.state = RunState::kFinished, .exit_code = 0});
  }
  EXPECT_TRUE(load_run(folder.path()).problems.empty()) << core::join(load_run(folder.path()).problems, " | ");
  const fs::path steps = folder.path() / "steps.jsonl";
  const auto lines = core::split(core::read_file(steps), "\n");
  std::ofstream(steps) << core::join(std::span(lines).first(5), "\n") << "\n{\"step\": 5, \"ste";
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.steps.size(), 5u);
  has_problem(run, "5 of 40 steps are there: steps.jsonl ends before step 39, which status.json names as the last");
  std::ofstream(steps) << core::join(std::span(lines).subspan(10, 5), "\n")
                       << "\n";  // went on from another run's checkpoint
  has_problem(load_run(folder.path()), "5 of 30 steps are there");
}

TEST(LoadRun, ADeadRunIsSaidToHaveDied) {
  const core::TempDir folder;
  std::ofstream(folder.path() / "run.json") << R"({"record_version": 1, "attempts": []})";
  std::ofstream(folder.path() / "status.json")
      << R"({"record_version": 1, "state": "running", "heartbeat_s": 1000, "heartbeat_every_s": 10})";
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.state, "died");
  EXPECT_NE(run.message.find("sign of life"), std::string::npos);
  EXPECT_EQ(run.ended_s, 1000);
  has_problem(run, "no step was recorded");
}

TEST(LoadRun, StepsThatNobodyCanHaveCountedAreNoSteps) {
  const core::TempDir folder;
  std::ofstream(folder.path() / "steps.jsonl") << R"({"step":9223372036854775807,"step_ms":1}
{"step":7,"step_ms":2}
)";
  std::ofstream(folder.path() / "status.json")
      << R"({"record_version":1,"state":"completed","last_step":9223372036854775807,"exit_code":1e300})";
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.steps.step, std::vector<int64_t>{7});
  EXPECT_EQ(run.num_rejected_lines, 1);
  const StatusRead status = read_status(folder.path());
  EXPECT_EQ(status.steps_done, std::nullopt);  // the last step and one more would be below zero
  EXPECT_EQ(status.exit_code, std::nullopt);
  std::ofstream(folder.path() / "status.json")
      << R"({"record_version":1,"state":"completed","last_step":18446744073709551615,"attempt":18446744073709551614})";
  EXPECT_EQ(read_status(folder.path()).steps_done, std::nullopt) << "not -1 + 1";
}

TEST(LoadRun, ADamagedRunFileLeavesTheStepsReadable) {
  const core::TempDir folder;
  { RunRecord(folder.path(), Json::object()).append_step(timed_step(0)); }
  std::ofstream(folder.path() / "run.json") << "{\"record_ver";
  const RunData run = load_run(folder.path());
  EXPECT_EQ(run.steps.size(), 1u);
  EXPECT_EQ(run.setup.global_batch, 64);
  EXPECT_EQ(run.setup.sequence_length, 77);
  has_problem(run, "run.json");
  fs::remove(folder.path() / "run.json");
  has_problem(load_run(folder.path()), "run.json is missing");
}

TEST(LoadRun, AnEndThatNobodyToldIsSaidToBeUnknown) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    for (int step = 0; step < 3; ++step) record.append_step(timed_step(step));
    record.finish({});
  }
  EXPECT_TRUE(load_run(folder.path()).problems.empty()) << "a whole record";
  const auto told = [&] {
    const RunData run = load_run(folder.path());
    EXPECT_EQ(run.state, "");
    EXPECT_EQ(run.steps.size(), 3u);
    EXPECT_EQ(run.problems.size(), 1u) << "one sentence";
    return run;
  };
  for (const char* text : {"{\"record_version\": 1, \"sta", "", "{\"record_version\": 1, \"heartbeat_s\": 5}", "[]"}) {
    std::ofstream(folder.path() / "status.json") << text;
    const RunData run = told();
    has_problem(run, "status.json: ");
    has_problem(run, "how the run ended is not known");
  }
  fs::remove(folder.path() / "status.json");
  has_problem(told(), "status.json is missing: how the run ended is not known");
}

TEST(LoadRun, FoldersWithoutARecordAndNewerLayoutsAreRefused) {
  const core::TempDir folder;
  EXPECT_THROW(load_run(folder.path()), EnvironmentError);
  EXPECT_THROW(load_run(folder.path() / "missing"), EnvironmentError);
  std::ofstream(folder.path() / "run.json") << R"({"record_version": 99, "attempts": []})";
  EXPECT_THROW(load_run(folder.path()), DataError);
}

TEST(LoadRun, OlderRecordsTellTheirSetupThroughOptionsModelAndPlan) {
  const Json attempt = core::parse_json(R"({"attempt": 1, "task": "clip", "world_size": 2, "device": "cpu",
    "options": {"model": "m.json", "precision": "fp32", "dataset_type": "synthetic"},
    "model": {"name": "tiny", "image_forward_flops": 1.5e9, "text_forward_flops": 0.5e9},
    "plan": {"micro_batch_size": 8, "accum_freq": 2, "global_batch": 32}})",
                                        "test");
  const RunSetup setup = setup_of_attempt(attempt);
  EXPECT_EQ(setup.task, "clip");
  EXPECT_EQ(setup.model, "tiny");
  EXPECT_EQ(setup.precision, "fp32");
  EXPECT_EQ(setup.device, "cpu");
  EXPECT_EQ(setup.is_on_cpu, true);
  EXPECT_EQ(setup.layout, "dp=2");
  EXPECT_EQ(setup.devices, 2);
  EXPECT_FALSE(setup.nodes);
  EXPECT_EQ(setup.global_batch, 32);
  EXPECT_EQ(setup.samples_per_device, 16);
  EXPECT_EQ(setup.accum, 2);
  EXPECT_EQ(setup.is_synthetic, true);
  EXPECT_EQ(setup.forward_gflops_per_sample, 2.0);
  EXPECT_FALSE(setup.flops_formula.empty());
  EXPECT_EQ(
      to_json(setup_of_attempt(Json{{"setup", to_json(full_setup())}, {"task", "gpt"}, {"world_size", 3}})).dump(),
      to_json(full_setup()).dump());
  EXPECT_EQ(to_json(setup_from_json(Json{{"nodes", "two"}, {"devices", -4}, {"model", 7}})).dump(),
            R"({"sample_unit":"samples"})");
}

TEST(LoadRun, NoMutationOfARecordCrashesOrYieldsImpossibleTimes) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json{{"setup", to_json(full_setup())}});
    for (int step = 0; step < 20; ++step) record.append_step(timed_step(step));
    record.append_rank_times({.step = 1, .num_steps = 2, .step_ms = {10, 11.5}, .hosts = {"a", "b"}});
    record.append_comm({.step = 1, .kind = "all_reduce", .axis = "dp", .bytes = 4096, .count = 3, .time_ms = 0.75});
    record.append_system({.step = 1, .host = "a", .energy_j = {{"nvml-0", 700.5}}});
    record.append_startup({.phases_ms = {{"start", 12.5}}});
    record.finish({});
  }
  uint64_t num_read = 0;
  const uint64_t rounds = tests::fuzz_rounds(30);
  for (uint64_t round = 0; round < rounds; ++round) {
    core::CounterRng rng(round);
    for (const char* file :
         {"run.json", "status.json", "steps.jsonl", "ranks.jsonl", "comm.jsonl", "system.jsonl", "startup.jsonl"}) {
      const std::string whole = core::read_file(folder.path() / file);
      std::ofstream(folder.path() / file, std::ios::binary) << tests::damage(whole, rng);
      try {
        const RunData run = load_run(folder.path());
        ++num_read;
        for (const double ms : run.steps.step_ms)
          ASSERT_TRUE(std::isfinite(ms) && ms > 0) << file << " round " << round;
        for (const auto& [phase, column] : run.steps.phases_ms) ASSERT_EQ(column.size(), run.steps.size());
        ASSERT_EQ(run.steps.loss.size(), run.steps.size());
        for (const CollectiveTotal& total : run.collectives)
          ASSERT_TRUE(std::isfinite(total.time_ms) && total.time_ms >= 0) << file << " round " << round;
      } catch (const Error&) {
      }
      std::ofstream(folder.path() / file, std::ios::binary) << whole;
    }
  }
  EXPECT_GT(num_read, rounds * 6);
}

TEST(LineReader, LinesOfAnyLengthAcrossBlocks) {
  const core::TempDir folder;
  const fs::path path = folder.path() / "lines";
  std::string text;
  std::vector<std::string> expected;
  for (size_t length : {0u, 1u, 262143u, 262144u, 262145u, 700000u, 3u}) {
    expected.push_back(std::string(length, static_cast<char>('a' + expected.size())));
    text += expected.back() + "\n";
  }
  std::ofstream(path) << text << "cut";
  core::LineReader reader(path);
  std::string_view line;
  for (const std::string& whole : expected) {
    ASSERT_TRUE(reader.next(line));
    EXPECT_TRUE(line == whole) << whole.size();
    EXPECT_FALSE(reader.is_cut());
  }
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "cut");
  EXPECT_TRUE(reader.is_cut());
  EXPECT_FALSE(reader.next(line));
  EXPECT_EQ(reader.line_number(), 8);
}

TEST(LineReader, AFileThatGrowsWhileItIsReadIsReadToItsEnd) {
  const core::TempDir folder;
  const fs::path path = folder.path() / "lines";
  append_to(path, "first\nsec");  // the buffer is made for a file of this size
  core::LineReader reader(path);
  std::string_view line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "first");
  const std::string longer(5000, 'x');
  append_to(path, "ond\n" + longer + "\nlast\n");
  for (const std::string& whole : {std::string("second"), longer, std::string("last")}) {
    ASSERT_TRUE(reader.next(line));
    EXPECT_EQ(line, whole);
    EXPECT_FALSE(reader.is_cut());
  }
  EXPECT_FALSE(reader.next(line));
}

}  // namespace
}  // namespace lockstep::record
