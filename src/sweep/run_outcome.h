#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// What the result of a point says of its end.
struct RunOutcome {
  PointStatus status = PointStatus::kPlanned;  ///< kPlanned: there is no result.
  std::string message{};
  std::optional<int64_t> steps_done{};
  std::optional<double> started_s{}, heartbeat_s{};
  bool is_unknown = false;  ///< Something may be there that cannot be read; the message says why.
};
/// Of a run's folder by its status.json: a run that says "running" counts as kRunning while its heartbeat is fresh,
/// else as kDied. Of a file of `bench`, which is there when it has ended: kFinished, or kFailed where results were
/// wrong.
RunOutcome read_outcome(const std::filesystem::path& result, double now_s);

/// One time a point's job had its nodes, from the lines that job scripts write.
struct JobSpan {
  std::string job{};
  int restart = 0;
  double start_s = 0;
  std::optional<double> end_s{};
  std::optional<int> exit_code{};
  std::string nodes{};
};
/// The spans of a point, in order; none when no job has begun. Lines cut by a crash are skipped. EnvironmentError when
/// they cannot be read.
std::vector<JobSpan> read_spans(const std::filesystem::path& events_file);
/// Appends one line as the job scripts do.
void append_event(const std::filesystem::path& events_file, const std::string& event, const std::string& job,
                  std::optional<int> exit_code);

/// Why a job failed, by its log: the last error that a rank printed, rather a cause than a lost peer; else `otherwise`
/// and where the log is.
std::string failure_message(const std::filesystem::path& folder, const std::string& log, const std::string& otherwise);

}  // namespace lockstep::sweep
