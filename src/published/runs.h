#pragma once
#include <vector>

#include "analysis/curve.h"
#include "analysis/options.h"
#include "draw/document.h"
#include "published/formulas.h"

namespace lockstep::published {

/// The rows of a table as runs of one value each, so that repeats are combined, drawn and applied with as measurements
/// are. Times without a rate are rows of the whole work. Empty where the table has neither over sizes, or its batches
/// contradict each other.
std::vector<analysis::RunSummary> rows_as_runs(const FormulaContext& context, const analysis::AnalysisOptions& options);

/// UsageError for a budget that was given in what the rates of the rows cannot count: samples beside tokens/s without a
/// sequence length, tokens beside samples/s, and either beside TFLOP/s alone.
void check_budget(const analysis::Analysis& rows);

/// Efficiency, rates, utilisation and speed-up over sizes; the ids end in `suffix`.
std::vector<draw::Chart> row_charts(const analysis::Analysis& rows, const std::string& suffix);

/// Curves with several rows at one size: what single rows do not tell of them.
std::vector<const analysis::Curve*> curves_with_repeats(const analysis::Analysis& rows);

}  // namespace lockstep::published
