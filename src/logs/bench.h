#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "record/run_data.h"

namespace lockstep::logs {

/// Is the file a document that `lockstep bench --json` or `--output` wrote? Reads its beginning only.
bool is_bench_document(const std::filesystem::path& file);

/// Its collectives as points, with the ranks and hosts it tells; of any other case `run.message` says what the file is.
/// DataError when it is damaged.
void read_bench_document(const std::filesystem::path& file, record::RunData& run);

/// Why a result of `lockstep bench CASE` is in no report of training runs.
std::string bench_case_message(std::string_view name);

}  // namespace lockstep::logs
