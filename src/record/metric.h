#pragma once
#include <string_view>

namespace lockstep::record {

/// Where a metric comes from: a file of the run record, or computed from those by reports or by `sweep collect`.
enum class MetricSource { kSteps, kRanks, kComm, kSystem, kStartup, kResults, kDerived, kSweep };
/// "steps.jsonl", ..., "computed", "sweep collect".
std::string_view source_name(MetricSource source);

/// How many values (of steps, ranks, intervals) become the one that a report shows.
enum class Reduction {
  kNone,  ///< Tells rows apart; not reduced.
  kLast,  ///< The newest value.
  kSum,
  kMax,
  kMean,    ///< Arithmetic: costs only, never rates.
  kMedian,  ///< Of the steps after the warm-up.
  kRatio,   ///< Total of one quantity over total of another; never a mean of ratios.
};
std::string_view reduction_name(Reduction reduction);

/// One metric, declared once for readers, reports and docs/metrics.md.
struct MetricDef {
  std::string_view name{};  ///< Key in files, CSV and JSON; members of an object after a dot.
  std::string_view unit{};  ///< Empty: a plain number or text.
  MetricSource source = MetricSource::kSteps;
  Reduction reduction = Reduction::kNone;
  std::string_view formula{};  ///< Of computed metrics, in names of others; empty: measured.
  std::string_view help{};     ///< One sentence.
};

}  // namespace lockstep::record
