#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "draw/axis_scale.h"
#include "draw/chart_frame.h"
#include "draw/document.h"
#include "draw/label_placer.h"
#include "draw/palette.h"
#include "draw/svg_writer.h"

namespace lockstep::draw {

/// A point that has a place on both axes.
struct PlotPoint {
  double x = 0, y = 0;
  std::optional<double> low{}, high{};
  std::string label{};
  bool follows_gap = false;  ///< A point before it is missing: no line from there.
  Point at{};                ///< In the drawing, once the axes are set.
};

struct PlotSeries {
  const Series* source = nullptr;
  size_t index = 0;  ///< In the chart.
  std::string name{};
  SeriesStyle style{};
  std::vector<PlotPoint> points{};
};

/// One entry that tells what a colour means: beside the end of its line, or in the legend.
struct KeyEntry {
  enum class Symbol { kLine, kLineMarker, kMarker, kBand, kBar } symbol = Symbol::kLine;
  SeriesStyle style{};
  size_t index = 0;  ///< Of its series or part.
  std::vector<std::string> lines{};
  double width = 0;             ///< With symbol.
  double anchor_y = 0;          ///< Wished height, of a direct label.
  std::optional<Point> from{};  ///< End of the line that it names.

  double height() const { return static_cast<double>(lines.size()) * kTickPx * kLineHeight; }
};

/// Draws one chart: first decides where everything goes, then writes it.
class ChartPainter {
 public:
  ChartPainter(const Chart& chart, const ChartFrame& frame);
  std::string paint();

 private:
  // chart_layout.cpp
  void collect_series();
  void collect_bar_values();
  PlotPoint take_point(const Series& series, size_t index) const;
  std::vector<double> shown_values(bool is_x) const;
  double bounded_end(double end, std::span<const double> values) const;
  void choose_key();
  bool can_label_directly() const;
  void lay_out();
  double lay_out_legend(double top);
  void place_points();
  void add_note(const std::string& sentence) { notes_.push_back(sentence); }

  // chart_axes.cpp
  void paint_axes();
  void paint_y_axis();
  void paint_x_axis();
  /// Of a tick's text of that width: over the tick, but never past the drawing's edge.
  double tick_centre(double value, double width) const;
  void thin_ticks(std::vector<Tick>& ticks) const;
  void paint_regions();
  void paint_key_entry(const KeyEntry& entry, Point at);
  void paint_legend();
  void paint_direct_labels();
  void paint_lines(const std::vector<std::string>& lines, Point first_base_line, const SvgWriter::TextStyle& style);

  // chart_series.cpp
  void paint_series();
  void paint_band(const PlotSeries& series);
  void paint_line(const PlotSeries& series);
  void paint_intervals(const PlotSeries& series);
  std::vector<size_t> marked_points(const PlotSeries& series) const;
  void paint_points(const PlotSeries& series);
  void paint_dots(const PlotSeries& series);
  void paint_point_labels();
  LabelPlacer make_placer() const;
  void paint_region_labels(LabelPlacer& placer);
  void paint_reference_names(LabelPlacer& placer);
  std::string point_text(const PlotSeries& series, const PlotPoint& point) const;

  // chart_bars.cpp
  void paint_hatches();
  std::string hatch_fill(size_t part) const;  ///< The attribute that lays a pattern over a part; empty for a plain one.
  void paint_bars();
  void paint_bar(size_t bar, double left, double width, bool has_total);
  void paint_part_label(const SeriesStyle& style, const std::string& label, Point centre);
  bool fits_part_labels(size_t part, double width) const;
  double bar_total(size_t bar) const;
  void lay_out_bar_names();
  void paint_bar_names();
  double bar_value(size_t part, size_t bar) const;

  bool is_shown(const PlotPoint& point) const { return x_->is_inside(point.x) && y_->is_inside(point.y); }
  double region_room(const Region& region) const;  ///< Visible width in pixels; 0 where it has no place on the axis.
  /// Coordinates; those of values far outside the axes are bounded.
  double x_of(double value) const { return plot_.x + std::clamp(x_->share(value), -9.0, 10.0) * plot_.width; }
  double y_of(double value) const { return plot_.bottom() - std::clamp(y_->share(value), -9.0, 10.0) * plot_.height; }

  const Chart& chart_;
  const ChartFrame& frame_;
  SvgWriter out_{};
  std::vector<PlotSeries> series_{};
  std::optional<AxisScale> x_{}, y_{};
  Box plot_{};
  double height_ = 0;
  double legend_top_ = 0, y_title_top_ = 0, x_title_top_ = 0, notes_top_ = 0;
  std::vector<std::string> title_{}, y_title_{}, x_title_{}, note_lines_{};
  std::vector<std::vector<KeyEntry>> legend_{};  ///< By row.
  std::vector<KeyEntry> direct_labels_{};
  std::vector<KeyEntry> key_{};
  std::vector<std::string> notes_{};
  std::vector<std::vector<std::string>> bar_names_{};
  bool has_vertical_bar_names_ = false;
  size_t bar_name_stride_ = 1;
};

}  // namespace lockstep::draw
