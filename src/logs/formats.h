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
  LogReader (*reader)() = nullptr;  ///< nullptr: not read line by line.
  bool is_benchmark = false;        ///< Results of a benchmark, not of training.
};

/// All formats, in the order in which a tie of the guess is decided. A new one is a file of this folder, and in this
/// header a value, a reader and a row.
inline constexpr LogFormatInfo kLogFormats[] = {
    {LogFormat::kLockstep, "lockstep", "a run record of lockstep"},
    {LogFormat::kOpenClip, "openclip", "OpenCLIP and the CLAP benchmark", openclip_reader},
    {LogFormat::kMlperf, "mlperf", "MLPerf (MLLOG lines)", mlperf_reader},
    {LogFormat::kNemo, "nemo", "NeMo and Lightning", nemo_reader},
    {LogFormat::kMegatron, "megatron", "Megatron-LM", megatron_reader},
    {LogFormat::kTorchTitan, "torchtitan", "torchtitan", torchtitan_reader},
    {LogFormat::kDeepSpeed, "deepspeed", "DeepSpeed", deepspeed_reader},
    {LogFormat::kImageNet, "imagenet", "the ImageNet example of PyTorch", imagenet_reader},
    {LogFormat::kTfCnn, "tf_cnn", "tf_cnn_benchmarks", tf_cnn_reader},
    {LogFormat::kNcclTests, "nccl-tests", "nccl-tests (all_reduce_perf and others)", nccl_tests_reader, true},
    {LogFormat::kBench, "bench", "results of lockstep bench", bench_reader, true},
    {LogFormat::kCsv, "csv", "a CSV file of steps", csv_reader},
};

}  // namespace lockstep::logs
