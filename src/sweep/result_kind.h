#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lockstep::sweep {

/// What the points of a sweep leave behind, by their command.
enum class ResultKind {
  kRunRecord,      ///< Of `train`: the folder of a run, which can be stopped with a checkpoint and resumed.
  kBenchDocument,  ///< Of `bench`: one JSON file, written when everything is measured; what is stopped begins anew.
};

/// Of "train clip", "bench latency", ... UsageError for commands that are neither, with `where` in front.
ResultKind result_kind(const std::string& command, const std::string& where);

/// The section of a sweep file that holds the flags of such a command: "train", "bench".
std::string_view flags_section(ResultKind kind);

/// Where a point leaves its result, below the folder of the sweep.
std::string result_path(ResultKind kind, const std::string& point);

/// The flags that make it do so. `folder`: that of the sweep.
std::vector<std::string> result_flags(ResultKind kind, const std::filesystem::path& folder, const std::string& point);

/// Why a sweep file may not set this flag of the command; nullptr: it may.
const char* reason_against_flag(ResultKind kind, std::string_view flag);

/// Is the result of a point, which is there, a JSON file of `bench`? Its content then; DataError for a damaged one.
bool is_bench_document(const std::filesystem::path& result);
core::Json read_bench_document(const std::filesystem::path& result);
/// DataError for a document of `result` that is none, or whose benchmark had not ended.
void require_bench_result(const core::Json& document, const std::filesystem::path& result);
/// Does it say so of itself? `bench` writes it anew behind each row.
bool is_incomplete(const core::Json& document);

}  // namespace lockstep::sweep
