#include "record/reader.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/process_mark.h"

namespace lockstep::record {
namespace {

using core::Json;
namespace fs = std::filesystem;

std::optional<double> number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// A count or a code; one so large that nobody can have counted it is none.
template <typename Integer> std::optional<Integer> count_at(const Json& object, const char* key) {
  constexpr int64_t kMost = std::min<int64_t>(std::numeric_limits<Integer>::max(), 1'000'000'000'000'000);
  const auto value = core::integer_at(object, key);
  return value && *value >= -kMost && *value <= kMost ? std::optional(static_cast<Integer>(*value)) : std::nullopt;
}

void check_version(const Json& object, const fs::path& path) {
  const auto version = object.is_object() ? count_at<int64_t>(object, "record_version") : std::nullopt;
  if (!version)
    throw DataError(fmt::format("record: '{}' has no record_version", path.string()), "is this the folder of a run?");
  if (*version > kRecordVersion)
    throw NewerRecordError(
        fmt::format("record: '{}' has record_version={}, expected at most {}", path.string(), *version, kRecordVersion),
        "read it with the newer lockstep that wrote it");
}

}  // namespace

LinesRead read_json_lines(const fs::path& path) { return parse_json_lines(core::read_file(path), path.string()); }

LinesRead parse_json_lines(std::string_view content, std::string_view where) {
  LinesRead read;
  read.is_last_line_cut = !content.empty() && content.back() != '\n';
  for (size_t start = 0; start < content.size();) {
    const size_t end = std::min(content.find('\n', start), content.size());
    const std::string_view line = content.substr(start, end - start);
    start = end + 1;
    if (line.empty()) continue;
    try {
      Json value = core::parse_json(line, where);
      if (!value.is_object()) throw DataError("not an object");
      read.lines.push_back(std::move(value));
    } catch (const DataError&) {
      ++read.num_damaged;
    }
  }
  return read;
}

StepsRead read_steps(const fs::path& folder) {
  const fs::path path = folder / "steps.jsonl";
  return parse_steps(core::read_file(path), path.string());
}

StepsRead parse_steps(std::string_view content, std::string_view where) {
  const LinesRead lines = parse_json_lines(content, where);
  StepsRead read{
      .steps = {}, .num_superseded = 0, .num_damaged = lines.num_damaged, .is_last_line_cut = lines.is_last_line_cut};
  std::map<int64_t, StepRecord> by_step;
  for (const Json& line : lines.lines) {
    try {
      StepRecord record = step_from_json(line, where);
      const auto [place, is_new] = by_step.try_emplace(record.step, record);
      if (is_new) continue;
      ++read.num_superseded;
      if (record.attempt >= place->second.attempt) place->second = std::move(record);
    } catch (const DataError&) {
      ++read.num_damaged;
    }
  }
  read.steps.reserve(by_step.size());
  for (auto& [step, record] : by_step) read.steps.push_back(std::move(record));
  return read;
}

RunRead read_run(const fs::path& folder) {
  const fs::path path = folder / "run.json";
  Json run = core::read_json_file(path);
  check_version(run, path);
  if (!run.contains("attempts") || !run["attempts"].is_array())
    throw DataError(fmt::format("record: '{}' has no list 'attempts'", path.string()));
  return {.record_version = static_cast<int>(run["record_version"].get<int64_t>()),
          .attempts = std::move(run["attempts"])};
}

bool StatusRead::is_dead(double now_unix_s) const {
  constexpr double kMissedBeats = 6;  // file systems of clusters show a change to other hosts up to a minute late
  return state == "running" &&
         (has_no_writer || now_unix_s - heartbeat_s > kMissedBeats * std::max(heartbeat_every_s, 1.0));
}

StatusRead read_status(const fs::path& folder) {
  const fs::path path = folder / "status.json";
  const auto has_lost_writer = [](const Json& status) {
    return core::text_at(status, "state") == "running" && core::has_process_ended(core::text_at(status, "process"));
  };
  Json status = core::read_json_file(path);
  if (has_lost_writer(status)) status = core::read_json_file(path);  // it may have said how it ends, and ended, since
  check_version(status, path);
  StatusRead read;
  read.state = core::text_at(status, "state");
  if (read.state.empty()) throw DataError(fmt::format("record: '{}' has no state", path.string()));
  read.attempt = count_at<int>(status, "attempt").value_or(0);
  read.exit_code = count_at<int>(status, "exit_code");
  read.first_failing_rank = count_at<int>(status, "first_failing_rank");
  read.message = core::text_at(status, "message");
  read.steps_done = count_at<int64_t>(status, "steps_done");
  if (const auto last = count_at<int64_t>(status, "last_step"); last && !read.steps_done) read.steps_done = *last + 1;
  read.cuda_graphs = core::text_at(status, "cuda_graphs");
  read.heartbeat_s = number_at(status, "heartbeat_s").value_or(0);
  read.heartbeat_every_s = number_at(status, "heartbeat_every_s").value_or(0);
  read.ended_s = number_at(status, "ended_s");
  read.dropped_lines = count_at<int64_t>(status, "dropped_lines").value_or(0);
  read.has_no_writer = has_lost_writer(status);
  read.writer =
      fmt::format("pid {} on {}", count_at<int64_t>(status, "pid").value_or(0), core::text_at(status, "host"));
  return read;
}

}  // namespace lockstep::record
