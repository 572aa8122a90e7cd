#include "record/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/host_name.h"
#include "core/is_there.h"
#include "core/log.h"
#include "core/process_mark.h"
#include "core/strings.h"
#include "record/reader.h"

namespace lockstep::record {
namespace {

using core::Json;
namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    errno = failure.value();
    core::throw_errno("record: cannot create the run folder", folder);
  }
}

/// The attempts of run.json. One that is damaged is moved aside, since a run must not die of its own diary; of one that
/// cannot be read that is not known, and writing another would lose it: CheckpointError.
Json load_attempts(const fs::path& path) {
  const fs::path aside = path.string() + ".damaged";
  try {
    if (!core::is_there(path)) return Json::array();
    try {
      return read_run(path.parent_path()).attempts;
    } catch (const DataError& error) {
      std::error_code failure;
      fs::rename(path, aside, failure);
      if (failure) throw core::as_environment_error(fs::filesystem_error("", path, failure));
      core::log_warning("{}; kept as '{}'", error.what(), aside.string());
      return Json::array();
    }
  } catch (const EnvironmentError& error) {
    throw CheckpointError(fmt::format("record: the attempts before this one are not known: {}", error.what()),
                          "see to the storage or the permissions and start again, or move the file away");
  }
}

int highest_attempt(const Json& attempts, const fs::path& folder) {
  int64_t highest = 0;
  for (const Json& attempt : attempts) {
    highest = std::max(highest, core::integer_at(attempt, "attempt").value_or(0));
  }
  if (attempts.empty() && fs::exists(folder / "steps.jsonl")) {
    for (const StepRecord& step : read_steps(folder).steps) highest = std::max<int64_t>(highest, step.attempt);
  }
  return static_cast<int>(std::clamp<int64_t>(highest, 0, 1'000'000'000));
}

/// A full disk has no room for the new file beside the old one; the block of the old one takes the text then.
void write_status_file(const fs::path& path, const std::string& text) {
  try {
    core::write_file_atomic(path, text);
  } catch (const EnvironmentError&) {
    const core::Fd file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    const auto size = static_cast<ssize_t>(text.size());
    if (!file.valid() || ::pwrite(file.get(), text.data(), text.size(), 0) != size ||
        ::ftruncate(file.get(), size) != 0)
      throw;
  }
}

/// Steps that an attempt has done by the end of steps.jsonl; nothing where it tells of none.
std::optional<int64_t> steps_on_record(const fs::path& folder, int attempt) {
  constexpr std::streamoff kTailBytes = 1 << 20;  // hundreds of steps, also of a long run
  const fs::path path = folder / "steps.jsonl";
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  file.seekg(-std::min<std::streamoff>(file.tellg(), kTailBytes), std::ios::end);
  const std::string tail(std::istreambuf_iterator<char>(file), {});
  std::optional<int64_t> done;
  for (const StepRecord& step : parse_steps(tail, path.string()).steps)
    if (step.attempt == attempt) done = std::max(done.value_or(0), step.step + 1);
  return done;
}

/// For a rank 0 that could not say it.
void end_in_failure(Json& status, const fs::path& folder, int exit_code, const std::string& message) {
  status["state"] = to_text(RunState::kFailed);
  status["exit_code"] = exit_code;
  status["message"] = message;
  status["ended_s"] = core::unix_seconds();
  if (const auto done = steps_on_record(folder, status.value("attempt", 0))) {  // since the last heartbeat
    const int64_t steps = std::max(core::integer_at(status, "steps_done").value_or(0), *done);
    status["steps_done"] = steps;
    status["last_step"] = steps - 1;
  }
}

std::string dumped(const Json& status) { return status.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string to_text(RunState state) {
  switch (state) {
    case RunState::kRunning: return "running";
    case RunState::kFinished: return "finished";
    case RunState::kStopped: return "stopped";
    case RunState::kFailed: return "failed";
  }
  return "failed";
}

RunRecord::RunRecord(const fs::path& folder, const Json& attempt, const RunRecordConfig& config)
    : folder_(folder), config_(config) {
  make_folder(folder_);
  add_attempt(attempt);
  status_ = Json{{"record_version", kRecordVersion},
                 {"state", to_text(RunState::kRunning)},
                 {"attempt", attempt_},
                 {"host", core::host_name()},
                 {"pid", ::getpid()},
                 {"process", core::process_mark()},
                 {"started_s", core::unix_seconds()},
                 {"heartbeat_s", core::unix_seconds()},
                 {"heartbeat_every_s", static_cast<double>(config.heartbeat_every.count()) / 1000.0},
                 {"steps_done", nullptr},
                 {"last_step", nullptr},
                 {"exit_code", nullptr},
                 {"first_failing_rank", nullptr},
                 {"message", nullptr},
                 {"cuda_graphs", nullptr},
                 {"dropped_lines", 0},
                 {"write_errors", 0},
                 {"last_write_error", nullptr}};
  core::write_file_atomic(folder_ / "status.json", status_.dump(1) + "\n");
  last_heartbeat_ = std::chrono::steady_clock::now();
  queue_ = std::make_unique<AppendQueue>(AppendQueue::Config{config.flush_every, config.max_queued_bytes});
  steps_file_ = queue_->open_file(folder_ / "steps.jsonl", true);
  ranks_file_ = queue_->open_file(folder_ / "ranks.jsonl", true);
  comm_file_ = queue_->open_file(folder_ / "comm.jsonl", true);
  results_file_ = queue_->open_file(folder_ / "results.jsonl", true);
  system_file_ = queue_->open_file(folder_ / "system.jsonl", true);
  startup_file_ = queue_->open_file(folder_ / "startup.jsonl", true);
  queue_->set_tick([this] { heartbeat(); });
}

void note_lost_writer(const fs::path& folder, int rank, const Error& error) {
  const fs::path path = folder / "status.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  try {
    const StatusRead read = read_status(folder);
    if (!read.has_no_writer) return;
    Json status = core::read_json_file(path);
    status["first_failing_rank"] = 0;
    end_in_failure(status, folder, static_cast<int>(error.code()),
                   fmt::format("rank 0 ({}) is gone without a word; rank {}: {}", read.writer, rank, error.what()));
    write_status_file(path, dumped(status));
  } catch (const Error& problem) {  // the failure itself has been reported
    core::log_warning("record: cannot note that rank 0 is gone: {}", problem.what());
  }
}

void note_first_failure(const fs::path& folder, const FirstFailure& failure) {
  const fs::path path = folder / "status.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  try {
    Json status = core::read_json_file(path);
    if (!status.is_object()) return;
    status["first_failing_rank"] = failure.rank;
    const std::string cause = failure.text.empty() ? fmt::format("rank {} was lost", failure.rank)
                                                   : fmt::format("rank {} ended with {}", failure.rank, failure.text);
    const core::Json state = status.value("state", core::Json(nullptr));
    if (state == to_text(RunState::kRunning)) {
      end_in_failure(status, folder, failure.exit_code, cause);
    } else if (status.value("exit_code", core::Json(nullptr)) == static_cast<int>(ExitCode::kCommunication) &&
               failure.rank != 0 && !failure.text.empty()) {  // rank 0 only noticed it
      status["exit_code"] = failure.exit_code;
      const core::Json noticed = status.value("message", core::Json(nullptr));
      status["message"] = noticed.is_string() ? fmt::format("{}; then {}", cause, noticed.get<std::string>()) : cause;
    }
    write_status_file(path, dumped(status));
  } catch (const Error& error) {  // the failure itself has been reported
    core::log_warning("record: cannot note which rank failed first: {}", error.what());
  }
}

RunRecord::~RunRecord() {
  finish({.state = RunState::kFailed, .exit_code = 1, .message = "the run ended without saying how"});
}

void RunRecord::add_attempt(const Json& attempt) {
  Json attempts = load_attempts(folder_ / "run.json");
  attempt_ = config_.attempt ? *config_.attempt : highest_attempt(attempts, folder_) + 1;
  Json entry{
      {"attempt", attempt_}, {"started_s", core::unix_seconds()}, {"host", core::host_name()}, {"pid", ::getpid()}};
  if (attempt.is_object()) entry.update(attempt);
  attempts.push_back(std::move(entry));
  const Json run{{"record_version", kRecordVersion}, {"attempts", std::move(attempts)}};
  core::write_file_atomic(folder_ / "run.json", run.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void RunRecord::append(int file, const Json& line) {
  queue_->append(file, line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

template <typename Record> void RunRecord::append_numbered(int file, Record record) {
  if (record.attempt == 0) record.attempt = attempt_;
  append(file, to_json(record));
}

void RunRecord::append_step(StepRecord record) {
  const int64_t step = record.step;
  append_numbered(steps_file_, std::move(record));
  const std::scoped_lock lock(status_mutex_);
  status_["steps_done"] = step + 1;
  status_["last_step"] = step;  // the number of that step, from 0: what reports of before steps_done read
}

void RunRecord::append_rank_times(RankTimesRecord record) { append_numbered(ranks_file_, std::move(record)); }
void RunRecord::append_comm(CommRecord record) { append_numbered(comm_file_, std::move(record)); }
void RunRecord::append_result(ResultRecord record) { append_numbered(results_file_, std::move(record)); }
void RunRecord::append_system(SystemInterval record) { append_numbered(system_file_, std::move(record)); }
void RunRecord::append_startup(StartupTimes record) { append_numbered(startup_file_, std::move(record)); }

void RunRecord::note_cuda_graphs(const std::string& text) {
  const std::scoped_lock lock(status_mutex_);
  status_["cuda_graphs"] = text.empty() ? Json(nullptr) : Json(text);
}

void RunRecord::write_params(std::vector<std::pair<std::string, std::string>> params) {
  std::sort(params.begin(), params.end());
  std::string text;
  for (const auto& [key, value] : params) text += fmt::format("{}: {}\n", key, value);
  core::write_file_atomic(folder_ / "params.txt", text);
}

void RunRecord::flush() { queue_->flush(); }

void RunRecord::write_status() {
  const std::scoped_lock one_writer(status_file_mutex_);  // what is written last was also composed last
  std::string text;
  {
    const AppendQueue::Health health = queue_->health();
    const std::scoped_lock lock(status_mutex_);
    status_["heartbeat_s"] = core::unix_seconds();
    status_["dropped_lines"] = health.dropped;
    status_["write_errors"] = health.write_errors;
    if (!health.last_error.empty()) status_["last_write_error"] = health.last_error;
    text = status_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  write_status_file(folder_ / "status.json", text);
}

void RunRecord::heartbeat() {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::scoped_lock lock(status_mutex_);
    if (has_ended_ || now - last_heartbeat_ < config_.heartbeat_every) return;
    last_heartbeat_ = now;
  }
  try {
    write_status();
  } catch (const Error&) {  // a full disk: the lines' own errors are counted, and the next heartbeat tries again
  }
}

void RunRecord::finish(const RunEnd& end) {
  {
    const std::scoped_lock lock(status_mutex_);
    if (has_ended_) return;
    has_ended_ = true;
    status_["state"] = to_text(end.state);
    status_["exit_code"] = end.exit_code;
    if (end.first_failing_rank) status_["first_failing_rank"] = *end.first_failing_rank;
    if (!end.message.empty()) status_["message"] = end.message;
    status_["ended_s"] = core::unix_seconds();
  }
  queue_->drop_unwritten();
  try {
    write_status();
  } catch (const Error& error) {  // the run itself is done; its end must not turn into a failure
    core::log_warning("{}", error.what());
  }
}

}  // namespace lockstep::record
