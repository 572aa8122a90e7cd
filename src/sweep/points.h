#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweep/result_kind.h"
#include "sweep/sweep_file.h"

namespace lockstep::sweep {

/// What a point asks of SLURM, resolved.
struct SlurmRequest {
  std::vector<std::string> sbatch{};  ///< Options without "#SBATCH", in the order of the file: "--partition=gpu".
  std::vector<std::string> srun{};
  std::vector<std::string> setup{};  ///< Shell lines before the command.
  int64_t time_limit_s = 0;          ///< 0: none given.
  int64_t stop_before_end_s = 120;   ///< The checkpoint signal comes this long before the time limit; 0: none.
  std::optional<int64_t> cpus_per_task{};
  bool can_requeue = true;
  int64_t max_requeues = 5;
};

/// What a node of a point computes with, as far as its request says.
struct NodeDevices {
  int64_t count = 0;   ///< 0: not known.
  std::string unit{};  ///< "GPU-hours", "core-hours": what they cost is told in.
};

/// What a dry run says of a point.
struct PointFit {
  double memory_bytes = 0;               ///< Planned for the fullest rank.
  std::optional<double> device_bytes{};  ///< What the device that was asked about gives it.
  bool is_doubtful = false;              ///< It goes into the device, but hardly.
  int64_t nodes_of_tensor_group = 1;     ///< On how many nodes the tensor ranks of one group lie.
  bool fits() const { return !device_bytes || memory_bytes <= *device_bytes; }
};

/// One run of a sweep, with every value resolved.
struct Point {
  int64_t index = 0;                                   ///< From 1, in the order of the file.
  std::string name{};                                  ///< Of its run folder; unique in the sweep.
  std::vector<std::pair<std::string, Scalar>> axes{};  ///< Without repeats: nodes, case, flags, "env.NAME".
  int64_t repeat = 1;
  int64_t nodes = 1, ranks_per_node = 1;
  std::vector<std::string> flags{};  ///< Of the command: "--batch-size=64".
  std::vector<std::pair<std::string, std::string>> env{};
  SlurmRequest slurm{};
  std::map<std::string, std::string> tags{};
  std::optional<int64_t> samples_per_replica{}, global_batch{};  ///< Per optimiser step; of training commands.
  std::optional<PointFit> fit{};                                 ///< Of dry runs only (judge_points).

  int64_t num_ranks() const { return nodes * ranks_per_node; }
  /// Changes with all that a job of it is submitted with, times and requeues included.
  std::string request_digest() const;
  /// "nodes=4 model=ViT-B-32 repeat=2"
  std::string axes_text() const;
};

/// All that a sweep will do.
struct Plan {
  std::string name{}, out{}, program{};
  std::vector<std::string> command{};  ///< Its words: "train", "clip".
  ResultKind result = ResultKind::kRunRecord;
  std::vector<std::string> axis_keys{};
  std::vector<Point> points{};
  std::vector<size_t> submit_order{};  ///< Positions in `points`.
  Scaling scaling = Scaling::kFree;
  SubmitHow how = SubmitHow::kJobs;
  int64_t in_flight = 0;
  std::string billing_unit{};
  double billing_per_node_hour = 1;
  std::vector<std::string> warnings{};

  /// Changes with every command line, environment and request; not with times, requeues, orders and limits.
  std::string digest() const;
};

/// Looks up ${NAME}; nothing when it is not set.
using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Expands the matrix, resolves variables, formulas and "when" blocks, and checks every point: its flags with the
/// declarations of the command itself, its batch with plan/, weak or strong scaling. UsageError names all misfits (the
/// first ones in full) before anything is written.
Plan make_plan(const SweepFile& file, const VariableLookup& variables);

/// "01:30:00", "1-00:00:00", "30:00", "90" (minutes, as SLURM reads it), "90m", "2h", "45s" -> seconds. UsageError
/// names `where`.
int64_t parse_time_limit(const std::string& text, const std::string& where);
/// "1-02:03:04" or "00:15:00"
std::string time_limit_text(int64_t seconds);

}  // namespace lockstep::sweep
