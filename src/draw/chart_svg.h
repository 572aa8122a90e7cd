#pragma once
#include <string>

#include "draw/chart_frame.h"
#include "draw/document.h"

namespace lockstep::draw {

/// The `svg` element. Text never overlaps other text and never leaves the drawing; what cannot be shown is said below
/// the axes.
std::string draw_chart(const Chart& chart, const ChartFrame& frame);

/// The data of a chart, reference lines left out: one row per x where the series share them, else one per point.
Table chart_table(const Chart& chart);

}  // namespace lockstep::draw
