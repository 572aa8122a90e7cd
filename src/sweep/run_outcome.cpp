#include "sweep/run_outcome.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/is_there.h"
#include "core/strings.h"
#include "record/reader.h"
#include "sweep/result_kind.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;

namespace {
double written_s(const fs::path& file) {
  std::error_code failure;
  const auto when = std::chrono::file_clock::to_sys(fs::last_write_time(file, failure));
  if (failure) throw core::as_environment_error(fs::filesystem_error("", file, failure));
  return std::chrono::duration<double>(when.time_since_epoch()).count();
}

RunOutcome outcome_of_bench(const fs::path& result) {
  RunOutcome outcome;
  try {
    const core::Json document = core::read_json_file(result);
    if (is_incomplete(document)) return {};  // it is under way, or has ended before its last row: its log says why
    require_bench_result(document, result);
    const auto num_wrong = document.at("summary").value("num_wrong", int64_t{0});
    outcome.status = num_wrong == 0 ? PointStatus::kFinished : PointStatus::kFailed;
    if (num_wrong > 0) outcome.message = fmt::format("bench: {} values are wrong, see {}", num_wrong, result.string());
    outcome.heartbeat_s = written_s(result);
  } catch (const core::Json::exception& error) {
    outcome = {.status = PointStatus::kDied, .message = fmt::format("'{}': {}", result.string(), error.what())};
  } catch (const DataError& error) {
    outcome = {.status = PointStatus::kDied, .message = error.what()};
  }
  return outcome;
}

RunOutcome outcome_of_run(const fs::path& run_folder, double now_s) {
  if (!core::is_there(run_folder / "status.json")) return {};
  RunOutcome outcome;
  record::StatusRead status;
  try {
    status = record::read_status(run_folder);
  } catch (const DataError& error) {
    return {.status = PointStatus::kDied, .message = error.what()};
  }
  outcome.message = status.message;
  outcome.steps_done = status.steps_done;
  outcome.heartbeat_s = status.heartbeat_s;
  if (status.state == "finished")
    outcome.status = PointStatus::kFinished;
  else if (status.state == "stopped")
    outcome.status = PointStatus::kStopped;
  else if (status.state == "failed")
    outcome.status = PointStatus::kFailed;
  else
    outcome.status = status.is_dead(now_s) ? PointStatus::kDied : PointStatus::kRunning;
  return outcome;
}
}  // namespace

RunOutcome read_outcome(const fs::path& result, double now_s) {
  try {
    return is_bench_document(result) ? outcome_of_bench(result) : outcome_of_run(result, now_s);
  } catch (const EnvironmentError& error) {
    return {.message = error.what(), .is_unknown = true};
  }
}

std::vector<JobSpan> read_spans(const fs::path& events_file) {
  std::vector<JobSpan> spans;
  if (!core::is_there(events_file)) return spans;
  for (const core::Json& line : record::read_json_lines(events_file).lines) {
    try {
      const std::string event = line.at("event"), job = line.at("job");
      const auto number = core::integer_of(line.at("restart"));
      if (!number || !std::in_range<int>(*number)) continue;
      const int restart = static_cast<int>(*number);
      const double time_s = line.at("time_s");
      if (event == "start") {
        spans.push_back({.job = job, .restart = restart, .start_s = time_s, .nodes = line.at("nodes")});
      } else if (event == "end" && !spans.empty() && spans.back().job == job && spans.back().restart == restart) {
        spans.back().end_s = time_s;
        if (const auto code = core::integer_of(line.at("exit_code")); code && std::in_range<int>(*code))
          spans.back().exit_code = static_cast<int>(*code);
      }
    } catch (const core::Json::exception&) {
      continue;  // a line of another kind
    }
  }
  return spans;
}

namespace {
/// The end of a log; "" where there is none or it cannot be read.
std::string tail_of(const fs::path& log) {
  constexpr uint64_t kTailBytes = 64 * 1024;
  try {
    if (!core::is_there(log)) return "";
    const core::Fd file = core::open_for_reading(log);
    const uint64_t bytes = core::file_bytes(file, log), start = bytes - std::min(bytes, kTailBytes);
    std::string tail(static_cast<size_t>(bytes - start), '\0');
    tail.resize(core::read_at(file, std::as_writable_bytes(std::span(tail)), start, log));
    return tail;
  } catch (const EnvironmentError&) {
    return "";
  }
}
}  // namespace

std::string failure_message(const fs::path& folder, const std::string& log, const std::string& otherwise) {
  constexpr std::string_view kMark = "lockstep: error: ", kLostPeer = "comm:";
  std::string cause, consequence;
  for (const std::string& line : core::split(tail_of(folder / log), "\n")) {
    const size_t at = line.find(kMark);
    if (at == std::string::npos) continue;
    const std::string message = line.substr(at + kMark.size(), 500);
    (core::starts_with(message, kLostPeer) ? consequence : cause) = message;
  }
  if (cause.empty()) cause = consequence;
  return cause.empty() ? fmt::format("{}; see {}", otherwise, log)
                       : fmt::format("{} ({}; see {})", cause, otherwise, log);
}

void append_event(const fs::path& events_file, const std::string& event, const std::string& job,
                  std::optional<int> exit_code) {
  const core::Json line = {{"event", event},   {"job", job},
                           {"restart", 0},     {"time_s", static_cast<int64_t>(core::unix_seconds())},
                           {"nodes", "local"}, {"exit_code", exit_code ? core::Json(*exit_code) : core::Json(nullptr)}};
  const std::string text = line.dump() + "\n";
  const core::Fd file(::open(events_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    core::throw_errno("cannot write", events_file);
}

}  // namespace lockstep::sweep
