#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/options.h"
#include "analysis/run.h"

namespace lockstep::analysis {

/// An honesty check that fired (measuring rules M01, M02, ...): it annotates, it never hides.
struct Flag {
  std::string code{};      ///< "M04"
  std::string name{};      ///< "single-run"
  std::string subject{};   ///< "ViT-B-32, 4 nodes"
  std::string sentence{};  ///< What was found, with the number.
  std::string fix{};
};

/// A number with the range it lies in at 95 %; no range: unknown.
struct Estimate {
  double value = 0, low = 0, high = 0;
  bool has_range = false;
};

/// `value` with the relative range of what it is proportional to.
Estimate proportional(double value, const Estimate& to);
/// Likewise for what it is inversely proportional to: days to a rate.
Estimate inverse(double value, const Estimate& to);

/// All runs of one configuration at one size.
struct Point {
  record::RunSetup setup{};
  int64_t nodes = 0;           ///< 0: unknown.
  int64_t devices = 0;         ///< 0: unknown.
  int64_t size = 0;            ///< Place on the x axis: nodes, or devices where all runs are of one node.
  std::vector<size_t> runs{};  ///< Used, by index into Analysis::runs.
  /// Different jobs; nothing where one of several runs does not name its own.
  std::optional<size_t> num_allocations{};
  stats::PointEstimate estimate{};
  /// Why there is no interval: runs, or the steps of the only one, vary so much that it would say nothing. Empty
  /// otherwise.
  std::string no_interval{};
  int64_t num_steps = 0;                ///< Optimiser steps behind the estimate, of all runs.
  int64_t num_window_steps = 0;         ///< With those between lines that no line tells.
  double steps_per_row = 1;             ///< Above 1: `estimate` is of means over so many steps each.
  bool is_of_table = false;             ///< Its runs are rows of a table: values without steps, quantiles and pauses.
  bool has_step_time = true;            ///< False: the table tells rates only.
  std::optional<WorkTime> work_time{};  ///< Its rows are times of a whole piece of work; `estimate` is of these.
  const char* device_word = "device";   ///< "core" where a table counts those.
  double samples_per_step = 0, tokens_per_step = 0;  ///< NaN: unknown.
  double p50_ms = 0, p95_ms = 0, p99_ms = 0;         ///< Over the steps of all runs; p99 is NaN below 100 of them.
  std::vector<stats::WeightedValue> distribution{};  ///< The same steps, ascending, each run by its number of steps.

  Estimate samples_per_s{};         ///< Capability: from the median step. NaN: samples per step unknown.
  double billed_samples_per_s = 0;  ///< Total samples over total wall seconds of the window.
  /// Total step time over that of median steps, and wall clock over step time: of each run, then their geometric mean,
  /// since runs that disagree have no slow steps by that. NaN: unknown.
  double slow_ratio = 0, pause_ratio = 0;
  /// Between steps, in the runs that `pause_ratio` is of: those with a clock and two pauses or more, or where none has,
  /// all with a clock.
  size_t num_pauses = 0;
  bool are_pauses_measured = false;  ///< There is a run with two or more.
  bool are_pauses_doubtful = false;  ///< In one of them they may be slow steps.
  bool tells_some_steps = false;     ///< A log has steps between its lines whose time it does not tell.
  bool is_sample_slower = false;     ///< Its logs tell slower steps than their clock leaves for all.
  double mean_samples_per_s = 0;     ///< Total samples over total step seconds.
  double tokens_per_s = 0;
  double tflops_per_device = 0;      ///< Model FLOPs; NaN: unknown.
  double mfu = 0, mfu_measured = 0;  ///< Against the table or given peak, and the measured one; NaN: unknown.
  double logged_tflops_per_device = 0, logged_mfu = 0;  ///< As the program itself printed it, by its own count of
                                                        ///< FLOPs, and its share of the peak; NaN: unknown.
  double peak_tflops = 0;
  std::string peak_text{};

