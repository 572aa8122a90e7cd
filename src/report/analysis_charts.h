#pragma once
#include <optional>
#include <vector>

#include "report/analysis_curve.h"
#include "report/document.h"

namespace lockstep::report {

/// The point above which efficiency falls off: farthest above the straight line from first to last size (over the
/// logarithm of the size). Nothing with fewer than four sizes, less than 5 points lost, or no clear bend.
std::optional<size_t> knee_of(const Curve& curve);

/// Charts over sizes, all curves in one (in groups of at most six); empty where no curve has two sizes or the numbers
/// are missing.
std::vector<Chart> efficiency_charts(const std::vector<Curve>& curves,
                                     const AnalysisOptions& options = {});  ///< With the target as a line.
std::vector<Chart> throughput_charts(const std::vector<Curve>& curves);
std::vector<Chart> utilisation_charts(
    const std::vector<Curve>& curves);  ///< MFU, or the rate per device where FLOPs are unknown.
std::vector<Chart> speedup_charts(const std::vector<Curve>& curves);
std::vector<Chart> time_charts(const std::vector<Curve>& curves,
                               const AnalysisOptions& options);  ///< Days of the budget, and its node-hours.

/// Charts of one curve.
std::vector<Chart> cdf_charts(const Curve& curve,
                              const std::vector<RunSummary>& runs);  ///< Small multiples above six sizes.
std::vector<Chart> trace_charts(const Curve& curve, const std::vector<RunSummary>& runs);
std::optional<Chart> breakdown_chart(const Curve& curve);
std::vector<Chart> collective_charts(const Curve& curve, const std::vector<RunSummary>& runs);

/// Loss against samples seen, all runs of all sizes overlaid.
std::optional<Chart> loss_chart(const Analysis& analysis);

}  // namespace lockstep::report
