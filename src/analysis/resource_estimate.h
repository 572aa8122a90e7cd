#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// A predicted number with its 90 % interval.
struct PredictedNumber {
  double low = 0, median = 0, high = 0;
};

/// What a size that was not measured keeps of the rate per node of the largest measured one.
struct KeptRate {
  double low = 0, median = 0, high = 0;     ///< 90 % interval and median, as factors.
  std::string source{};                     ///< A part of a sentence: "predicted, not measured: ...".
  std::optional<PredictedNumber> step_s{};  ///< Of that size, where seconds are told.
};
/// Nothing where it cannot tell.
using PredictKeptRate = std::function<std::optional<KeptRate>(const Curve& curve, int64_t size)>;

/// What an application adds to the measurements; shares in percent of the pure training time.
struct ProposalOptions {
  std::optional<int64_t> job_size{};  ///< Default: the largest that keeps the target efficiency, else the base.
  std::optional<double> restart_share{}, eval_share{}, checkpoint_share{};
  std::optional<double> job_hours{};  ///< Wall time of one job: each starts up anew.
  double sweep_node_hours = 0;
  std::string report_command{}, version{};  ///< Of the call that makes the report, and of lockstep.
  PredictKeptRate predict_kept_rate{};      ///< Empty: the loss between the last two sizes goes on.
};

/// Node-hours asked for, factor by factor.
struct ResourceEstimate {
  int64_t size = 0;
  const Point* measured_at = nullptr;  ///< The point whose rate per node was used.
  bool is_prediction = false;          ///< The size was not measured: M15.
  /// Rate per node over that of `measured_at`, beyond the largest measured size; NaN: unknown.
  double kept = 1;
  std::optional<KeptRate> predicted{};  ///< Where `kept` is its median; else it goes on as between the last two sizes.
  std::string kept_source{};            ///< Where that is from.
  std::optional<PredictedNumber> efficiency{};      ///< Predicted, against the base, where the size was not measured.
  std::optional<PredictedNumber> step_s{};          ///< Likewise.
  double rate_per_s = 0, days = 0, node_hours = 0;  ///< Of the budget, pure training.
  double optimistic_rate_per_s = 0;                 ///< With the measured rate per node kept.
  /// Total step time over that of median steps, less 1: with the pauses it leads to the billed rate.
  double slow_share = 0;
  double pause_share = 0, restart_share = 0;
  bool is_pause_known = true;   ///< False: no clock told the time between steps, and the total has none of it.
  int64_t steps_of_pauses = 0;  ///< Steps in which the pauses behind a measured share lie; 0: it is none.
  bool has_few_pauses = false;  ///< Fewer than two in the runs: what pauses cost was not measured.
  std::string slow_source{};
  std::string pause_source{}, restart_source{};
  double startup_s = 0;                    ///< Of one job, to its first step; NaN: not recorded.
  double num_jobs = 0;                     ///< 0: their wall time is not given, so start-up is not counted.
  double total_node_hours = 0;             ///< With all factors and the node-hours for tests.
  double optimistic_total_node_hours = 0;  ///< The same with the measured rate per node kept.
  double low_total_node_hours = 0, high_total_node_hours = 0;  ///< 90 % interval, where `predicted` has one.
};

}  // namespace lockstep::analysis
