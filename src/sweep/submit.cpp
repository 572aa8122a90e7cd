#include "sweep/submit.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/strings.h"
#include "sweep/job_script.h"
#include "sweep/run_outcome.h"
#include "sweep/stop_request.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {
/// Ties a job to its point across a crash between sbatch and the note in sweep.json.
std::string comment_of(const fs::path& folder, const std::string& what) {
  const fs::path plain = (folder / "").parent_path();  // "DIR/" is the same sweep
  return fmt::format("lockstep-sweep:{}:{}", core::xxh3_hex(plain.string()).substr(0, 12), what);
}

bool is_active(const PointRecord& point) {
  return point.status == PointStatus::kQueued || point.status == PointStatus::kRunning;
}

/// Jobs of the sweep that wait or run, in the order of their submission.
std::vector<std::string> active_jobs(const SweepState& state) {
  std::vector<const PointRecord*> active;
  for (const PointRecord& point : state.points)
    if (is_active(point) && !point.jobs.empty()) active.push_back(&point);
  std::stable_sort(active.begin(), active.end(), [](const PointRecord* a, const PointRecord* b) {
    return a->jobs.back().submitted_s < b->jobs.back().submitted_s;
  });
  std::vector<std::string> ids;
  for (const PointRecord* point : active) ids.push_back(point->jobs.back().id);
  return ids;
}

class Submitter {
 public:
  Submitter(const fs::path& folder, SweepState& state, const Slurm& slurm)
      : folder_(folder), state_(state), slurm_(slurm), active_(active_jobs(state)) {}

  size_t submit_jobs(const std::vector<int64_t>& indexes) {
    size_t num_done = 0;
    for (const int64_t index : indexes) {
      if (stop_request_.count() > 0) break;
      PointRecord& point = state_.point(index);
      begin({&point});
      std::vector<std::string> options{"--comment=" + comment_of(folder_, fmt::format("{}", index))};
      const bool is_singleton = state_.how == SubmitHow::kSingleton;
      const std::string after = predecessor(is_singleton ? 1 : static_cast<size_t>(state_.in_flight));
      if (is_singleton)
        options.emplace_back("--dependency=singleton");
      else if (!after.empty())
        options.push_back("--dependency=afterany:" + after);
      const double submitted_s = core::unix_seconds();
      const std::string id = submit((folder_ / point.script).string(), options, {&point});
      note(point,
           {.id = id, .submitted_s = submitted_s, .log = fmt::format("logs/{:04}-{}.out", index, id), .after = after});
      active_.push_back(id);
      write_state(folder_, state_);
      core::show_progress(fmt::format("{}: {} of {} submitted", state_.name, ++num_done, indexes.size()));
    }
    core::end_progress();
    return num_done;
  }

  size_t submit_arrays(const std::vector<int64_t>& indexes) {
    size_t num_done = 0;
    for (const auto& [request, members] : groups(indexes)) {
      if (stop_request_.count() > 0) break;
      std::vector<PointRecord*> points;
      for (const int64_t index : members) points.push_back(&state_.point(index));
      const fs::path script = folder_ / fmt::format("jobs/array-{:04}.sh", members[0]);
      core::write_file_atomic(script, array_script(request, points));
      begin(points);
      std::vector<std::string> options{"--comment=" + comment_of(folder_, fmt::format("array-{:04}", members[0])),
                                       fmt::format("--array=0-{}{}", points.size() - 1,
                                                   state_.in_flight > 0 ? fmt::format("%{}", state_.in_flight) : "")};
      const std::string after = state_.in_flight > 0 ? predecessor(1) : "";
      if (!after.empty()) options.push_back("--dependency=afterany:" + after);
      const double submitted_s = core::unix_seconds();
      const std::string id = submit(script.string(), options, points);
      for (size_t task = 0; task < points.size(); ++task)
        note(*points[task], {.id = fmt::format("{}_{}", id, task),
                             .submitted_s = submitted_s,
                             .log = fmt::format("logs/array-{}_{}.out", id, task),
                             .after = after});
      active_.push_back(id);
      write_state(folder_, state_);
      num_done += points.size();
    }
    return num_done;
  }

