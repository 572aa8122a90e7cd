#include "sweep/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/counted.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/strings.h"
#include "core/units.h"
#include "sweep/local_job.h"
#include "sweep/plan_table.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {
bool is_local(const JobRef& job) { return is_local_job(job.id); }

/// What a point left: its run and the lines of its job scripts. Where either cannot be read, the outcome is unknown.
struct Traces {
  RunOutcome outcome{};
  std::vector<JobSpan> spans{};
};
Traces traces_of(const fs::path& folder, const PointRecord& point, double now_s) {
  Traces traces{.outcome = read_outcome(folder / point.run, now_s)};
  try {
    traces.spans = read_spans(folder / point.events);
  } catch (const EnvironmentError& error) {
    traces.outcome = {.message = error.what(), .is_unknown = true};
  }
  return traces;
}

std::string history_state(const SlurmView& slurm, const std::string& id) {
  if (const auto queued = slurm.queue.find(id); queued != slurm.queue.end()) return queued->second.state;
  const auto past = slurm.history.find(id);
  return past == slurm.history.end() || past->second.empty() ? "" : past->second.back().state;
}

/// Of a job that SLURM no longer runs: from the run's own words, the exit code its script noted, and SLURM's state, in
/// this order.
void settle_ended(const fs::path& folder, PointRecord& point, const RunOutcome& outcome,
                  const std::vector<JobSpan>& spans, const std::string& slurm_state) {
  const JobRef& job = point.jobs.back();
  const bool has_own_span = !spans.empty() && spans.back().job == job.id;
  const auto code = has_own_span ? spans.back().exit_code : std::nullopt;
  // A start that ends before the record is opened, in the rendezvous say, leaves the words of the start before it.
  const bool is_earlier = has_own_span && outcome.heartbeat_s && *outcome.heartbeat_s < spans.back().start_s;
  if (is_earlier && code && *code != 0 && *code != static_cast<int>(ExitCode::kRequeue) &&
      outcome.status != PointStatus::kFinished) {
    point.status = PointStatus::kFailed;
    point.message = failure_message(folder, job.log, fmt::format("exit code {}", *code));
    return;
  }
  point.message = outcome.message;
  if (outcome.status == PointStatus::kFinished || outcome.status == PointStatus::kFailed) {
    point.status = outcome.status;
    return;
  }
  if (slurm_state == "CANCELLED") {
    point.status = PointStatus::kCancelled;
    return;
  }
  if (outcome.status == PointStatus::kStopped) {
    point.status = PointStatus::kStopped;
    return;
  }
  if (code && *code != 0) {
    point.status = PointStatus::kFailed;
    point.message = failure_message(folder, job.log, fmt::format("exit code {}", *code));
  } else if (code && outcome.status == PointStatus::kPlanned) {
    point.status = PointStatus::kFinished;  // a program that keeps no record
  } else {
    point.status = PointStatus::kDied;
    point.message = failure_message(folder, job.log,
                                    is_local(job)         ? "its process is gone"
                                    : slurm_state.empty() ? fmt::format("SLURM no longer knows job {}", job.id)
                                                          : "SLURM says " + slurm_state);
  }
}

/// The point stands as it stood when it could be read, unless SLURM still has its job.
void note_unknown(PointRecord& point, const RunOutcome& outcome, const SlurmView* slurm) {
  point.is_unknown = true;
  point.message = outcome.message;
  if (slurm == nullptr || point.jobs.empty()) return;
  const auto queued = slurm->queue.find(point.jobs.back().id);
  if (queued != slurm->queue.end() && !queued->second.has_ended())
    point.status = queued->second.is_waiting() ? PointStatus::kQueued : PointStatus::kRunning;
}

/// Of a job whose queue could not be asked: what its run and its script say, if they say that it has ended or is alive.
void settle_unasked(const fs::path& folder, PointRecord& point, const RunOutcome& outcome,
                    const std::vector<JobSpan>& spans) {
  const JobRef& job = point.jobs.back();
  const bool is_own = outcome.heartbeat_s && *outcome.heartbeat_s >= job.submitted_s;  // not of a start before the job
  const bool has_ended_itself =
      is_own && (outcome.status == PointStatus::kFinished || outcome.status == PointStatus::kFailed);
  const auto code = !spans.empty() && spans.back().job == job.id ? spans.back().exit_code : std::nullopt;
  const bool may_be_requeued = code && *code == static_cast<int>(ExitCode::kRequeue);
  if (has_ended_itself || (code && !may_be_requeued)) return settle_ended(folder, point, outcome, spans, "");
  if (is_own && outcome.status == PointStatus::kRunning) {
    point.status = PointStatus::kRunning;
    point.message.clear();
    return;
  }
  point.is_unasked = true;
  point.message = "SLURM could not be asked";
}

