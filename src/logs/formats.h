#pragma once
#include <string_view>

namespace lockstep::logs {

struct LogReader;  // logs/parser.h

/// Programs whose logs are read (docs/logs.md says what is taken from each and which of its numbers are trusted).
enum class LogFormat {
  kLockstep,
  kOpenClip,
  kMlperf,
  kNemo,
  kMegatron,
  kTorchTitan,
  kDeepSpeed,
  kImageNet,
  kTfCnn,
  kNcclTests,
  kBench,
  kCsv
};

LogReader openclip_reader();
LogReader mlperf_reader();
LogReader nemo_reader();
LogReader megatron_reader();
LogReader torchtitan_reader();
LogReader deepspeed_reader();
LogReader imagenet_reader();
LogReader tf_cnn_reader();
LogReader nccl_tests_reader();
LogReader bench_reader();
LogReader csv_reader();

struct LogFormatInfo {
  LogFormat format = LogFormat::kCsv;
  std::string_view name{};          ///< As --from takes it: "openclip".
  std::string_view program{};       ///< In words: "OpenCLIP, CLAP benchmark".
  std::string_view step_time{};     ///< What the time of a step is taken from, in Markdown.
  std::string_view interval{};      ///< How many steps this time is the mean of, in Markdown.
  LogReader (*reader)() = nullptr;  ///< nullptr: not read line by line.
  bool is_benchmark = false;        ///< Results of a benchmark, not of training.
};

/// All formats, in the order in which a tie of the guess is decided. A new one is a file of this folder, and in this
/// header a value, a reader and a row.
inline constexpr LogFormatInfo kLogFormats[] = {
    {LogFormat::kLockstep, "lockstep", "a run record of lockstep", "`steps.jsonl`", "1"},
    {LogFormat::kOpenClip, "openclip", "OpenCLIP and the CLAP benchmark", "`Batch (t)`, the mean since the line before",
     "from the sample counter; 1 for the first line of an epoch", openclip_reader},
    {LogFormat::kMlperf, "mlperf", "MLPerf (MLLOG lines)",
     "`train_step_time`, `train_step_timing` or `train_step_timing in s` of `tracked_stats`; without them blocks from "
     "start to stop",
     "the interval; 1 where the clock shows last steps", mlperf_reader},
    {LogFormat::kNemo, "nemo", "NeMo and Lightning", "`train_step_timing`", "of a bar 1, of a line the log interval",
     nemo_reader},
    {LogFormat::kMegatron, "megatron", "Megatron-LM", "`elapsed time per iteration (ms)` or `(s)`", "the log interval",
     megatron_reader},
    {LogFormat::kTorchTitan, "torchtitan", "torchtitan",
     "batch x sequence length / devices / `tps`; else differences of the time stamps",
     "1 for the first line, then the interval", torchtitan_reader},
    {LogFormat::kDeepSpeed, "deepspeed", "DeepSpeed", "batch / `CurrSamplesPerSec`", "1", deepspeed_reader},
    {LogFormat::kImageNet, "imagenet", "the ImageNet example of PyTorch", "the value of `Time`", "1", imagenet_reader},
    {LogFormat::kTfCnn, "tf_cnn", "tf_cnn_benchmarks",
     "batch x (k2 / rate2 - k1 / rate1), since the rate is a mean from the start",
     "the interval; longer where the digits tell no less", tf_cnn_reader},
    {LogFormat::kNcclTests, "nccl-tests", "nccl-tests (all_reduce_perf and others)",
     "(points of a collective: time and size)", "", nccl_tests_reader, true},
    {LogFormat::kBench, "bench", "results of lockstep bench", "(points of a collective)", "", bench_reader, true},
    {LogFormat::kCsv, "csv", "a CSV file of steps", "a column of step times", "the difference of the step column",
     csv_reader},
};

}  // namespace lockstep::logs
