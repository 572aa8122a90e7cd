#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// Time of a point's work in the unit of the table; of one in milliseconds in seconds.
Estimate time_in_unit(const Point& point);
/// "s", "min", "h" or "d" of that; empty where the table names none.
std::string work_time_unit(const Point& point);
/// "3600 s"; "3600" where the table names no unit.
std::string work_time_text(const Point& point);
/// What a size is times that of the base; NaN without one.
double size_growth(const Curve& curve, const Point& point);
/// "mine was measured at 1, 2, 4 nodes (strong scaling: ...). At 1 node it takes 3600 s, ..."
std::string work_time_sentence(const Curve& curve);
/// "Efficiency is in strong scaling T(N0) N0 / (T(N) N), with the times T of the table."
std::string efficiency_of_times_text(const std::vector<const Curve*>& curves);

}  // namespace lockstep::analysis
