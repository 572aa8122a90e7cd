#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "draw/chart_painter.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr size_t kMaxHiddenPoints = 60;  ///< Of a line without markers: points that can be pointed at and focused.
constexpr size_t kMaxMarkers = 200;      ///< Of one series; more become dots.

/// Of a long line, per pixel column, the first, lowest, highest and last point: the drawing stays the same.
std::vector<const PlotPoint*> thinned(const std::vector<PlotPoint>& points, double width) {
  std::vector<const PlotPoint*> kept;
  if (static_cast<double>(points.size()) <= width * 2) {
    for (const PlotPoint& point : points) kept.push_back(&point);
    return kept;
  }
  for (size_t from = 0, to = 0; from < points.size(); from = to) {
    size_t lowest = from, highest = from;
    for (to = from; to < points.size() && std::floor(points[to].at.x) == std::floor(points[from].at.x) &&
                    (to == from || !points[to].follows_gap);
         ++to) {
      if (points[to].at.y > points[lowest].at.y) lowest = to;
      if (points[to].at.y < points[highest].at.y) highest = to;
    }
    std::array<size_t, 4> chosen = {from, std::min(lowest, highest), std::max(lowest, highest), to - 1};
    for (size_t index = 0; index < chosen.size(); ++index)
      if (index == 0 || chosen[index] != chosen[index - 1]) kept.push_back(&points[chosen[index]]);
  }
  return kept;
}

std::string coordinates(Point at) { return svg_number(at.x) + " " + svg_number(at.y); }

}  // namespace

