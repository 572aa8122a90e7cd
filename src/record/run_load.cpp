#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "record/measured_steps.h"
#include "record/reader.h"
#include "record/run_data.h"
#include "record/run_lines.h"
#include "record/run_setup.h"

namespace lockstep::record {
namespace {

using core::Json;
namespace fs = std::filesystem;

std::optional<double> time_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

/// What one attempt in run.json tells.
struct AttemptFacts {
  int number = 0;
  RunSetup setup{};
  std::map<std::string, std::string> options{}, software{};
  std::string allocation{}, command{};
  std::optional<double> started_s{};
  bool only_evaluated = false;  ///< It was to make no step, so that its batch says nothing about the run.
};

/// Objects of text values (`software`, `environment` of an attempt) into `software`.
void add_texts(const Json& attempt, const char* key, std::map<std::string, std::string>& software) {
  const auto found = attempt.find(key);
  if (found == attempt.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items())
    if (value.is_string()) software[name] = value.get<std::string>();
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

/// The command of rank 0 with what starts all ranks before it, where the attempt says how they came and it is known
/// in one line.
std::string start_command(const Json& attempt, const RunSetup& setup) {
  constexpr std::string_view kProgram = "lockstep ";
  const std::string command = command_of(attempt), from = core::text_at(attempt, "ranks_from");
  const int64_t num_ranks = core::integer_at(attempt, "world_size").value_or(1);
  if (num_ranks < 2 || !core::starts_with(command, kProgram)) return command;
  if ((from == "torchrun" || from == "launch") && setup.nodes == 1)
    return fmt::format("lockstep launch --nproc-per-node {} -- {}", num_ranks, command.substr(kProgram.size()));
  if (from == "slurm")
    return fmt::format("srun {}--ntasks={} {}", setup.nodes ? fmt::format("--nodes={} ", *setup.nodes) : "", num_ranks,
                       command);
  return command;
}

/// By what its plan says, or an option of `train imagenet` that older records have without it.
bool only_evaluated(const Json& attempt, const std::map<std::string, std::string>& options) {
  const auto plan = attempt.find("plan");
  if (plan != attempt.end() && core::integer_at(*plan, "steps_per_epoch") == 0) return true;
  const auto evaluate = options.find("evaluate");
  return evaluate != options.end() && evaluate->second == "true";
}

AttemptFacts facts_of(const Json& attempt, int place) {
  AttemptFacts facts;
  const auto number = core::integer_at(attempt, "attempt");
  facts.number = number && std::in_range<int>(*number) ? static_cast<int>(*number) : place;
  facts.setup = setup_of_attempt(attempt);
  facts.options = options_of_attempt(attempt);
  facts.only_evaluated = only_evaluated(attempt, facts.options);
  facts.started_s = time_at(attempt, "started_s");
  if (const std::string job = core::text_at(attempt, "slurm_job_id"); !job.empty()) facts.allocation = "slurm " + job;
  if (const std::string version = core::text_at(attempt, "code_version"); !version.empty())
    facts.software["lockstep"] = version;
  if (const std::string host = core::text_at(attempt, "host"); !host.empty()) facts.software["host"] = host;
  add_texts(attempt, "software", facts.software);
  add_texts(attempt, "environment", facts.software);
  facts.command = start_command(attempt, facts.setup);
  return facts;
}

std::vector<AttemptFacts> read_attempts(const Json& attempts, RunData& run) {
  std::vector<AttemptFacts> all;
  run.num_attempts = std::max<int>(1, static_cast<int>(attempts.size()));
  int place = 0;
  for (const Json& attempt : attempts) {
    ++place;
    if (attempt.is_object())
      all.push_back(facts_of(attempt, place));
    else
      run.problems.push_back(fmt::format("run.json: attempt {} is no object and was left out", place));
  }
  for (const AttemptFacts& facts : all)
    if (!run.started_s) run.started_s = facts.started_s;
  return all;
}

/// Names what differs between the measured attempt and another one.
void compare_attempts(const AttemptFacts& measured, const AttemptFacts& other, RunData& run) {
  const auto tell = [&](const char* what, const auto& a, const auto& b) {
    if (a != b)
      run.problems.push_back(fmt::format("attempt {} ran with {} {}, the measured attempt {} with {}", other.number,
                                         what, b, measured.number, a));
  };
  tell("devices =", measured.setup.devices.value_or(0), other.setup.devices.value_or(0));
  tell("global batch =", measured.setup.global_batch.value_or(0), other.setup.global_batch.value_or(0));
  tell("precision =", measured.setup.precision, other.setup.precision);
}

/// Puts what the measured attempt tells into the run; without steps that is the last one.
void take_measured_attempt(std::vector<AttemptFacts> all, RunData& run) {
  if (run.steps.size() > 0) run.measured_attempt = longest_attempt(run.steps);
  if (all.empty()) return;
  auto measured = std::find_if(all.begin(), all.end(),
                               [&](const AttemptFacts& facts) { return facts.number == run.measured_attempt; });
  if (measured == all.end()) {
    measured = std::prev(all.end());
    if (run.measured_attempt > 0)
      run.problems.push_back(
          fmt::format("run.json does not tell of attempt {}, which was measured: the setup shown is that of attempt {}",
                      run.measured_attempt, measured->number));
  }
  for (const AttemptFacts& facts : all)
    if (&facts != &*measured && !facts.only_evaluated) compare_attempts(*measured, facts, run);
  run.only_evaluated = run.steps.size() == 0 && std::all_of(all.begin(), all.end(), [](const AttemptFacts& facts) {
                         return facts.only_evaluated;
                       });
  run.setup = std::move(measured->setup);
  run.options = std::move(measured->options);
  run.software = std::move(measured->software);
  run.allocation = std::move(measured->allocation);
  run.command = std::move(measured->command);
}

/// Reads one file of a record; damage is listed, a layout newer than ours is not worked around.
template <typename Read> bool read_or_tell(const fs::path& path, RunData& run, const Read& read) {
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

/// What status.json tells beside the state.
struct HowItStands {
  std::optional<int64_t> steps_done{};  ///< That the run says it did, where it has ended.
  int attempt = 0;
  std::string cuda_graphs{};  ///< Of that attempt.
};

HowItStands read_how_it_stands(const fs::path& folder, RunData& run) {
  constexpr const char* kUnknownEnd =
      "how the run ended is not known: it may have finished, been stopped or died, and the steps that are there may "
      "not be all";
  HowItStands told;
  const size_t num_problems = run.problems.size();
  const bool is_read = read_or_tell(folder / "status.json", run, [&] {
    const StatusRead status = read_status(folder);
    const double now_s = core::unix_seconds();
    run.state = status.is_dead(now_s) ? "died" : status.state;
    run.message = status.message;
    if (status.first_failing_rank)
      run.message = fmt::format("rank {} failed first: {}", *status.first_failing_rank, status.message);
    run.ended_s = status.ended_s;
    if (run.state == "died") {
      if (status.heartbeat_s > 0) run.ended_s = status.heartbeat_s;
      run.message = status.has_no_writer
                        ? fmt::format("the run says that it is running, but its process ({}) is gone", status.writer)
                        : fmt::format("the run says that it is running, but its last sign of life is {:.0f} s old",
                                      now_s - status.heartbeat_s);
    }
    if (status.dropped_lines > 0)
      run.problems.push_back(fmt::format("{} lines of the record were lost while the run wrote it (disk or queue full)",
                                         status.dropped_lines));
    if (run.state != "running" && run.state != "died") told.steps_done = status.steps_done;
    told.attempt = status.attempt;
    told.cuda_graphs = status.cuda_graphs;
  });
  if (is_read) return told;
  if (run.problems.size() == num_problems)
    run.problems.push_back(fmt::format("status.json is missing: {}", kUnknownEnd));
  else
    run.problems.back() += fmt::format("; {}", kUnknownEnd);
  return told;
}

/// A run that did more steps than its record holds: the end of steps.jsonl was lost.
void tell_lost_steps(int64_t steps_done, RunData& run) {
  const int64_t last_step = steps_done - 1;
  const auto& steps = run.steps.step;
  const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
  if (last != steps.end() && *last >= last_step) return;
  run.problems.push_back(
      fmt::format("{} of {} steps are there: steps.jsonl ends before step {}, which status.json names as the last",
                  steps.size(), last_step + 1 - (steps.empty() ? 0 : *first), last_step));
}

/// Facts that the lines know when run.json does not.
void complete_setup(RunData& run) {
  std::set<std::string> hosts;
  for (const RankTimesRecord& times : run.rank_times) hosts.insert(times.hosts.begin(), times.hosts.end());
  if (!run.setup.nodes && !hosts.empty()) run.setup.nodes = static_cast<int64_t>(hosts.size());
  if (!run.setup.devices && !run.rank_times.empty())
    run.setup.devices = static_cast<int64_t>(run.rank_times.back().step_ms.size());
  size_t row = run.steps.size();
  while (row > 0 && run.steps.attempt[row - 1] != run.measured_attempt) --row;
  if (row == 0) return;
  const double samples = run.steps.samples[row - 1], tokens = run.steps.tokens[row - 1];
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
    throw EnvironmentError(
        fmt::format("record: '{}' holds no run record: neither run.json nor steps.jsonl", folder.string()),
        fs::exists(folder, failure) ? "name the folder of a run, <logs>/<name>"
                                    : "there is no such folder; check the path");
  if (!fs::exists(folder / "run.json", failure))
    run.problems.push_back("run.json is missing: what was run where is not known");
  std::vector<AttemptFacts> attempts;
  read_or_tell(folder / "run.json", run, [&] { attempts = read_attempts(read_run(folder).attempts, run); });
  const HowItStands told = read_how_it_stands(folder, run);
  const auto load = [&](const char* file, auto reads) {
    read_or_tell(folder / file, run, [&] { reads(folder, run); });
  };
  load("steps.jsonl", load_steps);
  take_measured_attempt(std::move(attempts), run);
  if (!told.cuda_graphs.empty() && told.attempt == run.measured_attempt)  // without the numbers of a reason
    run.software["CUDA graphs"] = told.cuda_graphs.substr(0, told.cuda_graphs.find(':'));
  load("ranks.jsonl", load_rank_times);
  load("comm.jsonl", load_collectives);
  load("results.jsonl", load_results);
  load("system.jsonl", load_system);
  load("startup.jsonl", load_startup);
  complete_setup(run);
  if (told.steps_done) tell_lost_steps(*told.steps_done, run);
  if (run.steps.size() == 0 && !run.only_evaluated) run.problems.push_back("no step was recorded");
  return run;
}

}  // namespace lockstep::record
