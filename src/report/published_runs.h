#pragma once
#include <vector>

#include "report/analysis_curve.h"
#include "report/analysis_options.h"
#include "report/published_formulas.h"

namespace lockstep::report {

/// The rows of a table as runs of one value each, so that repeats are combined, drawn and applied with as measurements
/// are. Empty where the table has no rate over sizes, or its batches contradict each other.
std::vector<RunSummary> rows_as_runs(const FormulaContext& context, const AnalysisOptions& options);

/// Efficiency, rates, utilisation and speed-up over sizes; the ids end in `suffix`.
std::vector<Chart> row_charts(const Analysis& rows, const std::string& suffix);

/// Curves with several rows at one size: what single rows do not tell of them.
std::vector<const Curve*> curves_with_repeats(const Analysis& rows);

}  // namespace lockstep::report
