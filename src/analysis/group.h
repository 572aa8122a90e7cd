#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// Did it end badly, by its state or message?
bool has_failed(const RunSummary& run);
std::string failure_text(const RunSummary& run);  ///< "it failed (out of memory)"
/// "a: stopped after 11 of 40 steps"; what was planned where its options tell.
std::string stopped_text(const RunSummary& run);

/// Fills in what follows from the rest: global batch, local batch.
void complete_batches(record::RunSetup& setup, double samples_per_step);
/// Splits runs to curves whose points hold setup, nodes, devices and run indices; fills Analysis::left_out. First step
/// of analyse. Runs of one size that differ a hundredfold are never pooled: the larger set that agrees stays, of equal
/// ones the faster. Where the source does not tell the unit of its times the point is left out instead; DataError when
/// nothing else is there.
std::vector<Curve> group_runs(const std::vector<RunSummary>& runs, std::vector<LeftOut>& left_out);

}  // namespace lockstep::analysis
