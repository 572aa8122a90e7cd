#pragma once
#include <vector>

#include "report/analysis_curve.h"
#include "report/document.h"

namespace lockstep::report {

/// Tables of one curve; a table without rows has nothing to tell and is left out of the page.
Table scaling_table(
    const Curve& curve);  ///< What a reviewer reads: sizes, batches, rates, speed-up, efficiency, MFU, step times.
Table quantile_table(
    const Curve& curve);  ///< Step times, runs, jobs and steps of each size; no rows for rows of a table.
Table efficiency_table(const Curve& curve);  ///< All definitions of efficiency beside each other.
Table interval_table(const Curve& curve);    ///< Both ends of every interval, for CSV; empty where no size has one.
Table rate_table(const Curve& curve);        ///< Median, mean and billed rates, tokens, TFLOP/s, MFU of both peaks.
Table cost_table(const Curve& curve, const AnalysisOptions& options);
Table distribution_table(const Curve& curve, const std::vector<RunSummary>& runs);
Table phase_table(const Curve& curve);
Table collective_table(const Curve& curve, const std::vector<RunSummary>& runs);
Table straggler_table(const Curve& curve, const std::vector<RunSummary>& runs);
Table host_table(const Curve& curve, const std::vector<RunSummary>& runs);
Table evaluation_table(const Curve& curve,
                       const std::vector<RunSummary>& runs);  ///< What evaluating costs; empty where no record tells.
Table startup_table(const Curve& curve, const std::vector<RunSummary>& runs);
Table resource_table(const Curve& curve);  ///< Memory peaks and traffic by interface; empty where no record tells.
Table loss_table(const Curve& curve);      ///< Samples to one loss against the base's; empty where nothing is compared.
Table protocol_table(const Curve& curve, const std::vector<RunSummary>& runs);

/// Tables of the whole.
Table run_table(const Analysis& analysis);
Table left_out_table(const Analysis& analysis);
Table problem_table(const Analysis& analysis);
Table check_table(const Analysis& analysis);
Table manifest_table(const Analysis& analysis);

}  // namespace lockstep::report
