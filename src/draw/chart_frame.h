#pragma once
#include <string>

namespace lockstep::draw {

/// How large a chart is drawn and what belongs to it.
struct ChartFrame {
  double width = 720, plot_height = 300;
  bool has_title = true;  ///< Inside the drawing; a page has it in a heading.
  std::string id{};       ///< Unique in the page; ids inside the drawing begin with it.
};

}  // namespace lockstep::draw