void refresh_point(const fs::path& folder, PointRecord& point, const SlurmView* slurm, double now_s) {
  point.is_unknown = point.is_unasked = false;
  if (has_ended(point.status)) return;
  if (point.jobs.empty() && point.status == PointStatus::kSubmitting) return;
  const auto [outcome, spans] = traces_of(folder, point, now_s);
  if (outcome.is_unknown) return note_unknown(point, outcome, slurm);
  if (point.jobs.empty()) {  // of a sweep.json that was written anew: its runs were made before
    const bool is_alive = outcome.status == PointStatus::kRunning;
    point.status = outcome.status;
    point.message = is_alive ? "its heartbeat is alive, no job of it is known" : outcome.message;
    return;
  }
  const JobRef& job = point.jobs.back();
  if (is_local(job)) {
    if (!is_local_alive(job, outcome))
      settle_ended(folder, point, outcome, spans, "");
    else
      point.message = !job.host.empty() && job.host != core::host_name() ? "on " + job.host : "";
    return;
  }
  if (slurm == nullptr) return settle_unasked(folder, point, outcome, spans);
  const auto queued = slurm->queue.find(job.id);
  if (queued == slurm->queue.end() || queued->second.has_ended()) {
    settle_ended(folder, point, outcome, spans, history_state(*slurm, job.id));
    return;
  }
  const QueueEntry& entry = queued->second;
  point.status = entry.is_waiting() ? PointStatus::kQueued : PointStatus::kRunning;
  const int num_starts = static_cast<int>(
      std::count_if(spans.begin(), spans.end(), [&](const JobSpan& span) { return span.job == job.id; }));
  point.message = entry.is_waiting()
                      ? fmt::format("{}{}", entry.reason,
                                    num_starts > 0 ? fmt::format(", requeued after {} starts", num_starts) : "")
                      : "";
}

PointView view_point(const fs::path& folder, const PointRecord& point, const SlurmView* slurm, double now_s) {
  auto [outcome, spans] = traces_of(folder, point, now_s);
  PointView view{.spans = std::move(spans)};
  view.steps_done = outcome.steps_done;
  for (size_t i = 0; i < view.spans.size(); ++i) {
    JobSpan& span = view.spans[i];
    if (!span.end_s && slurm != nullptr) {
      const auto past = slurm->history.find(span.job);
      if (past != slurm->history.end() && !past->second.empty()) span.end_s = past->second.back().end_s;
    }
    if (!span.end_s) {  // killed without a word: the next start or the last sign of life; a running one: now
      view.has_estimated_end = true;
      const bool is_last = i + 1 == view.spans.size();
      const double alive_s = std::max(span.start_s, outcome.heartbeat_s.value_or(span.start_s));
      span.end_s = !is_last                                ? std::min(alive_s, view.spans[i + 1].start_s)
                   : point.status == PointStatus::kRunning ? now_s
                                                           : alive_s;
    }
    view.node_hours += std::max(0.0, *span.end_s - span.start_s) / 3600 *
                       (is_local_job(span.job) ? 1 : static_cast<double>(point.nodes));
  }
  return view;
}

std::map<std::string, int> counts(const SweepState& state) {
  std::map<std::string, int> counts;
  for (const PointRecord& point : state.points) ++counts[point.state_text()];
  return counts;
}
}  // namespace

void refresh(const fs::path& folder, SweepState& state, const SlurmView* slurm, double now_s) {
  for (PointRecord& point : state.points) refresh_point(folder, point, slurm, now_s);
}

SlurmView look_at_slurm(const fs::path& folder, const SweepState& state, const Slurm& slurm) {
  SlurmView view{.queue = slurm.queue()};
  std::vector<std::string> unknown;
  for (const PointRecord& point : state.points) {
    const auto spans = traces_of(folder, point, 0).spans;
    for (const JobRef& job : point.jobs) {
      const auto queued = view.queue.find(job.id);
      const bool is_active = queued != view.queue.end() && !queued->second.has_ended();
      const bool has_end = std::any_of(spans.begin(), spans.end(),
                                       [&](const JobSpan& span) { return span.job == job.id && span.end_s; });
      if (!is_local(job) && !is_active && !has_end) unknown.push_back(job.id);
    }
  }
  view.history = slurm.history(unknown);
  return view;
}

