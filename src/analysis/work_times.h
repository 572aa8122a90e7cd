#pragma once
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

// Curves of tables that tell the time of a whole piece of work at each size and no rate: wall times of a fixed problem
// (strong scaling), or of one that grows with the size (weak scaling).

/// Sizes, time, speed-up beside its ideal, efficiency, and what one run costs in node-hours.
draw::Table work_time_table(const Curve& curve);
/// Times over sizes with ideal lines; empty where no curve is of such times.
std::vector<draw::Chart> work_time_charts(const std::vector<Curve>& curves);

}  // namespace lockstep::analysis
