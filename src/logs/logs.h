#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "logs/formats.h"
#include "logs/option_dialect.h"
#include "record/meta.h"
#include "record/run_data.h"

namespace lockstep::logs {

/// The name of a format as --from takes it.
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

/// Of the program with this format of logs; empty for a format that is not known.
OptionDialect option_dialect(std::string_view format);

struct LogOptions {
  record::MetaOptions meta{};  ///< Facts that logs lack; they help reading (the batch turns rates into times) and win
                               ///< over what the log says.
};

/// Reads the runs in the log of any of these programs (a lockstep record through load_run). Lines that look like steps
/// and cannot be read are counted and listed in `problems`, like everything else that a reader of the numbers must
/// know. Most logs hold one run; of several (RunData::part tells which) the first tells the problems of the file as a
/// whole. Never empty: DataError when the file is compressed, when the format cannot be guessed (of a .csv with what
/// its first line lacks) or nothing in the file fits it.
std::vector<record::RunData> read_log(const std::filesystem::path& path, std::optional<LogFormat> format = std::nullopt,
                                      const LogOptions& options = {});

}  // namespace lockstep::logs
