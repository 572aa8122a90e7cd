#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// The point above which efficiency falls off: farthest above the straight line from first to last size (over the
/// logarithm of the size). Nothing with fewer than four sizes, less than 5 points lost, or no clear bend.
std::optional<size_t> knee_of(const Curve& curve);

/// One chart for each group of curves that share axis and unit, with their sizes as its axis; what `fill` gives no
/// series is left out. Ids are `id`, `id`-2, ...
std::vector<draw::Chart> charts_over_sizes(
    const std::vector<Curve>& curves, const char* id,
    const std::function<void(const std::vector<const Curve*>& group, draw::Chart& chart)>& fill);

/// Charts over sizes, all curves in one (in groups of at most six); empty where no curve has two sizes or the numbers
/// are missing.
/// With the target as a line.
std::vector<draw::Chart> efficiency_charts(const std::vector<Curve>& curves, const AnalysisOptions& options = {});
std::vector<draw::Chart> throughput_charts(const std::vector<Curve>& curves);
/// MFU, or the rate per device where FLOPs are unknown.
std::vector<draw::Chart> utilisation_charts(const std::vector<Curve>& curves);
std::vector<draw::Chart> speedup_charts(const std::vector<Curve>& curves);
/// Days of the budget, and its node-hours.
std::vector<draw::Chart> time_charts(const std::vector<Curve>& curves, const AnalysisOptions& options);

}  // namespace lockstep::analysis
