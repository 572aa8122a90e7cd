#pragma once
#include <optional>
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Charts of one curve.
/// Small multiples above six sizes.
std::vector<draw::Chart> cdf_charts(const Curve& curve, const std::vector<RunSummary>& runs);
std::vector<draw::Chart> trace_charts(const Curve& curve, const std::vector<RunSummary>& runs);
std::optional<draw::Chart> breakdown_chart(const Curve& curve);
std::vector<draw::Chart> collective_charts(const Curve& curve, const std::vector<RunSummary>& runs);

/// Loss against samples seen, all runs of all sizes overlaid.
std::optional<draw::Chart> loss_chart(const Analysis& analysis);

}  // namespace lockstep::analysis
