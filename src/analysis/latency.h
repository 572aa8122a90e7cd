#pragma once
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Latencies of all runs, one row each, those of published tables among them.
draw::Table latency_table(const std::vector<RunSummary>& runs);
/// Where the time goes: one row per measured latency with stages.
draw::Table latency_stage_table(const std::vector<RunSummary>& runs);
/// Latency against batch with intervals.
std::vector<draw::Chart> latency_charts(const std::vector<RunSummary>& runs);

}  // namespace lockstep::analysis