  double speedup = 0;  ///< These are NaN where the base is missing or the definition does not apply.
  Estimate efficiency{};
  double eff_epoch = 0, eff_train = 0, eff_batch = 0, eff_tput = 0;
  std::map<std::string, std::string> eff_missing{};  ///< Why one of them has no value.
  double karp_flatt = 0;
  double epoch_s = 0, epoch_train_s = 0, epoch_samples = 0;
  double node_hours_per_sample = 0, budget_days = 0, budget_node_hours = 0;
  double data_wait_share = 0;
  std::map<std::string, double> phases_ms{};
  double skew_ms = 0, skew_share = 0, straggler_share = 0;  ///< NaN: ranks unknown.
  std::optional<EnergyUse> energy{};
  /// By interface, mean over the runs that tell, by their steps.
  std::map<std::string, NetworkUse> network_per_step{};
  record::MemoryPeaks memory{};  ///< Of rank 0, the largest of the runs.
  size_t num_loss_values = 0;    ///< Jobs, or runs of the only job, that cross the curve's target loss.
  /// The ratio is over the base's; both absent where they cannot be told.
  std::optional<Estimate> samples_to_loss{}, samples_to_loss_ratio{};
  std::string loss_verdict{}, loss_refusal{};  ///< What the ratio says, or why it cannot be told.
  std::vector<Flag> flags{};
};

/// Where the losses of a curve's sizes are compared.
struct LossComparison {
  double target = 0;           ///< NaN: there is none.
  double left = 1, right = 1;  ///< Losses from crossing / left to crossing x right are looked at.
};

enum class ScalingKind { kSingle, kWeak, kStrong, kMixed, kUnknown };

/// Efficiency above which the base is too slow or the work differs (M09); what lies below may be noise.
inline constexpr double kMaxEfficiency = 1.02;

/// Points of one configuration, ascending in size.
struct Curve {
  std::string id{}, name{};
  std::vector<std::string> traits{};  ///< What tells its configuration from similar ones: "workers 8".
  bool is_by_devices = false;         ///< Sizes are devices, not nodes.
  /// Several ranks on the processor cores of one machine: efficiency is that of a machine divided up.
  bool shares_cores = false;
  ScalingKind kind = ScalingKind::kSingle;
  std::string kind_reason{};           ///< Which quantities stayed the same, or which changed.
  std::vector<std::string> remarks{};  ///< On the configuration of its runs, in sentences.
  std::vector<std::string> stopped{};  ///< Which of them were stopped, with the steps they have.
  std::vector<Point> points{};
  std::optional<size_t> base{};  ///< Index of the N0 point.
  std::string base_reason{};
  std::optional<LossComparison> losses{};  ///< Absent with one size, without a base and without losses.
};

/// A run that is in no point, and why: nothing is left out silently.
struct LeftOut {
  size_t run = 0;
  std::string word{};                  ///< The reason in a word or two, for a table of runs.
  std::string reason{}, conclusion{};  ///< What can still be said.
};

struct Analysis {
  AnalysisOptions options{};
  std::vector<RunSummary> runs{};
  std::vector<Curve> curves{};
  std::vector<LeftOut> left_out{};
  std::vector<std::string> missing{};  ///< Facts the sources lack, each with the flag that gives it.
  std::vector<Flag> flags{};           ///< Of all points, then of curves and of the whole.
};

/// What a step would take at a size if nothing were lost against the base.
struct IdealStep {
  double share = 1;  ///< Of the base's step and of each of its phases: 1 in weak scaling, N0/N in strong scaling.
  const char* comparison = "";  ///< "longer than at the base"
};
/// Median step of a point, ms, with its interval where that is finite.
Estimate step_estimate(const Point& point);
/// Speed-up with the range of the efficiency.
Estimate speedup_estimate(const Point& point);

/// Seconds of the whole work, with their interval; in units of the table where it names none. NaN: it is no row of
/// times.
Estimate work_seconds(const Point& point);

/// Nothing at the base, without a base, and where scaling is neither weak nor strong.
std::optional<IdealStep> ideal_step(const Curve& curve, const Point& point);

/// Are its points rows of a table of results?
bool is_of_table(const Curve& curve);
/// Are they rows of times of a whole piece of work, without rates?
bool is_of_times(const Curve& curve);

const char* scaling_name(ScalingKind kind);               ///< "weak scaling", ...
const char* device_word(const Curve& curve);              ///< "device", or "core" in a table of those.
std::string unit_name(const Curve& curve);                ///< Of its sizes: "node" or "device".
std::string size_text(const Curve& curve, int64_t size);  ///< "1 node", "4 nodes", "2 devices"
bool is_token_task(const Point& point);                   ///< Rates are told in tokens.
/// The work of --budget-*: tokens where rates are told in tokens, else samples. Samples that were given for a language
/// model count as their tokens.
double budget_of(const Point& point, const AnalysisOptions& options);
/// Tokens of one sample; NaN where nothing tells them (a table of tokens/s without a sequence length).
double tokens_of_sample(const Point& point);
/// Is it samples that were given, and tokens that are counted?
bool has_budget_of_samples(const Point& point, const AnalysisOptions& options);
std::string point_name(const Curve& curve, const Point& point);  ///< "ViT-B-32, 4 nodes"

}  // namespace lockstep::analysis
