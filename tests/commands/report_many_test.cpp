// `report` on what an afternoon leaves behind: 24 runs of three tasks, repeats, failed and stopped ones, foreign logs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using core::Json;
using tests::ProgramResult;
using tests::run_lockstep;

/// One CPU run as the trainer records it; its steps take step_ms with a ripple, the first ten 1.5 times as long.
struct AfternoonRun {
  std::string name{}, task = "clip", model = "ViT-S-32-tiny";
  int ranks = 1, samples_per_device = 16, accum = 1;
  double step_ms = 100;
  int num_steps = 120;
  std::string state = "finished", message{};
  Json options = Json::object(), environment = Json::object();
  std::string layout{};
  bool is_profiled = false;
};

void write_afternoon_run(const fs::path& logs, const AfternoonRun& plan) {
  const fs::path folder = logs / plan.name;
  fs::create_directories(folder);
  const bool is_gpt = plan.task == "gpt";
  const int batch = plan.samples_per_device * plan.ranks;
  const Json setup = {{"task", plan.task},
                      {"model", plan.model},
                      {"precision", "fp32"},
                      {"device", "AMD EPYC 7742 64-Core Processor"},

                      {"nodes", 1},
                      {"devices", plan.ranks},
                      {"global_batch", batch},
                      {"samples_per_device", plan.samples_per_device},
                      {"accum", plan.accum},
                      {"layout", plan.layout.empty() ? fmt::format("dp={} tp=1 pp=1", plan.ranks) : plan.layout},
                      {"sequence_length", is_gpt ? Json(64) : Json()},
                      {"sample_unit", is_gpt ? "sequences" : "samples"},
                      {"forward_gflops_per_sample", 0.5},
                      {"flops_formula", "matrix products"},
                      {"is_synthetic", true},
                      {"is_profiled", plan.is_profiled}};
  Json options = {{"name", plan.name},
                  {"model", plan.model},
                  {"workers", 2},
                  {"precision", "fp32"},
                  {"seed", 0},
                  {"max_steps", 120},
                  {"lr", 0.001},
                  {"grad_sync", "ddp"},
                  {"bucket_mb", 25},
                  {"report_to", "none"},
                  {"log_every_n_steps", 100},
                  {"logs", "logs"},
                  {"dataset_type", "synthetic"}};
  options.update(plan.options);
  const Json attempt = {{"attempt", 1},
                        {"started_s", 1.7e9},
                        {"host", "desk"},
                        {"pid", 1},
                        {"device", "cpu"},
                        {"threads_per_rank", 2},
                        {"command", "lockstep train " + plan.task + " --name " + plan.name},
                        {"version", "0.1.0"},
                        {"setup", setup},
                        {"options", options},
                        {"environment", plan.environment}};
  core::write_file_atomic(folder / "run.json", Json{{"record_version", 1}, {"attempts", {attempt}}}.dump());
  core::write_file_atomic(folder / "status.json", Json{{"record_version", 1},
                                                       {"state", plan.state},
                                                       {"attempt", 1},
                                                       {"heartbeat_s", 1.7e9},
                                                       {"heartbeat_every_s", 10},
                                                       {"message", plan.message},
                                                       {"dropped_lines", 0}}
                                                      .dump());
  std::string steps;
  double time_s = 1.7e9;
  for (int i = 0; i < plan.num_steps; ++i) {
    const double ms = plan.step_ms * (1 + 0.02 * std::sin(12.9898 * i * i)) * (i < 10 ? 1.5 : 1);
    time_s += ms / 1e3;
    const Json phases = {{"data_wait", 0.01 * ms},
                         {"forward", 0.3 * ms},
                         {"backward", 0.5 * ms},
                         {"exposed_comm", plan.ranks > 1 ? 0.1 * ms : 0.0},
                         {"optimizer", 0.05 * ms}};
    Json step = {{"attempt", 1},
                 {"step", i},
                 {"samples", batch},
                 {"samples_seen", batch * (i + 1)},
                 {"step_ms", ms},
                 {"data_wait_ms", 0.01 * ms},
                 {"samples_per_s", 1e3 * batch / ms},
                 {"loss", 3 + 4 * std::exp(-i / 40.0)},
                 {"lr", 1e-3},
                 {"phases_ms", phases},
                 {"time_s", time_s}};
    if (is_gpt) step["tokens"] = 64 * batch;
    steps += step.dump() + "\n";
  }
  core::write_file_atomic(folder / "steps.jsonl", steps);
}

