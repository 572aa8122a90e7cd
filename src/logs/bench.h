#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "record/run_data.h"

namespace lockstep::logs {

/// Is the file a document that `lockstep bench --json` or `--output` wrote? Reads its beginning only.
bool is_bench_document(const std::filesystem::path& file);

/// Its collectives or latencies as points, with the ranks and hosts it tells; of any other case `run.message` says what
/// the file is. DataError when it is damaged.
void read_bench_document(const std::filesystem::path& file, record::RunData& run);

/// Is the file a table of latencies: a column batch, and times in columns PROGRAM_TYPE_s ("trt_fp16_s")?
bool is_latency_table(const std::filesystem::path& file);
/// Its rows as points, one for each program and type. DataError for what is no number.
void read_latency_table(const std::filesystem::path& file, record::RunData& run);

/// Why a result of `lockstep bench CASE` is in no report of training runs.
std::string bench_case_message(std::string_view name);

}  // namespace lockstep::logs
