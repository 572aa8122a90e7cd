#include "sweep/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/error.h"
#include "sweep/job_script.h"

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
      for (size_t i = 0; i < old.points.size(); ++i) old.points[i].time_limit_s = state.points[i].time_limit_s;
      old.in_flight = state.in_flight;
      old.submit_order = state.submit_order;
      old.billing_unit = state.billing_unit;
      old.billing_per_node_hour = state.billing_per_node_hour;
      state = std::move(old);
    } else if (is_untouched(folder, old)) {
      remove_scripts(folder, old);  // written, or refused by sbatch, but never run: a corrected file takes their place
    } else {
      throw UsageError(fmt::format("sweep: '{}' holds another sweep: its command lines differ from those of '{}'",
                                   folder.string(), file.path),
                       "give the changed sweep another name, or another folder with --output");
    }
  }
  for (const char* part : {"jobs", "logs", "runs"}) make_folder(folder / part);
  core::write_file_atomic(folder / "sweep.toml", file.text);
  for (size_t i = 0; i < plan.points.size(); ++i) {
    const fs::path script = folder / state.points[i].script;
    core::write_file_atomic(script, job_script(state, state.points[i], plan.points[i], folder));
    ::chmod(script.c_str(), 0755);
  }
  write_state(folder, state);
  return state;
}

}  // namespace lockstep::sweep
