#include "sweep/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <utility>

#include "core/clock.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/process.h"
#include "core/units.h"
#include "sweep/local_job.h"
#include "sweep/result_kind.h"
#include "sweep/run_outcome.h"
#include "sweep/stop_request.h"

namespace lockstep::sweep {
using core::Clock;
namespace fs = std::filesystem;
namespace {

core::ProcessOptions point_process(const SweepState& state, const PointRecord& point, const fs::path& log) {
  core::ProcessOptions options{.argv = {"/bin/sh", "-c", "exec >>\"$0\" 2>&1; exec \"$@\"", log.string(), state.program,
                                        "launch", "--nproc-per-node",
                                        fmt::format("{}", point.nodes * point.ranks_per_node), "--"}};
  options.argv.insert(options.argv.end(), point.arguments.begin(), point.arguments.end());
  for (const auto& [name, value] : point.env) options.env_changes.emplace_back(name, value);
  options.working_folder = state.working_folder;
  return options;
}

void show_point(const SweepState& state, const PointRecord& point, const fs::path& folder, size_t at, size_t count,
                Clock::time_point start) {
  const RunOutcome outcome = read_outcome(folder / point.run, core::unix_seconds());
  const double elapsed_s = std::chrono::duration<double>(Clock::now() - start).count();
  core::show_progress(
      fmt::format("{} {}/{}  {}  {}{}", state.name, at + 1, count, point.axes_text(), core::format_duration(elapsed_s),
                  outcome.steps_done ? fmt::format("  {}", core::counted(*outcome.steps_done, "step")) : ""));
}

/// Ends a launcher and its ranks at once: to it a second SIGINT means that (two in a row may arrive as one, hence one
/// per tick). What does not listen is killed with its process group, which the ranks of a launcher are not in.
void end_at_once(core::Process& process, int num_ticks) {
  constexpr int kTicksToListen = 10;
  if (num_ticks < kTicksToListen)
    process.send_signal(SIGINT);
  else
    process.kill_group();
}

/// Waits for the end, passing on what signals and the time limit ask for.
core::ExitStatus watch(core::Process& process, const StopRequest& request, const PointRecord& point,
                       const std::function<void()>& on_tick) {
  constexpr std::chrono::milliseconds kTick{200};
  const auto start = Clock::now();
  int num_ticks_ending = 0;
  bool is_past_limit = false, is_asked_to_stop = false;
  for (;;) {
    if (const auto status = process.wait_for(kTick)) return *status;
    on_tick();
    if (request.count() > 1)
      end_at_once(process, num_ticks_ending++);
    else if (request.count() == 1 && !std::exchange(is_asked_to_stop, true))
      process.send_signal(SIGTERM);
    const bool is_late = point.time_limit_s > 0 && Clock::now() - start > std::chrono::seconds(point.time_limit_s);
    if (is_late && !is_past_limit) process.send_signal(SIGTERM);
    is_past_limit = is_late;
  }
}

/// Did it end because it was asked to? A benchmark has nothing to save: signals end it.
bool has_stopped(ResultKind kind, int code) {
  constexpr int kSignalBase = 128;
  if (kind == ResultKind::kBenchDocument) return code == kSignalBase + SIGTERM || code == kSignalBase + SIGINT;
  return code == static_cast<int>(ExitCode::kRequeue);
}

/// What became of a point, from the exit code of its launcher and its result. `is_cut_off`: the user ended it at once.
void note_end(const fs::path& folder, ResultKind kind, PointRecord& point, const core::ExitStatus& status,
              bool is_cut_off) {
  const int code = status.shell_code();
  point.status = code == 0                               ? PointStatus::kFinished
                 : is_cut_off || has_stopped(kind, code) ? PointStatus::kStopped
                                                         : PointStatus::kFailed;
  const RunOutcome outcome = read_outcome(folder / point.run, core::unix_seconds());
  point.message = code == 0 ? "" : outcome.message;
  if (point.status == PointStatus::kFailed && point.message.empty())
    point.message = failure_message(folder, point.jobs.back().log, status.text());
}
}  // namespace

int run_local(const fs::path& folder, SweepState& state, const std::vector<int64_t>& indexes) {
  const StopRequest request;
  const ResultKind kind = result_kind(state.command, folder.string());
  int worst = 0;
  state.mode = "local";
  for (size_t at = 0; at < indexes.size() && request.count() == 0; ++at) {
    PointRecord& point = state.point(indexes[at]);
    const std::string log = fmt::format("logs/{:04}.out", point.index);
    point.jobs.push_back(own_local_job(log));
    const std::string job = point.jobs.back().id;
    point.status = PointStatus::kRunning;
    write_state(folder, state);
    append_event(folder / point.events, "start", job, std::nullopt);
    const auto start = Clock::now();
    core::Process process = core::Process::spawn(point_process(state, point, folder / log));
    const core::ExitStatus status =
        watch(process, request, point, [&] { show_point(state, point, folder, at, indexes.size(), start); });
    append_event(folder / point.events, "end", job, status.shell_code());
    note_end(folder, kind, point, status, request.count() > 1);
    write_state(folder, state);
    core::end_progress();
    core::log_info("sweep: {}/{} {}: {} after {}{}", at + 1, indexes.size(), point.axes_text(), to_text(point.status),
                   core::format_duration(std::chrono::duration<double>(Clock::now() - start).count()),
                   point.message.empty() ? "" : ": " + point.message);
    if (point.status == PointStatus::kFailed) worst = std::max(worst, status.shell_code());
  }
  return request.count() > 0 ? static_cast<int>(ExitCode::kRequeue) : worst;
}

}  // namespace lockstep::sweep
