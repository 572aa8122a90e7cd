#pragma once
#include <string>

#include "draw/document.h"

namespace lockstep::draw {

/// How large a chart is drawn and what belongs to it.
struct ChartFrame {
  double width = 720, plot_height = 300;
  bool has_title = true;  ///< Inside the drawing; a page has it in a heading.
  std::string id{};       ///< Unique in the page; ids inside the drawing begin with it.
};

/// The `svg` element. Text never overlaps other text and never leaves the drawing; what cannot be shown is said below
/// the axes.
std::string draw_chart(const Chart& chart, const ChartFrame& frame);

/// The data of a chart, reference lines left out: one row per x where the series share them, else one per point.
Table chart_table(const Chart& chart);

}  // namespace lockstep::draw
