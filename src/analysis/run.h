#pragma once
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/loss_crossing.h"
#include "analysis/options.h"
#include "analysis/protocol.h"
#include "record/meta.h"
#include "record/run_data.h"
#include "stats/series.h"

namespace lockstep::analysis {

/// One complete epoch of a run.
struct EpochTimes {
  int epoch = 0;
  double total_s = 0;  ///< From the end of the epoch before to the end of this one's last step: validation of the epoch
                       ///< before counts here. NaN: the log has no times of day.
  double train_s = 0;  ///< From the start of its first step to the end of its last.
  double samples = 0;
};

/// One rank over the measured intervals of a run.
struct RankShare {
  int rank = 0;
  std::string host{};
  double step_ms = 0;                                         ///< Means per step.
  double data_wait_ms = 0, compute_ms = 0, comm_wait_ms = 0;  ///< NaN: unknown.
  double work_ms = 0;  ///< Computing and waiting for data, which no other rank can delay; the whole step where unknown.
  double excess = 0;   ///< Work above the median rank's, as a share of the step.
  double slowest_share = 0;  ///< Of the intervals in which this rank had the most work.
};

/// What ranks of different speed cost: own work of the slowest above that of the others, means
/// per step over the intervals.
struct RankSkew {
  double over_mean_ms = 0, over_median_ms = 0;
  double step_ms = 0;
};

/// Energy of all metered hosts over the intervals that were metered.
struct EnergyUse {
  double joules = 0, samples = 0;
  double seconds = 0;  ///< Wall clock of one host, evaluations and checkpoints in these intervals included as in the
                       ///< energy; NaN: unknown.
  size_t num_hosts = 0;
  std::string scope{};  ///< Meters that were added up: "nvml, rapl-package".
};

/// Bytes over one network interface in a step: mean over the hosts that have it.
struct NetworkUse {
  double received_bytes = 0, sent_bytes = 0;
};

/// The format of a run that is a row of a table of results: one value, whatever steps are behind it.
inline constexpr const char* kTableRow = "table";

/// What the one value of a row of a table of times is: the time of a whole piece of work.
struct WorkTime {
  double unit_s = 0;     ///< Seconds of the unit that the table tells; 0: none, so that ratios alone count.
  bool is_step = false;  ///< The work is one step or iteration.
  bool grows = false;    ///< The work grows with the size (weak scaling); else it is the same at every size.
  std::string why{};     ///< What tells that.
};

/// A run without its raw columns: what points, tables and charts need, of bounded size whatever the number of steps.
struct RunSummary {
  std::string name{};
  std::filesystem::path source{};
  std::string format{};
  record::RunSetup setup{};
  std::map<std::string, std::string> options{};  ///< Empty: not known.
  std::string allocation{}, state{}, message{}, command{};
  std::optional<double> started_s{}, ended_s{};
  int num_attempts = 1;
  bool only_evaluated = false;  ///< Started to evaluate, without training.
  int64_t num_rejected_lines = 0;
  std::vector<std::string> problems{};
  std::vector<record::MissingFact> missing{};
  std::map<std::string, std::string> software{};