void ChartPainter::paint_series() {
  out_.raw(fmt::format(
      R"svg(<clipPath id="{}-c"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath><g clip-path="url(#{}-c)">)svg",
      frame_.id, svg_number(plot_.x - 1), svg_number(plot_.y - 1), svg_number(plot_.width + 2),
      svg_number(plot_.height + 2), frame_.id));
  for (const PlotSeries& series : series_)
    if (series.source->mark == Mark::kBand && !series.source->is_reference) paint_band(series);
  for (const bool wants_reference : {true, false})
    for (const PlotSeries& series : series_)
      if (series.source->is_reference == wants_reference) paint_line(series);
  for (const PlotSeries& series : series_)
    if (series.source->mark != Mark::kBand) paint_intervals(series);
  out_.close();
  for (const PlotSeries& series : series_)
    if (!series.source->is_reference) paint_points(series);
  paint_point_labels();
}

void ChartPainter::paint_band(const PlotSeries& series) {
  const auto low_of = [&](const PlotPoint& point) {
    return Point{point.at.x, y_of(y_->has_place(*point.low) ? *point.low : y_->low())};
  };
  std::string area, edges;
  for (size_t from = 0, to = 0; from < series.points.size(); from = to) {
    std::string upper, lower, back;
    for (to = from; to < series.points.size() && (to == from || !series.points[to].follows_gap); ++to) {
      const PlotPoint& point = series.points[to];
      const std::string low = coordinates(low_of(point)), high = coordinates({point.at.x, y_of(*point.high)});
      const char* command = to == from ? "M" : "L";
      upper += command + high;
      lower += command + low;
      back = "L" + low + back;
    }
    area += upper + back + "Z";
    edges += upper + lower;
  }
  if (area.empty()) return;
  out_.open_series(series.style, series.index);
  out_.raw(fmt::format(R"(<path d="{}" stroke="none" fill-opacity="0.2"/>)", area));
  out_.stroke_path(edges, 1, "");
  out_.close();
}

void ChartPainter::paint_line(const PlotSeries& series) {
  const Mark mark = series.source->mark;
  const bool is_reference = series.source->is_reference, is_step = mark == Mark::kStep && !is_reference;
  if (series.points.empty() || (mark == Mark::kMarkers && !is_reference) ||
      (mark == Mark::kBand && series.source->y.empty()))
    return;
  std::string path;
  for (const PlotPoint* point : thinned(series.points, plot_.width)) {
    const bool is_start = path.empty() || point->follows_gap;
    if (is_step && path.empty() && !y_->is_log())
      path += fmt::format("M{} {}V{}", svg_number(point->at.x), svg_number(y_of(0)), svg_number(point->at.y));
    else if (is_start)
      path += "M" + coordinates(point->at);
    else if (is_step)
      path += fmt::format("H{}V{}", svg_number(point->at.x), svg_number(point->at.y));
    else
      path += "L" + coordinates(point->at);
  }
  out_.open_series(series.style, series.index);
  const bool has_dash = is_reference || mark == Mark::kLine || mark == Mark::kBand;
  const bool is_long = series.points.size() > 200;
  out_.stroke_path(path,
                   is_reference          ? 1.5
                   : is_long && !is_step ? 1.25
                                         : 2,
                   has_dash ? std::string_view(series.style.dash) : "");
  out_.close();
}

void ChartPainter::paint_intervals(const PlotSeries& series) {
  std::string path;
  bool has_cut = false;
  for (const PlotPoint& point : series.points) {
    if (!point.low && !point.high) continue;
    const double low = point.low && y_->has_place(*point.low) ? *point.low : point.low ? y_->low() : point.y;
    const double high = point.high && y_->has_place(*point.high) ? *point.high : point.y;
    if (!is_shown(point)) continue;
    // An end beyond the axis is an arrow on its edge.
    const double x = point.at.x, top = std::max(y_of(high), plot_.y), bottom = std::min(y_of(low), plot_.bottom());
    const bool is_top_cut = y_of(high)<plot_.y - 0.5, is_bottom_cut = y_of(low)> plot_.bottom() + 0.5;
    has_cut = has_cut || is_top_cut || is_bottom_cut;
    path += fmt::format("M{} {}{}V{}{}", svg_number(x - 3.5), svg_number(top),
                        is_top_cut ? "m0 5l3.5 -5l3.5 5m-3.5 -5" : "h7m-3.5 0", svg_number(bottom),
                        is_bottom_cut ? "m-3.5 -5l3.5 5l3.5 -5" : "m-3.5 0h7");
  }
  if (path.empty()) return;
  out_.open_series(series.style, series.index);
  out_.stroke_path(path, 1.5, "");
  out_.close();
  if (has_cut) add_note("Intervals that end in an arrow reach beyond the axis; the table has their ends.");
}

std::string ChartPainter::point_text(const PlotSeries& series, const PlotPoint& point) const {
  std::string text = series.name.empty() ? "" : series.name + ": ";
  const auto named = [](const std::string& title, double value) {
    const std::string name = one_line(title);
    return (name.empty() ? "" : name + " ") + short_number(value);
  };
  text += named(chart_.x.title, point.x) + ", " + named(chart_.y.title, point.y);
  if (point.low && point.high)
    text += fmt::format(", interval {} to {}", short_number(*point.low), short_number(*point.high));
  if (!point.label.empty()) text += " (" + point.label + ")";
  return text;
}

std::vector<size_t> ChartPainter::marked_points(const PlotSeries& series) const {
  std::vector<size_t> marked;
  const Mark mark = series.source->mark;
  if (mark == Mark::kMarkers || mark == Mark::kLineMarkers) {
    marked.resize(series.points.size());
    std::iota(marked.begin(), marked.end(), size_t{0});
  } else if (mark == Mark::kStep) {
    for (const double share : {0.5, 0.95, 0.99}) {
      const auto reaches = [&](const PlotPoint& point) { return point.y >= share; };
      const auto first = std::find_if(series.points.begin(), series.points.end(), reaches);
      if (first != series.points.end()) marked.push_back(static_cast<size_t>(first - series.points.begin()));
    }
    marked.erase(std::unique(marked.begin(), marked.end()), marked.end());
  }
  return marked;
}

void ChartPainter::paint_dots(const PlotSeries& series) {
  std::string path;
  for (const PlotPoint& point : series.points)
    if (is_shown(point)) path += fmt::format("M{}h0", coordinates(point.at));
  out_.raw(fmt::format(R"(<path d="{}" fill="none" stroke-width="4" stroke-linecap="round"/>)", path));
}

void ChartPainter::paint_points(const PlotSeries& series) {
  const size_t count = series.points.size();
  if (count == 0 || (series.source->mark == Mark::kBand && series.source->y.empty())) return;
  std::vector<size_t> marked = marked_points(series), hidden;
  out_.open_series(series.style, series.index);
  if (marked.size() > kMaxMarkers) {
    paint_dots(series);
    marked.clear();
  }
  if (marked.empty() || series.source->mark == Mark::kStep) {
    const size_t num_hidden = std::min(count, kMaxHiddenPoints);
    for (size_t each = 0; each < num_hidden; ++each)
      hidden.push_back(num_hidden < 2 ? 0 : each * (count - 1) / (num_hidden - 1));
  }
  bool is_first = true;  // the others are reached from it by arrow keys
  const auto paint = [&](size_t index, bool is_visible) {
    const PlotPoint& point = series.points[index];
    if (!is_shown(point)) return;
    const std::string title = "<title>" + escape_xml(point_text(series, point)) + "</title>";
    const std::string attributes = std::exchange(is_first, false) ? " tabindex=\"0\"" : " tabindex=\"-1\"";
    if (is_visible)
      out_.marker(series.style.marker, point.at, " pt", attributes, title);
    else
      out_.raw(
          fmt::format(R"(<circle class="pt" cx="{}" cy="{}" r="4" fill-opacity="0" stroke-opacity="0"{}>{}</circle>)",
                      svg_number(point.at.x), svg_number(point.at.y), attributes, title));
  };
  for (const size_t index : hidden) paint(index, false);
  for (const size_t index : marked) paint(index, true);
  out_.close();
}

LabelPlacer ChartPainter::make_placer() const {
  LabelPlacer placer(plot_);
  for (const PlotSeries& series : series_) {
    const bool has_markers =
        series.source->mark != Mark::kBand && !series.source->is_reference && series.source->mark != Mark::kLine;
    const std::vector<const PlotPoint*> points = thinned(series.points, plot_.width);
    for (size_t index = 0; index < points.size(); ++index) {
      const PlotPoint& point = *points[index];
      if (has_markers && is_shown(point)) placer.add_box({point.at.x - 5, point.at.y - 5, 10, 10});
      if (index > 0 && !point.follows_gap) placer.add_segment(points[index - 1]->at, point.at);
      if (point.low && point.high) placer.add_segment({point.at.x, y_of(*point.low)}, {point.at.x, y_of(*point.high)});
    }
  }
  return placer;
}

void ChartPainter::paint_region_labels(LabelPlacer& placer) {
  for (const Region& region : chart_.regions) {
    const std::string label = one_line(region.label);
    if (label.empty()) continue;
    const Box box{std::max(x_of(std::min(region.from, region.to)), plot_.x) + 2, plot_.y,
                  text_width(label, kSmallPx) + 4, 18};
    if (box.width + 4 > region_room(region) || !placer.is_free(box)) {
      add_note(fmt::format("Shaded from {} to {}: {}.", short_number(region.from), short_number(region.to), label));
      continue;
    }
    out_.text({box.x + 2, box.y + 13}, label, {.font_px = kSmallPx, .is_muted = true});
    placer.add_box(box);
  }
}

/// Where the legend stands apart, near the right end of each reference line: grey dashes alone are hard to tell from
/// each other.
void ChartPainter::paint_reference_names(LabelPlacer& placer) {
  if (!direct_labels_.empty()) return;
  for (const PlotSeries& series : series_) {
    if (!series.source->is_reference || series.name.empty() || series.points.size() < 2) continue;
    const double width = text_width(series.name, kSmallPx) + 2, height = kSmallPx * 1.25,
                 x = plot_.right() - width / 2 - 2;
    const auto after = std::find_if(series.points.begin() + 1, series.points.end(),
                                    [&](const PlotPoint& point) { return point.at.x >= x; });
    if (after == series.points.end() || after->at.x <= std::prev(after)->at.x) continue;
    const Point from = std::prev(after)->at, to = after->at;
    const Point on_line{x, from.y + (to.y - from.y) * (x - from.x) / (to.x - from.x)};
    const std::optional<Box> box = placer.place(on_line, width, height);
    if (!box) continue;
    out_.raw(fmt::format(R"(<g data-series="{}">)", series.index));
    out_.text({box->x + box->width / 2, box->y + height * 0.8}, series.name,
              {.font_px = kSmallPx, .anchor = SvgWriter::Anchor::kMiddle, .is_muted = true, .has_halo = true});
    out_.close();
  }
}

void ChartPainter::paint_point_labels() {
  LabelPlacer placer = make_placer();
  paint_region_labels(placer);
  size_t num_left_out = 0;
  for (const PlotSeries& series : series_) {
    out_.raw(fmt::format(R"(<g data-series="{}">)", series.index));
    for (const PlotPoint& point : series.points) {
      if (point.label.empty() || !is_shown(point)) continue;
      const double width = text_width(point.label, kSmallPx) + 2, height = kSmallPx * 1.25;
      const std::optional<Box> box = placer.place(point.at, width, height);
      if (!box)
        ++num_left_out;
      else
        out_.text({box->x + box->width / 2, box->y + height * 0.8}, point.label,
                  {.font_px = kSmallPx, .anchor = SvgWriter::Anchor::kMiddle, .has_halo = true});
    }
    out_.close();
  }
  paint_reference_names(placer);
  if (num_left_out == 1) add_note("1 label had no room beside its point; the table has it.");
  if (num_left_out > 1)
    add_note(fmt::format("{} labels had no room beside their points; the table has them.", num_left_out));
}

}  // namespace lockstep::draw
