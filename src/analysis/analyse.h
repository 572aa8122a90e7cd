#pragma once
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// Groups runs to points and points to curves, and computes every derived number.
Analysis analyse(std::vector<RunSummary> runs, const AnalysisOptions& options);

}  // namespace lockstep::analysis
