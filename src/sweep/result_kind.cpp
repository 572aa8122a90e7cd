#include "sweep/result_kind.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "commands/commands.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {

/// Flags that the sweep sets, or that make no sense in one, with the reason.
using OwnFlag = std::pair<std::string_view, const char*>;

constexpr std::array<OwnFlag, 10> kOwnFlagsOfTrain{{{"name", "every point has its own run name"},
                                                    {"logs", "runs lie in the folder of the sweep"},
                                                    {"resume", "every point resumes from its latest checkpoint"},
                                                    {"dry-run", "`lockstep sweep FILE --dry-run` is the dry run"},
                                                    {"json", "it belongs to --dry-run"},
                                                    {"world-size", "the axis nodes and ranks-per-node set it"},
                                                    {"dist-rank", "SLURM tells each rank"},
                                                    {"dist-world-size", "the axis nodes and ranks-per-node set it"},
                                                    {"dist-local-rank", "SLURM tells each rank"},
                                                    {"dist-url", "SLURM tells where the ranks meet"}}};
constexpr std::array<OwnFlag, 3> kOwnFlagsOfBench{
    {{"output", "every point writes its result into the folder of the sweep"},
     {"out", "every point writes its result into the folder of the sweep"},
     {"mode", "every point is checked and timed"}}};

}  // namespace

ResultKind result_kind(const std::string& command, const std::string& where) {
  if (core::starts_with(command, "train ")) return ResultKind::kRunRecord;
  if (core::starts_with(command, "bench ")) return ResultKind::kBenchDocument;
  throw UsageError(
      fmt::format("sweep: {}: a sweep of '{}' is not possible, only of training and of bench", where, command),
      fmt::format("set command = \"{}\" or \"bench latency\"", commands::default_train_command()));
}

std::string_view flags_section(ResultKind kind) { return kind == ResultKind::kRunRecord ? "train" : "bench"; }

std::string result_path(ResultKind kind, const std::string& point) {
  return "runs/" + point + (kind == ResultKind::kBenchDocument ? ".json" : "");
}

std::vector<std::string> result_flags(ResultKind kind, const fs::path& folder, const std::string& point) {
  if (kind == ResultKind::kBenchDocument) return {"--output=" + (folder / result_path(kind, point)).string()};
  return {"--logs=" + (folder / "runs").string(), "--name=" + point, "--resume=latest"};
}

const char* reason_against_flag(ResultKind kind, std::string_view flag) {
  const std::span<const OwnFlag> own =
      kind == ResultKind::kRunRecord ? std::span<const OwnFlag>(kOwnFlagsOfTrain) : kOwnFlagsOfBench;
  for (const auto& [name, reason] : own)
    if (flag == name) return reason;
  return nullptr;
}

bool is_bench_document(const fs::path& result) {
  std::error_code failure;
  return fs::is_regular_file(result, failure);
}

bool is_incomplete(const core::Json& document) {
  return document.is_object() && document.value("incomplete", core::Json()) == true;
}

void require_bench_result(const core::Json& document, const fs::path& result) {
  if (is_incomplete(document))
    throw DataError(fmt::format("sweep: '{}' is incomplete: the benchmark had not ended", result.string()),
                    "start the point again with `lockstep sweep resume`");
  if (!document.is_object() || !document.contains("rows") || !document.contains("summary"))
    throw DataError(fmt::format("sweep: '{}' is no result of `lockstep bench`", result.string()),
                    "remove it and start the point again with `lockstep sweep resume`");
}

core::Json read_bench_document(const fs::path& result) {
  core::Json document = core::read_json_file(result);
  require_bench_result(document, result);
  return document;
}

}  // namespace lockstep::sweep
