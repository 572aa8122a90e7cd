#pragma once
#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Time per epoch of each size, its training part, and the share of steps that waits for data; empty where no run has
/// two whole epochs after its first.
draw::Table epoch_table(const Curve& curve);

/// Rate per device of each configuration and size on every system; empty unless runs of two systems name theirs and
/// have a configuration in common.
draw::Table system_table(const Analysis& analysis);

}  // namespace lockstep::analysis
