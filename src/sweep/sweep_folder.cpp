#include "sweep/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/error.h"
#include "core/strings.h"
#include "sweep/job_script.h"
#include "sweep/local_job.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {
void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw EnvironmentError(fmt::format("sweep: cannot create '{}': {}", folder.string(), error.message()),
                           "give a folder that every node can write to with --output");
}
/// Has no point ever had a job, a script that began or a run? Then the sweep may become another one.
bool is_untouched(const fs::path& folder, const SweepState& state) {
  const auto is_untouched_point = [&](const PointRecord& point) {
    std::error_code code;
    return point.status == PointStatus::kPlanned && !fs::exists(folder / point.run, code) && !code &&
           !fs::exists(folder / point.events, code) && !code;
  };
  return state.mode.empty() && !has_jobs(state) &&
         std::all_of(state.points.begin(), state.points.end(), is_untouched_point);
}

/// The scripts of points that will not be.
void remove_scripts(const fs::path& folder, const SweepState& state) {
  std::error_code ignored;
  for (const PointRecord& point : state.points) fs::remove(folder / point.script, ignored);
}

/// May SLURM still start it, or start it again, from its script? A task of an array runs the file as it stands then.
bool is_submitted(const PointRecord& point) {
  if (point.status == PointStatus::kSubmitting) return true;
  const bool is_active = point.status == PointStatus::kQueued || point.status == PointStatus::kRunning;
  return is_active && !point.jobs.empty() && !is_local_job(point.jobs.back().id);
}

/// The lines of a script, without the backslashes that go on in the next.
std::vector<std::string> script_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : core::split(text, "\n")) {
    const std::string_view words = core::trim(line);
    lines.emplace_back(core::trim(words.substr(0, words.size() - (words.ends_with('\\') ? 1 : 0))));
  }
  return lines;
}

/// The first line in which two scripts differ, in words; "" when there is none.
std::string changed_line(const std::string& old_script, const std::string& new_script) {
  const auto before = script_lines(old_script), after = script_lines(new_script);
  const auto [old_at, new_at] = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  const auto holds = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::count(lines.begin(), lines.end(), line) > 0;
  };
  if (old_at == before.end() && new_at == after.end()) return "";
  if (old_at == before.end() || (new_at != after.end() && holds(after, *old_at)))
    return fmt::format("'{}' is new", *new_at);
  if (new_at == after.end() || holds(before, *new_at)) return fmt::format("'{}' is gone", *old_at);
  return fmt::format("'{}' became '{}'", *old_at, *new_at);
}

/// What a changed file would change first, as the scripts on disk tell it; "" when they do not.
std::string first_change(const fs::path& folder, const SweepState& old, SweepState changed, const Plan& plan) {
  if (old.points.size() != changed.points.size())
    return fmt::format("it has {} points, now there would be {}", old.points.size(), changed.points.size());
  changed.working_folder = old.working_folder;
  if (plan.program.empty()) changed.program = old.program;
  for (size_t i = 0; i < plan.points.size(); ++i) {
    std::error_code ignored;
    const fs::path script = folder / old.points[i].script;
    if (!fs::exists(script, ignored)) continue;
    const std::string line =
        changed_line(core::read_file(script), job_script(changed, changed.points[i], plan.points[i], folder));
    if (!line.empty()) return fmt::format("point {:04}: {}", old.points[i].index, line);
  }
  return "";
}

