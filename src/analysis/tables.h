#pragma once

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Tables of one curve over its sizes; a table without rows has nothing to tell and is left out of the page.

/// What a reviewer reads: sizes, batches, rates, speed-up, efficiency, MFU, step times.
draw::Table scaling_table(const Curve& curve);
/// Its columns that fit a terminal: sizes, global batch, rate, efficiency, MFU, step time, runs; those without a value
/// are left out.
draw::Table short_scaling_table(const Curve& curve);
/// Step times, runs, jobs and steps of each size; no rows for rows of a table.
draw::Table quantile_table(const Curve& curve);
/// All definitions of efficiency beside each other.
draw::Table efficiency_table(const Curve& curve);
/// Both ends of every interval, for CSV; empty where no size has one.
draw::Table interval_table(const Curve& curve);
/// Median, mean and billed rates, tokens, TFLOP/s, MFU of both peaks.
draw::Table rate_table(const Curve& curve);
/// Days, node-hours, price and energy of the budget.
draw::Table cost_table(const Curve& curve, const AnalysisOptions& options);
/// Shares and times of the phases of a step.
draw::Table phase_table(const Curve& curve);

}  // namespace lockstep::analysis
