#pragma once
#include <filesystem>
#include <optional>

#include "core/files.h"
#include "sweep/points.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// The right to change a sweep folder; held by one process at a time, given back with the object or by the death of the
/// process.
class SweepLock {
 public:
  /// EnvironmentError when another process holds it.
  static SweepLock take(const std::filesystem::path& folder);
  /// Nothing when another process holds it, or the folder cannot be written.
  static std::optional<SweepLock> try_take(const std::filesystem::path& folder);

 private:
  explicit SweepLock(core::Fd fd) : fd_(std::move(fd)) {}
  core::Fd fd_;
};

/// Where a sweep lies: OUT/NAME, absolute. UsageError for paths that batch scripts cannot hold.
std::filesystem::path sweep_folder(const Plan& plan, const std::string& out_override);

/// Writes folder, scripts, a copy of the sweep file and sweep.json; call with the lock held. A folder with the same
/// points is gone on with: what was submitted or run stays, and the scripts of points without a job that waits or runs
/// are written again (times may have changed). UsageError, with what changed, when a submitted point would get another
/// script, and for another sweep, unless nothing of that was ever taken by SLURM or run: this one takes its place.
SweepState write_sweep(const SweepFile& file, const Plan& plan, const std::filesystem::path& folder,
                       const std::string& program);

}  // namespace lockstep::sweep