/// A job that waits or runs measures what it was submitted for.
void refuse_changed_requests(const fs::path& folder, const SweepState& old, const SweepState& changed,
                             const Plan& plan) {
  for (size_t i = 0; i < old.points.size(); ++i) {
    const PointRecord& point = old.points[i];
    const bool is_changed = !point.request_digest.empty() && point.request_digest != changed.points[i].request_digest;
    if (!is_submitted(point) || !is_changed) continue;
    const fs::path script = folder / point.script;
    const std::string line =
        fs::exists(script)
            ? changed_line(core::read_file(script), job_script(old, changed.points[i], plan.points[i], folder))
            : "";
    const std::string job = point.jobs.empty() ? "" : fmt::format(" (job {})", point.jobs.back().id);
    throw UsageError(
        fmt::format("sweep: '{}': point {:04} was submitted{} and the file asks for something else now: {}",
                    folder.string(), point.index, job, line.empty() ? "its request differs" : line),
        fmt::format("undo the change; or let its jobs end (`lockstep sweep status {0}` notes that they have) or cancel "
                    "them (`lockstep sweep cancel {0}`) first; or give the changed sweep another name, or another "
                    "folder with --output",
                    folder.string()));
  }
}

}  // namespace

std::optional<SweepLock> SweepLock::try_take(const fs::path& folder) {
  const fs::path file = folder / "sweep.lock";
  core::Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd.valid() && (errno == EACCES || errno == EROFS)) return std::nullopt;
  if (!fd.valid()) core::throw_errno("cannot open", file);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  // parallel file systems may be mounted without locks: then nothing guards, as nothing can
  return SweepLock(std::move(fd));
}

SweepLock SweepLock::take(const fs::path& folder) {
  if (auto lock = try_take(folder)) return std::move(*lock);
  throw EnvironmentError(
      fmt::format("sweep: another lockstep is at work on '{}', or the folder is not yours to write", folder.string()),
      "wait until it has ended; `lockstep sweep status` may be asked meanwhile");
}

fs::path sweep_folder(const Plan& plan, const std::string& out_override) {
  const fs::path folder =
      fs::absolute(fs::path(out_override.empty() ? plan.out : out_override) / plan.name).lexically_normal();
  if (folder.string().find_first_of("%\"\n\\") != std::string::npos)
    throw UsageError(fmt::format("sweep: the folder '{}' holds a character that batch scripts cannot", folder.string()),
                     "choose another with --output");
  return folder;
}

SweepState write_sweep(const SweepFile& file, const Plan& plan, const fs::path& folder, const std::string& program) {
  SweepState state = new_state(plan, folder, program);
  if (fs::exists(state_file(folder))) {
    SweepState old = read_state(folder);
    if (old.digest == state.digest) {
      refuse_changed_requests(folder, old, state, plan);
      for (size_t i = 0; i < old.points.size(); ++i) {
        if (is_submitted(old.points[i])) continue;
        old.points[i].time_limit_s = state.points[i].time_limit_s;
        old.points[i].request_digest = state.points[i].request_digest;
      }
      old.in_flight = state.in_flight;
      old.submit_order = state.submit_order;
      old.billing_unit = state.billing_unit;
      old.billing_per_node_hour = state.billing_per_node_hour;
      state = std::move(old);
    } else if (is_untouched(folder, old)) {
      remove_scripts(folder, old);  // written, or refused by sbatch, but never run: a corrected file takes their place
    } else {
      const std::string change = first_change(folder, old, state, plan);
      throw UsageError(
          fmt::format("sweep: '{}' holds another sweep than '{}' describes: {}", folder.string(), file.path,
                      change.empty() ? "command lines, environments or requests differ" : change),
          "give the changed sweep another name, or another folder with --output");
    }
  }
  for (const char* part : {"jobs", "logs", "runs"}) make_folder(folder / part);
  core::write_file_atomic(folder / "sweep.toml", file.text);
  for (size_t i = 0; i < plan.points.size(); ++i) {
    const fs::path script = folder / state.points[i].script;
    if (is_submitted(state.points[i]) && fs::exists(script)) continue;  // also of another version of this program
    core::write_file_atomic(script, job_script(state, state.points[i], plan.points[i], folder));
    ::chmod(script.c_str(), 0755);
  }
  write_state(folder, state);
  return state;
}

}  // namespace lockstep::sweep
