#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweep/points.h"

namespace lockstep::sweep {

/// How a point stands.
enum class PointStatus {
  kPlanned,     ///< No job yet.
  kSubmitting,  ///< sbatch was called, its answer was not noted: the sweep died in between.
  kQueued,
  kRunning,
  kFinished,
  kStopped,  ///< On request or at the time limit; resume goes on from its checkpoint.
  kFailed,   ///< The run ended with an error.
  kDied,     ///< The job ended, and the run did not say how.
  kCancelled,
};
std::string to_text(PointStatus status);
/// Will nothing more happen to it unless someone resumes it?
bool has_ended(PointStatus status);

/// A job submitted for a point.
struct JobRef {
  std::string id{};  ///< "4711", "4711_3", or "local-PID".
  double submitted_s = 0;
  std::string log{};    ///< Below the sweep folder.
  std::string after{};  ///< Job it had to wait for, by the limit of jobs in flight; empty: none.
  std::string host{};   ///< Of a local job: where its process runs, and when that began (ticks since the machine
                        ///< started; 0: not known).
  int64_t process_start = 0;
};

/// A point as sweep.json keeps it. Paths are relative to the sweep folder.
struct PointRecord {
  int64_t index = 0;
  std::string name{};
  std::vector<std::pair<std::string, Scalar>> axes{};
  int64_t repeat = 1, nodes = 1, ranks_per_node = 1;
  int64_t time_limit_s = 0;
  NodeDevices devices{};
  std::string request_digest{};          ///< Of the point that its script was written for; empty: not known.
  std::vector<std::string> arguments{};  ///< Of lockstep: "train", "clip", "--batch-size=64", ...
  std::vector<std::pair<std::string, std::string>> env{};
  std::map<std::string, std::string> tags{};
  std::optional<int64_t> samples_per_replica{}, global_batch{};
  std::string run{}, script{}, events{};
  PointStatus status = PointStatus::kPlanned;
  std::string message{};
  std::vector<JobRef> jobs{};
  bool is_unknown = false;  ///< What it left could not be read at the last look; not kept in sweep.json.

  bool is_unasked = false;  ///< Only the queue knows how it stands, and could not be asked; not kept, either.

  std::string axes_text() const;
  /// Its state in tables: "unknown" where nobody could be asked.
  std::string state_text() const { return is_unasked ? "unknown" : to_text(status); }
};

/// sweep.json: what a sweep is and how far it is. docs/sweep.md describes it; readers ignore keys they do not know.
struct SweepState {
  std::string name{}, command{}, program{}, digest{};
  std::string mode{};  ///< "slurm", "local", or empty while nothing was started.
  std::string working_folder{};
  Scaling scaling = Scaling::kFree;
  SubmitHow how = SubmitHow::kJobs;
  int64_t in_flight = 0;
  std::string billing_unit{};
  double billing_per_node_hour = 1;
  double created_s = 0;
  std::vector<std::string> axis_keys{};
  std::vector<PointRecord> points{};
  std::vector<int64_t> submit_order{};  ///< Indexes of points.

  PointRecord& point(int64_t index);
};

/// Was any job noted for a point?
bool has_jobs(const SweepState& state);

/// The state of a new sweep in `folder` (absolute).
SweepState new_state(const Plan& plan, const std::filesystem::path& folder, const std::string& program);

std::filesystem::path state_file(const std::filesystem::path& folder);
/// Written so that after a crash either the old or the new content is there.
void write_state(const std::filesystem::path& folder, const SweepState& state);
/// UsageError when the folder holds no sweep, DataError (file and key) when sweep.json is damaged or of a newer
/// version.
SweepState read_state(const std::filesystem::path& folder);

}  // namespace lockstep::sweep
