#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "record/reader.h"
#include "record/run_data.h"
#include "record/run_lines.h"
#include "record/run_setup.h"

namespace lockstep::record {
namespace {

using core::Json;
namespace fs = std::filesystem;

double unix_seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> time_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

/// Objects of text values (`software`, `environment` of an attempt) into run.software.
void add_texts(const Json& attempt, const char* key, RunData& run) {
  const auto found = attempt.find(key);
  if (found == attempt.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items())
    if (value.is_string()) run.software[name] = value.get<std::string>();
}

std::string command_of(const Json& attempt) {
  const auto found = attempt.find("command");
  if (found == attempt.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  std::string line;
  if (!found->is_array()) return line;
  for (const Json& word : *found)
    if (word.is_string()) line += (line.empty() ? "" : " ") + word.get<std::string>();
  return line;
}

/// The command of rank 0 with what starts all ranks before it, where the attempt says how they came and it can be told in one line.
std::string start_command(const Json& attempt, const RunSetup& setup) {
  constexpr std::string_view kProgram = "lockstep ";
  const std::string command = command_of(attempt), from = text_at(attempt, "ranks_from");
  const auto size = attempt.find("world_size");
  const int64_t num_ranks = size != attempt.end() && size->is_number_integer() ? size->get<int64_t>() : 1;
  if (num_ranks < 2 || !core::starts_with(command, kProgram)) return command;
  if ((from == "torchrun" || from == "launch") && setup.nodes == 1)
    return fmt::format("lockstep launch --nproc-per-node {} -- {}", num_ranks, command.substr(kProgram.size()));
  if (from == "slurm")
    return fmt::format("srun {}--ntasks={} {}", setup.nodes ? fmt::format("--nodes={} ", *setup.nodes) : "", num_ranks, command);
  return command;
}

/// What may differ between the attempts of one run and then makes its numbers incomparable.
void compare_attempts(const RunSetup& before, const RunSetup& setup, int attempt, RunData& run) {
  const auto tell = [&](const char* what, const auto& a, const auto& b) {
    if (a != b)
      run.problems.push_back(fmt::format("attempt {} ran with {} {}, the one before with {}: the setup shown is the last one's", attempt, what, b, a));
  };
  tell("devices =", before.devices.value_or(0), setup.devices.value_or(0));
  tell("global batch =", before.global_batch.value_or(0), setup.global_batch.value_or(0));
  tell("precision =", before.precision, setup.precision);
}

void read_attempts(const Json& attempts, RunData& run) {
  run.num_attempts = std::max<int>(1, static_cast<int>(attempts.size()));
  bool is_first = true;
  int number = 0;
  for (const Json& attempt : attempts) {
    ++number;
    if (!attempt.is_object()) {
      run.problems.push_back(fmt::format("run.json: attempt {} is no object and was left out", number));
      continue;
    }
    const RunSetup setup = setup_of_attempt(attempt);
    if (!is_first) compare_attempts(run.setup, setup, number, run);
    run.setup = setup;
    run.options = options_of_attempt(attempt);
    if (!run.started_s) run.started_s = time_at(attempt, "started_s");
    if (const std::string job = text_at(attempt, "slurm_job_id"); !job.empty()) run.allocation = "slurm " + job;
    if (const std::string version = text_at(attempt, "code_version"); !version.empty()) run.software["lockstep"] = version;
    if (const std::string host = text_at(attempt, "host"); !host.empty()) run.software["host"] = host;
    add_texts(attempt, "software", run);
    add_texts(attempt, "environment", run);
    run.command = start_command(attempt, setup);
    is_first = false;
  }
}

/// Reads one file of a record; damage is told, a layout newer than ours is not worked around.
template <typename Read>
bool read_or_tell(const fs::path& path, RunData& run, const Read& read) {
  if (std::error_code failure; !fs::exists(path, failure)) return false;
  try {
    read();
    return true;
  } catch (const NewerRecordError&) {
    throw;
  } catch (const Error& error) {
    run.problems.push_back(fmt::format("{}: {}", path.filename().string(), error.what()));
    return false;
  }
}

void read_how_it_stands(const fs::path& folder, RunData& run) {
  read_or_tell(folder / "status.json", run, [&] {
    const StatusRead status = read_status(folder);
    const double now_s = unix_seconds_now();
    run.state = status.is_dead(now_s) ? "died" : status.state;
    run.message = status.message;
    run.ended_s = status.ended_s;
    if (run.state == "died") {
      if (status.heartbeat_s > 0) run.ended_s = status.heartbeat_s;
      run.message = fmt::format("the run says that it is running, but its last sign of life is {:.0f} s old", now_s - status.heartbeat_s);
    }
    if (status.dropped_lines > 0)
      run.problems.push_back(fmt::format("{} lines of the record were lost while the run wrote it (disk or queue full)", status.dropped_lines));
  });
}

/// Facts that the lines know when run.json does not.
void complete_setup(RunData& run) {
  std::set<std::string> hosts;
  for (const RankTimesRecord& times : run.rank_times) hosts.insert(times.hosts.begin(), times.hosts.end());
  if (!run.setup.nodes && !hosts.empty()) run.setup.nodes = static_cast<int64_t>(hosts.size());
  if (!run.setup.devices && !run.rank_times.empty()) run.setup.devices = static_cast<int64_t>(run.rank_times.back().step_ms.size());
  if (run.steps.size() == 0) return;
  const double samples = run.steps.samples.back(), tokens = run.steps.tokens.back();
  constexpr double kMaxCount = 1e15;
  if (!(samples >= 1) || samples > kMaxCount) return;
  if (!run.setup.global_batch) run.setup.global_batch = static_cast<int64_t>(samples);
  if (!run.setup.sequence_length && tokens >= samples && tokens <= kMaxCount && std::fmod(tokens, samples) == 0)
    run.setup.sequence_length = static_cast<int64_t>(tokens / samples);
}

}  // namespace

RunData load_run(const fs::path& folder) {
  RunData run;
  run.source = folder;
  const fs::path normal = folder.lexically_normal();
  run.name = (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  run.format = "lockstep";
  std::error_code failure;
  if (!fs::exists(folder / "run.json", failure) && !fs::exists(folder / "steps.jsonl", failure))
    throw EnvironmentError(fmt::format("record: '{}' holds no run record: neither run.json nor steps.jsonl", folder.string()),
                           fs::exists(folder, failure) ? "name the folder of a run, <logs>/<name>" : "there is no such folder; check the path");
  if (!fs::exists(folder / "run.json", failure)) run.problems.push_back("run.json is missing: what was run where is not known");
  read_or_tell(folder / "run.json", run, [&] { read_attempts(read_run(folder).attempts, run); });
  read_how_it_stands(folder, run);
  const auto load = [&](const char* file, auto reads) { read_or_tell(folder / file, run, [&] { reads(folder, run); }); };
  load("steps.jsonl", load_steps);
  load("ranks.jsonl", load_rank_times);
  load("comm.jsonl", load_collectives);
  load("results.jsonl", load_results);
  load("system.jsonl", load_system);
  load("startup.jsonl", load_startup);
  complete_setup(run);
  if (run.steps.size() == 0) run.problems.push_back("no step was recorded");
  return run;
}

}  // namespace lockstep::record