 private:
  void begin(const std::vector<PointRecord*>& points) {
    for (PointRecord* point : points) point->status = PointStatus::kSubmitting;
    mode_before_ = state_.mode;
    state_.mode = "slurm";
    write_state(folder_, state_);
  }
  std::string submit(const std::string& script, const std::vector<std::string>& options,
                     const std::vector<PointRecord*>& points) {
    try {
      return slurm_.submit(script, options);
    } catch (const EnvironmentError&) {
      for (PointRecord* point : points) point->status = PointStatus::kPlanned;
      // Nothing is bound to SLURM as long as it has taken no job: the points may run in another way.
      if (!has_jobs(state_)) state_.mode = mode_before_;
      write_state(folder_, state_);
      throw;
    }
  }
  static void note(PointRecord& point, JobRef job) {
    point.jobs.push_back(std::move(job));
    point.status = PointStatus::kQueued;
    point.message.clear();
  }
  /// The job that a new one must wait for when `in_flight` may wait or run at the same time; "" for none.
  std::string predecessor(size_t in_flight) const {
    return in_flight > 0 && active_.size() >= in_flight ? active_[active_.size() - in_flight] : "";
  }
  /// The "#SBATCH" lines of a point's script that all members of an array must share.
  std::string request_of(const PointRecord& point) const {
    std::string request;
    for (const std::string& line : core::split(core::read_file(folder_ / point.script), "\n")) {
      const bool is_own =
          core::starts_with(line, "#SBATCH --job-name=") || core::starts_with(line, "#SBATCH --output=");
      if (core::starts_with(line, "#SBATCH ") && !is_own) request += line + "\n";
    }
    return request;
  }
  std::vector<std::pair<std::string, std::vector<int64_t>>> groups(const std::vector<int64_t>& indexes) const {
    std::vector<std::pair<std::string, std::vector<int64_t>>> list;
    for (const int64_t index : indexes) {
      const std::string request = request_of(state_.point(index));
      auto found = std::find_if(list.begin(), list.end(), [&](const auto& group) { return group.first == request; });
      if (found == list.end()) found = list.insert(list.end(), {request, {}});
      found->second.push_back(index);
    }
    return list;
  }
  std::string array_script(const std::string& request, const std::vector<PointRecord*>& points) const {
    std::string text = "#!/bin/bash\n" + sbatch_line("--job-name=" + state_.name) + request +
                       sbatch_line("--output=" + (folder_ / "logs/array-%A_%a.out").string()) + "\n";
    text +=
        fmt::format("# An array of the sweep '{}': each task runs the script of its point.\nscripts=(", state_.name);
    for (const PointRecord* point : points) text += "\n  " + shell_word((folder_ / point->script).string());
    return text + "\n)\nexec bash \"${scripts[$SLURM_ARRAY_TASK_ID]}\"\n";
  }

  const fs::path& folder_;
  SweepState& state_;
  const Slurm& slurm_;
  std::vector<std::string> active_;
  std::string mode_before_;
  StopRequest stop_request_;
};
/// The script (below the sweep folder) that a task of an array runs, from the list in the array's own script; "" when
/// there is none.
std::string script_of_task(const fs::path& folder, const std::string& array, const std::string& id) {
  const fs::path file = folder / "jobs" / (array + ".sh");
  const auto task = core::parse_int(id.substr(id.find('_') + 1));
  if (!fs::exists(file) || !task || id.find('_') == std::string::npos) return "";
  int64_t at = -1;
  for (const std::string& line : core::split(core::read_file(file), "\n")) {
    if (core::starts_with(line, "  ")) ++at;
    const size_t slash = line.rfind("/jobs/");
    if (at == *task && slash != std::string::npos)
      return line.substr(slash + 1, line.find(".sh", slash) + 3 - slash - 1);
  }
  return "";
}

/// Jobs in the queue that carry the comment of the point and are not noted yet: ended ones first, then by their
/// numbers. Of a point without any, only jobs that wait or run: an ended one may be of a folder of this name that was
/// removed.
std::vector<std::string> jobs_of(const fs::path& folder, const PointRecord& point,
                                 const std::map<std::string, QueueEntry>& queue) {
  const std::string prefix = comment_of(folder, "");
  std::vector<std::string> ids;
  for (const auto& [id, entry] : queue) {
    const bool is_known = std::any_of(point.jobs.begin(), point.jobs.end(),
                                      [&, &job_id = id](const JobRef& job) { return job.id == job_id; });
    const bool is_left_out = point.jobs.empty() && point.status != PointStatus::kSubmitting && entry.has_ended();
    if (is_known || is_left_out || !core::starts_with(entry.comment, prefix)) continue;
    const std::string what = entry.comment.substr(prefix.size());
    const bool is_own_task = core::starts_with(what, "array-") && script_of_task(folder, what, id) == point.script;
    if (what == fmt::format("{}", point.index) || is_own_task) ids.push_back(id);
  }
  const auto rank = [&](const std::string& id) {
    return std::tuple(!queue.at(id).has_ended(), core::parse_int(id.substr(0, id.find('_'))), id);
  };
  std::sort(ids.begin(), ids.end(), [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  return ids;
}
}  // namespace

size_t submit_points(const fs::path& folder, SweepState& state, const std::vector<int64_t>& indexes,
                     const Slurm& slurm) {
  if (state.how == SubmitHow::kArrays) return Submitter(folder, state, slurm).submit_arrays(indexes);
  return Submitter(folder, state, slurm).submit_jobs(indexes);
}

size_t cancel_points(const fs::path& folder, SweepState& state, const Slurm& slurm) {
  const std::vector<std::string> ids = active_jobs(state);
  slurm.cancel(ids);
  for (PointRecord& point : state.points)
    if (is_active(point)) point.status = PointStatus::kCancelled;
  write_state(folder, state);
  return ids.size();
}

void recover_submissions(const fs::path& folder, SweepState& state, const std::map<std::string, QueueEntry>& queue) {
  for (PointRecord& point : state.points) {
    const bool is_cut_off = point.status == PointStatus::kSubmitting;
    if (!is_cut_off && !point.jobs.empty()) continue;
    const std::vector<std::string> ids = jobs_of(folder, point, queue);
    if (is_cut_off) point.status = PointStatus::kPlanned;
    for (const std::string& id : ids) {
      const bool is_task = id.find('_') != std::string::npos;
      point.jobs.push_back(
          {.id = id,
           .submitted_s = is_cut_off ? core::unix_seconds() : 0,
           .log = is_task ? fmt::format("logs/array-{}.out", id) : fmt::format("logs/{:04}-{}.out", point.index, id)});
      point.status = PointStatus::kQueued;
      state.mode = "slurm";
    }
  }
}

}  // namespace lockstep::sweep
