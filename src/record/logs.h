#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/meta.h"
#include "record/run_data.h"

namespace lockstep::record {

/// Programs whose logs are read (docs/logs.md says what is taken from each and which of its numbers are trusted).
enum class LogFormat {
  kLockstep,
  kOpenClip,
  kNemo,
  kMegatron,
  kTorchTitan,
  kDeepSpeed,
  kImageNet,
  kMlperf,
  kTfCnn,
  kNcclTests,
  kBench,
  kCsv
};

struct LogFormatInfo {
  LogFormat format = LogFormat::kCsv;
  std::string_view name{};     ///< As --from takes it: "openclip".
  std::string_view program{};  ///< In words: "OpenCLIP, CLAP benchmark".
};

std::string to_text(LogFormat format);
/// UsageError with the nearest name.
LogFormat parse_log_format(std::string_view name);

/// The format with the most recognised lines near the start of the file; nothing when no line is recognised. A folder
/// with a run.json or steps.jsonl is a lockstep record, any other folder is judged by its out.log. EnvironmentError
/// when the file cannot be read.
std::optional<LogFormat> guess_format(const std::filesystem::path& path);

/// Is the file a result of `lockstep bench` or of nccl-tests (not of training), by its beginning? Files that cannot be
/// read are none.
bool is_benchmark_result(const std::filesystem::path& file);

struct LogOptions {
  MetaOptions meta{};  ///< Facts that logs lack; they help reading (the batch turns rates into times) and win over what
                       ///< the log says.
};

/// Reads the runs in the log of any of these programs (a lockstep record through load_run). Lines that look like steps
/// and cannot be read are counted and told in `problems`, like everything else that a reader of the numbers must know.
/// Most logs hold one run; of several (RunData::part tells which) the first tells the problems of the file as a whole.
/// Never empty: DataError when the file is compressed, when the format cannot be guessed (of a .csv with what its first
/// line lacks) or nothing in the file fits it.
std::vector<RunData> read_log(const std::filesystem::path& path, std::optional<LogFormat> format = std::nullopt,
                              const LogOptions& options = {});

}  // namespace lockstep::record
