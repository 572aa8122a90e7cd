#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::sweep {

/// A job as squeue shows it. SLURM forgets jobs some minutes after their end.
struct QueueEntry {
  std::string state{};   ///< "PENDING", "RUNNING", "COMPLETED", ...
  std::string reason{};  ///< Why it waits.
  std::string nodes{};
  std::string comment{};

  bool is_waiting() const;
  bool is_running() const;
  bool has_ended() const { return !is_waiting() && !is_running(); }
};

/// One start of a job, from SLURM's accounting, or from the controller while it remembers the job.
struct PastJob {
  std::string state{};
  std::optional<double> submit_s{}, start_s{}, end_s{};
};

/// Calls SLURM's commands. EnvironmentError when one is missing, fails or hangs, with what it said.
class Slurm {
 public:
  /// Is there a squeue to ask?
  static bool is_installed();
  /// sbatch with these options; the job's id.
  std::string submit(const std::string& script, const std::vector<std::string>& options) const;
  /// All jobs of this user that the controller knows, by id; tasks of arrays as "ARRAY_TASK".
  std::map<std::string, QueueEntry> queue() const;
  /// Ended jobs by id, each with its starts in order (a requeued one has several); without accounting the last start
  /// only, while the controller remembers. What nobody knows is absent.
  std::map<std::string, std::vector<PastJob>> history(std::span<const std::string> ids) const;
  void cancel(std::span<const std::string> ids) const;
};

/// Reads the lines of `squeue -o %i|%T|%r|%N|%k`.
std::map<std::string, QueueEntry> parse_squeue(const std::string& text);
/// Reads `sacct -P -n -X -D -o JobID,State,Submit,Start,End`, times as seconds since 1970.
std::map<std::string, std::vector<PastJob>> parse_sacct(const std::string& text);
/// Reads one line of `scontrol show job -o`; times as "2026-01-31T12:00:00" in local time.
std::optional<PastJob> parse_scontrol(const std::string& text);

}  // namespace lockstep::sweep