std::vector<PointView> view_points(const fs::path& folder, const SweepState& state, const SlurmView* slurm,
                                   double now_s) {
  std::vector<PointView> views;
  std::map<std::string, double> ends;  // by job; of an array the last of its tasks
  for (const PointRecord& point : state.points) {
    views.push_back(view_point(folder, point, slurm, now_s));
    for (const JobSpan& span : views.back().spans)
      for (const std::string& id : {span.job, span.job.substr(0, span.job.find('_'))})
        ends[id] = std::max(ends[id], *span.end_s);
  }
  for (size_t i = 0; i < views.size(); ++i) {
    const PointRecord& point = state.points[i];
    if (views[i].spans.empty() || point.jobs.empty()) continue;
    const JobRef& job = point.jobs[0];
    if (job.submitted_s <= 0) continue;  // taken over from the queue: nobody noted when
    const auto before = ends.find(job.after);
    const double ready_s = before == ends.end() ? job.submitted_s : std::max(job.submitted_s, before->second);
    views[i].queue_wait_s = std::max(0.0, views[i].spans[0].start_s - ready_s);
  }
  return views;
}

std::vector<int64_t> held_back(const SweepState& state) {
  std::vector<int64_t> indexes;
  for (const PointRecord& point : state.points)
    if (point.status == PointStatus::kRunning && point.jobs.empty()) indexes.push_back(point.index);
  return indexes;
}

std::vector<int64_t> unknown_points(const SweepState& state) {
  std::vector<int64_t> indexes;
  for (const PointRecord& point : state.points)
    if (point.is_unknown) indexes.push_back(point.index);
  return indexes;
}

std::string started_mode(const fs::path& folder, const SweepState& state) {
  for (const PointRecord& point : state.points)
    for (const JobSpan& span : traces_of(folder, point, 0).spans) {
      if (span.job == "none") continue;  // somebody ran the script by hand
      return is_local_job(span.job) ? "local" : "slurm";
    }
  return "";
}

std::vector<int64_t> resumable(const SweepState& state) {
  std::vector<int64_t> indexes;
  for (const int64_t index : state.submit_order)
    for (const PointRecord& point : state.points) {
      const bool is_open = point.status != PointStatus::kFinished && point.status != PointStatus::kQueued &&
                           point.status != PointStatus::kRunning && !point.is_unknown;
      if (point.index == index && is_open) indexes.push_back(index);
    }
  return indexes;
}

std::string status_table(const fs::path& folder, const SweepState& state, const SlurmView* slurm, double now_s) {
  std::vector<std::vector<std::string>> rows{
      {"point", "axes", "state", "steps", "job", "starts", "waited", "ran", "message"}};
  const std::vector<PointView> views = view_points(folder, state, slurm, now_s);
  for (size_t i = 0; i < views.size(); ++i) {
    const PointRecord& point = state.points[i];
    const PointView& view = views[i];
    double ran_s = 0;
    for (const JobSpan& span : view.spans) ran_s += *span.end_s - span.start_s;
    rows.push_back(
        {fmt::format("{:04}", point.index), point.axes_text(), point.state_text(),
         view.steps_done ? fmt::format("{}", *view.steps_done) : "-", point.jobs.empty() ? "-" : point.jobs.back().id,
         fmt::format("{}", view.spans.size()), view.queue_wait_s ? core::format_duration(*view.queue_wait_s) : "-",
         view.spans.empty() ? "-" : core::format_duration(ran_s), core::replace_all(point.message, "\n", " ")});
  }
  std::string text = text_table(rows) + "\n";
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts(state)) parts.push_back(fmt::format("{} {}", count, name));
  return text +
         fmt::format("{}: {}: {}\n", state.name, core::counted(state.points.size(), "point"), core::join(parts, ", "));
}

core::Json status_json(const fs::path& folder, const SweepState& state, const SlurmView* slurm, double now_s) {
  core::Json points = core::Json::array();
  const std::vector<PointView> views = view_points(folder, state, slurm, now_s);
  for (size_t i = 0; i < views.size(); ++i) {
    const PointRecord& point = state.points[i];
    const PointView& view = views[i];
    core::Json axes = core::Json::object();
    for (const auto& [key, value] : point.axes) axes[key] = to_json(value);
    points.push_back({{"index", point.index},
                      {"name", point.name},
                      {"axes", axes},
                      {"repeat", point.repeat},
                      {"state", point.state_text()},
                      {"message", point.message},
                      {"job", point.jobs.empty() ? core::Json(nullptr) : core::Json(point.jobs.back().id)},
                      {"num_jobs", point.jobs.size()},
                      {"num_starts", view.spans.size()},
                      {"steps_done", view.steps_done ? core::Json(*view.steps_done) : core::Json(nullptr)},
                      {"queue_wait_s", view.queue_wait_s ? core::Json(*view.queue_wait_s) : core::Json(nullptr)},
                      {"node_hours", view.node_hours}});
  }
  return {{"name", state.name}, {"counts", counts(state)}, {"points", points}};
}

}  // namespace lockstep::sweep
