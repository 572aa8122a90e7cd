#pragma once
#include "analysis/curve.h"

namespace lockstep::analysis {

/// Flags a point whose global batch is no power of two.
void check_odd_batch(const Curve& curve, Point& point);

}  // namespace lockstep::analysis