/// 20 records and the logs of four other programs.
void write_afternoon(const fs::path& logs) {
  const std::vector<std::pair<int, double>> clip_sizes = {{1, 120}, {2, 131}, {4, 190}};
  for (const auto& [ranks, ms] : clip_sizes)
    for (int repeat = 0; repeat < 2; ++repeat)
      write_afternoon_run(logs, {.name = fmt::format("clip-n{}-r{}", ranks, repeat),
                                 .ranks = ranks,
                                 .step_ms = ms * (1 + 0.02 * repeat),
                                 .options = {{"log_every_n_steps", repeat == 0 ? 1 : 10},
                                             {"report_to", repeat == 0 ? "none" : "tensorboard"},
                                             {"save_frequency", 1 + repeat},
                                             {"name", fmt::format("clip-n{}-r{}", ranks, repeat)}},
                                 .environment = {{"NCCL_DEBUG", repeat == 0 ? "WARN" : "VERSION"},
                                                 {"NCCL_SOCKET_IFNAME", fmt::format("eth{}", repeat)}}});
  write_afternoon_run(logs,
                      {.name = "clip-ckpt-n2", .ranks = 2, .step_ms = 160, .options = {{"grad_checkpointing", true}}});
  write_afternoon_run(logs, {.name = "clip-workers-n2", .ranks = 2, .step_ms = 128, .options = {{"workers", 8}}});
  write_afternoon_run(logs, {.name = "clip-profiled", .ranks = 2, .step_ms = 180, .is_profiled = true});
  write_afternoon_run(logs, {.name = "clip-failed-n2",
                             .ranks = 2,
                             .step_ms = 131,
                             .num_steps = 12,
                             .state = "failed",
                             .message = "comm: rank 1 is gone: connection closed by peer 127.0.0.1 during all-reduce"});
  write_afternoon_run(logs, {.name = "clip-failed-n4",
                             .ranks = 4,
                             .num_steps = 0,
                             .state = "failed",
                             .message = "data: no shard matches 'train-{0000..0003}.tar'"});
  for (const auto& [ranks, ms] : {std::pair{1, 400.0}, {2, 215.0}, {4, 130.0}})
    write_afternoon_run(logs, {.name = fmt::format("gpt-n{}", ranks),
                               .task = "gpt",
                               .model = "gpt-tiny",
                               .ranks = ranks,
                               .samples_per_device = 32 / ranks,
                               .accum = 4 / ranks,
                               .step_ms = ms,
                               .options = {{"micro_batch_size", 8}, {"global_batch_size", 32}}});
  write_afternoon_run(
      logs, {.name = "gpt-tp2",
             .task = "gpt",
             .model = "gpt-tiny",
             .ranks = 2,
             .samples_per_device = 16,
             .accum = 4,
             .step_ms = 260,
             .options = {{"tensor_model_parallel_size", 2}, {"micro_batch_size", 4}, {"global_batch_size", 16}},
             .layout = "dp=1 tp=2 pp=1"});
  write_afternoon_run(logs, {.name = "gpt-stopped",
                             .task = "gpt",
                             .model = "gpt-tiny",
                             .ranks = 1,
                             .samples_per_device = 32,
                             .accum = 4,
                             .step_ms = 405,
                             .num_steps = 40,
                             .state = "stopped",
                             .message = "SIGINT",
                             .options = {{"micro_batch_size", 8}, {"global_batch_size", 32}}});
  for (const auto& [ranks, ms] : {std::pair{1, 300.0}, {2, 330.0}})
    write_afternoon_run(logs, {.name = fmt::format("clap-n{}", ranks),
                               .task = "clap",
                               .model = "HTSAT-tiny",
                               .ranks = ranks,
                               .samples_per_device = 8,
                               .step_ms = ms});
  write_afternoon_run(logs, {.name = "clap-r1",
                             .task = "clap",
                             .model = "HTSAT-tiny",
                             .samples_per_device = 8,
                             .step_ms = 310,
                             .num_steps = 60});
  write_afternoon_run(logs, {.name = "clap-short",
                             .task = "clap",
                             .model = "HTSAT-tiny",
                             .samples_per_device = 8,
                             .step_ms = 300,
                             .num_steps = 3});
  for (const char* log : {"openclip.log", "megatron.log", "torchtitan.log", "deepspeed.log"})
    fs::copy_file(fs::path(LOCKSTEP_GOLDEN_DIR) / "logs" / log, logs / log);
}

TEST(ReportOfAnAfternoon, FitsAScreenForEachCurve) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs", out = folder.path() / "out";
  write_afternoon(logs);
  std::vector<std::string> call = {"report"};
  for (const auto& entry : fs::directory_iterator(logs)) call.push_back(entry.path().string());
  std::sort(call.begin() + 1, call.end());
  ASSERT_EQ(call.size(), 25u);
  call.insert(call.end(), {"-o", out.string()});
  const ProgramResult made = run_lockstep(call);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  std::vector<std::string> lines = core::split(made.out, "\n");
  EXPECT_LE(lines.size(), 121u) << "120 lines and what follows the last\n" << made.out;
  for (const std::string& line : lines) {
    if (line == (out / "report.html").string()) continue;
    EXPECT_LE(line.size(), 80u) << line;
  }
  const std::string text = core::replace_all(made.out, "\n", " ");
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_EQ(made.out.find("24 runs in "), 0u) << "the runs come first\n" << made.out;
  EXPECT_TRUE(std::regex_search(made.out, std::regex("\n\\[[0-9]+\\] ViT-S-32-tiny, fp32[:\n]")))
      << "of the usual configuration nothing more is told\n"
      << made.out;
  EXPECT_TRUE(has("ViT-S-32-tiny, fp32, grad-checkpointing true")) << made.out;
  EXPECT_TRUE(has("ViT-S-32-tiny, fp32, workers 8")) << made.out;
  EXPECT_FALSE(has("workers 2")) << "what most have is not told\n" << made.out;
  for (const char* harmless : {"NCCL_", "log-every-n-steps", "report-to", "save-frequency"})
    EXPECT_FALSE(has(harmless)) << harmless << " parts no runs\n" << made.out;
  EXPECT_TRUE(has("Strong scaling: the global batch is 32 at every size")) << made.out;
  for (const char* word : {"- profiled", "- failed", "- no steps", "M04 single-run"})
    EXPECT_TRUE(has(word)) << word << "\n" << made.out;
  EXPECT_LT(made.out.find("M01 few-steps"), made.out.find("M04 single-run")) << "sorted";
  const ProgramResult page =
      tests::run_program({"/usr/bin/env", "python3", LOCKSTEP_SOURCE_DIR "/tests/support/check_page.py", "--quick",
                          (out / "report.html").string()},
                         {}, std::chrono::minutes(8));
  constexpr int kNoBrowser = 3;
  if (page.exit_code == kNoBrowser) GTEST_SKIP() << page.out;
  EXPECT_EQ(page.exit_code, 0) << page.out << page.err;
}

}  // namespace
}  // namespace lockstep
