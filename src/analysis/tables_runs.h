#pragma once
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Tables that look into the runs of one curve; a table without rows has nothing to tell.
draw::Table distribution_table(const Curve& curve, const std::vector<RunSummary>& runs);
draw::Table collective_table(const Curve& curve, const std::vector<RunSummary>& runs);
draw::Table straggler_table(const Curve& curve, const std::vector<RunSummary>& runs);
draw::Table host_table(const Curve& curve, const std::vector<RunSummary>& runs);
/// What evaluating costs; empty where no record tells.
draw::Table evaluation_table(const Curve& curve, const std::vector<RunSummary>& runs);
draw::Table startup_table(const Curve& curve, const std::vector<RunSummary>& runs);
/// Memory peaks and traffic by interface; empty where no record tells.
draw::Table resource_table(const Curve& curve);
draw::Table protocol_table(const Curve& curve, const std::vector<RunSummary>& runs);

/// Tables of the whole analysis.
draw::Table run_table(const Analysis& analysis);
draw::Table left_out_table(const Analysis& analysis);
draw::Table problem_table(const Analysis& analysis);
draw::Table check_table(const Analysis& analysis);
draw::Table manifest_table(const Analysis& analysis);

}  // namespace lockstep::analysis
