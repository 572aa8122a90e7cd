#pragma once
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// All checks of a curve, into its points' flags and, for those of the curve, the result.
std::vector<Flag> check_curve(Curve& curve, const std::vector<RunSummary>& runs);

}  // namespace lockstep::analysis