  std::optional<stats::SeriesSummary> series{};  ///< Absent: `unusable` says why there is no step time.
  std::string unusable{};
  double samples_per_step = 0, tokens_per_step = 0;  ///< NaN: unknown.
  double logged_tflops_per_device = NAN;             ///< Median of what the program itself printed; NaN: nothing.
  double steps_per_row = 1;                          ///< Above 1: the source logs means over so many steps.
  bool is_unit_guessed = false;                      ///< The source does not tell the unit of its step times.
  bool has_step_time = true;            ///< False: a row of a table that tells a rate only; its step is one sample.
  std::optional<WorkTime> work_time{};  ///< Of a row of times without a rate: its step is the whole work.
  const char* device_word = "device";   ///< "core" where the sizes of a table count those.
  int64_t num_steps = 0;                ///< Optimiser steps, of all attempts.
  int64_t num_measured_steps = 0;  ///< Whose time is told, of the measured attempt after its warm-up, as all below.
  int64_t num_window_steps = 0;    ///< In all, with those between lines that no line tells.
  /// Sum of step times after warm-up and what was done in it; steps that the source does not tell count as those that
  /// it tells.
  double measured_s = 0, measured_samples = 0;
  /// Wall clock over the same window, pauses between steps included; NaN: the source tells no times of day.
  double billed_s = 0, billed_samples = 0;
  /// The same over `measured_s`, with regular pauses as often as they come between the first and the last of them,
  /// since where a window ends is chance.
  double pause_ratio = NAN;
  size_t num_pauses = 0;             ///< In it: fewer than two are no measurement of how much pauses cost.
  bool are_pauses_doubtful = false;  ///< They may be steps slower than those that the log tells.
  bool tells_some_steps = false;     ///< There are steps between the lines whose time is not told.
  bool is_sample_slower = false;     ///< The steps that the log tells take longer than the clock leaves for all.
  double data_wait_share = 0;        ///< Of the measured time; NaN: unknown.
  std::map<std::string, double> phases_ms{};         ///< Means per step over the measured window.
  std::vector<double> measured_ms{};                 ///< Only with AnalysisOptions::keeps_steps.
  std::vector<stats::WeightedValue> distribution{};  ///< Of measured step times, ms; a weight is a number of rows.
  std::vector<double> trace_step{}, trace_ms{};      ///< Thinned: medians of short blocks and every outlier.
  double trace_warmup_end = 0;                       ///< Step at which measuring begins.
  std::vector<EpochTimes> epochs{};
  std::vector<LossPoint> losses{};    ///< Of all attempts, as loss_points gives them.
  std::optional<double> last_loss{};  ///< The last of these; where no batch is known, of the last row that has one.
  int64_t num_nonfinite_losses = 0;
  /// Gradients were not finite; where the source logs means, the step that ends the first such row.
  int64_t num_skipped_steps = 0, first_skipped_step = 0;
  std::vector<RankShare> ranks{};
  size_t num_rank_intervals = 0;
  std::optional<RankSkew> skew{};
  std::vector<record::CollectiveTotal> collectives{};
  std::vector<record::CollectivePoint> collective_points{};  ///< Of a benchmark of collectives; it has no steps.
  std::vector<record::LatencyPoint> latency_points{};        ///< Of one of latencies, or a table of them; likewise.
  std::vector<record::StartupTimes> startup{};
  std::vector<record::ResultRecord> results{};
  std::optional<EnergyUse> energy{};
  std::map<std::string, NetworkUse> network_per_step{};  ///< By interface.
  record::MemoryPeaks memory{};                          ///< Of rank 0.
  std::vector<ProtocolResult> protocols{};               ///< What the estimators asked for say.
};

/// Summarises one run: its measured attempt, but of all of them the losses. Never throws for what is in it: a run
/// without usable steps says so in `unusable`.
RunSummary summarise_run(record::RunData run, const AnalysisOptions& options);

/// Intervals of counters that begin at `first_step` or later; where none does, those that reach beyond it.
std::vector<const record::SystemInterval*> measured_intervals(const record::RunData& run, int64_t first_step);
/// Energy over the measured intervals of a run of one attempt; nothing when no meter gave a number.
std::optional<EnergyUse> energy_use(const record::RunData& run, int64_t first_step, double samples_per_step);
/// Complete epochs of a run of one attempt (the first one left out, since start-up lies in it).
std::vector<EpochTimes> epoch_times(const record::RunData& run);
/// Skew of the same intervals as rank_shares; nothing with fewer than two ranks.
std::optional<RankSkew> rank_skew(const record::RunData& run, int64_t first_step);
/// Means per rank over all intervals after `first_step`; empty with fewer than two ranks.
std::vector<RankShare> rank_shares(const record::RunData& run, int64_t first_step, size_t& num_intervals);

}  // namespace lockstep::analysis
