#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Collectives of one kind, axis and size over all runs of a point.
struct CollectiveRow {
  std::string kind{}, axis{};
  int group_size = 1;
  double bytes = 0;           ///< Of one call.
  double calls_per_step = 0;  ///< NaN: steps unknown.
  double time_ms = 0;         ///< Mean of one call.
  double blocked_ms = 0;      ///< Of that, what the host was blocked for; NaN: unknown.
  double algbw_gbytes_per_s = 0, busbw_gbytes_per_s = 0;
  std::string doubt{};  ///< Why the bandwidth cannot be.
};

std::vector<CollectiveRow> collective_rows(const Point& point, const std::vector<RunSummary>& runs);

/// Measured sizes of collective benchmarks, of all runs.
draw::Table collective_benchmark_table(const std::vector<RunSummary>& runs);
/// One row for each run, operation and buffer: the best bandwidth with its size, the time of the smallest message.
draw::Table collective_summary_table(const std::vector<RunSummary>& runs);
std::vector<draw::Chart> collective_benchmark_charts(const std::vector<RunSummary>& runs);

}  // namespace lockstep::analysis
