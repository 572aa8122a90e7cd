#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "draw/chart_painter.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr double kSymbolWidth = 26, kDirectLabelGap = 10, kLegendGap = 18;
constexpr double kFallbackFont = 1.12;  ///< DejaVu Sans, where none of the named fonts is, over text_width.
constexpr double kMaxShiftPx =
    30;  ///< Of a direct label from the end of its line; lines that end together get a legend.
constexpr size_t kMaxDirectLabels = 5;  ///< Of series; reference lines come on top.

bool fits_scale(Scale scale, double value) { return std::isfinite(value) && (scale == Scale::kLinear || value > 0); }

std::string points_are(size_t count, std::string_view singular, std::string_view plural) {
  return count == 1 ? fmt::format("1 point {}", singular) : fmt::format("{} points {}", count, plural);
}

KeyEntry::Symbol symbol_of(Mark mark) {
  switch (mark) {
    case Mark::kBand: return KeyEntry::Symbol::kBand;
    case Mark::kMarkers: return KeyEntry::Symbol::kMarker;
    case Mark::kLine: return KeyEntry::Symbol::kLine;
    default: return KeyEntry::Symbol::kLineMarker;
  }
}

}  // namespace

ChartPainter::ChartPainter(const Chart& chart, const ChartFrame& frame) : chart_(chart), frame_(frame) {
  if (chart_.bars)
    collect_bar_values();
  else
    collect_series();
  lay_out();
}

PlotPoint ChartPainter::take_point(const Series& series, size_t index) const {
  const auto at = [&](const std::vector<double>& values) {
    return index < values.size() ? values[index] : std::nan("");
  };
  const auto bound = [&](const std::vector<double>& values) {
    return std::isfinite(at(values)) ? std::optional<double>(at(values)) : std::nullopt;
  };
  PlotPoint point{.x = at(series.x), .y = at(series.y), .low = bound(series.low), .high = bound(series.high)};
  if (series.mark == Mark::kBand && !series.is_reference) {
    if (!point.low || !point.high || !fits_scale(chart_.y.scale, *point.high))
      point.y = std::nan("");
    else if (!fits_scale(chart_.y.scale, point.y))
      point.y = *point.high;
  }
  if (index < series.labels.size()) point.label = one_line(series.labels[index]);
  return point;
}

void ChartPainter::collect_series() {
  const size_t num_coloured = static_cast<size_t>(std::count_if(
      chart_.series.begin(), chart_.series.end(), [](const Series& series) { return !series.is_reference; }));
  size_t coloured = 0, num_references = 0, num_missing = 0, num_not_positive = 0;
  for (const Series& series : chart_.series) {
    PlotSeries plot{.source = &series,
                    .index = series_.size(),
                    .name = one_line(series.name),
                    .style = series.is_reference ? reference_style(num_references++)
                                                 : series_style(coloured++, num_coloured, chart_.is_sequential)};
    bool has_gap = false;
    for (size_t index = 0; index < std::max(series.x.size(), series.y.size()); ++index) {
      PlotPoint point = take_point(series, index);
      if (fits_scale(chart_.x.scale, point.x) && fits_scale(chart_.y.scale, point.y)) {
        point.follows_gap = std::exchange(has_gap, false);
        plot.points.push_back(std::move(point));
        continue;
      }
      has_gap = true;
      if (series.is_reference) continue;
      (std::isfinite(point.x) && std::isfinite(point.y) ? num_not_positive : num_missing) += 1;
    }
    series_.push_back(std::move(plot));
  }
  if (num_missing > 0)
    add_note(points_are(num_missing, "has no value and is not drawn.", "have no value and are not drawn."));
  if (num_not_positive > 0)
    add_note(points_are(num_not_positive,
                        "is zero or negative and has no place on a logarithmic axis; the table has it.",
                        "are zero or negative and have no place on a logarithmic axis; the table has them."));
}

/// How far intervals may widen the axis beyond the values: by half of the largest one, on a logarithmic axis threefold.
double ChartPainter::bounded_end(double end, std::span<const double> values) const {
  if (values.empty()) return end;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (chart_.y.scale != Scale::kLinear) return std::clamp(end, *least / 3, *most * 3);
  const double room = std::max(std::abs(*least), std::abs(*most)) / 2;
  return std::clamp(end, *least - room, *most + room);
}

std::vector<double> ChartPainter::shown_values(bool is_x) const {
  std::vector<double> values, ends;
  for (const PlotSeries& series : series_)
    for (const PlotPoint& point : series.points) {
      values.push_back(is_x ? point.x : point.y);
      if (!is_x)
        for (const auto& end : {point.low, point.high})
          if (end) ends.push_back(*end);
    }
  const std::vector<double> own = values;
  for (const double end : ends) values.push_back(bounded_end(end, own));
  if (is_x)
    for (const Region& region : chart_.regions) values.insert(values.end(), {region.from, region.to});
  if (chart_.bars && !is_x)
    for (size_t bar = 0; bar < chart_.bars->bars.size(); ++bar) values.push_back(bar_total(bar));
  return values;
}

bool ChartPainter::can_label_directly() const {
  double total_height = 0, widest = 0;
  for (const KeyEntry& entry : key_) {
    total_height += entry.height() + 2;
    widest = std::max(widest, entry.width);
  }
  if (frame_.width < 560 || total_height > frame_.plot_height || widest > frame_.width * 0.34) return false;
  if (chart_.bars) return true;
  size_t num_coloured = 0;
  for (const PlotSeries& series : series_) {
    num_coloured += !series.source->is_reference;
    if (series.source->mark == Mark::kStep || series.points.empty()) return false;
  }
  std::vector<double> ends, heights;
  for (const KeyEntry& entry : key_) {
    ends.push_back((1 - std::clamp(y_->share(series_[entry.index].points.back().y), 0.0, 1.0)) * frame_.plot_height);
    heights.push_back(entry.height());
  }
  const std::vector<double> placed = spread(ends, heights, 0, frame_.plot_height, 2);
  for (size_t index = 0; index < ends.size(); ++index)
    if (std::abs(placed[index] - ends[index]) > kMaxShiftPx) return false;
  return num_coloured <= kMaxDirectLabels;
}

void ChartPainter::choose_key() {
  const double max_text = std::min(frame_.width * 0.5, 190.0);
  const auto add = [&](const std::string& name, KeyEntry entry) {
    if (name.empty()) return;
    entry.lines = wrap_text(name, max_text, kTickPx);
    for (const std::string& line : entry.lines)
      entry.width = std::max(entry.width, kSymbolWidth + kFallbackFont * text_width(line, kTickPx));
    key_.push_back(std::move(entry));
  };
  for (size_t index = 0; index < series_.size(); ++index) {
    const PlotSeries& series = series_[index];
    add(series.name, {.symbol = series.source->is_reference ? KeyEntry::Symbol::kLine : symbol_of(series.source->mark),
                      .style = series.style,
                      .index = index});
  }
  if (chart_.bars)
    for (size_t part = 0; part < chart_.bars->parts.size(); ++part)
      add(one_line(chart_.bars->parts[part]),
          {.symbol = KeyEntry::Symbol::kBar,
           .style = series_style(part, chart_.bars->parts.size(), chart_.is_sequential),
           .index = part});
}

double ChartPainter::lay_out_legend(double top) {
  legend_top_ = top;
  double used = 0;
  for (const KeyEntry& entry : key_) {
    if (legend_.empty() || used + kLegendGap + entry.width > frame_.width - 4) {
      legend_.emplace_back();
      used = 0;
    }
    used += (legend_.back().empty() ? 0 : kLegendGap) + entry.width;
    legend_.back().push_back(entry);
  }
  for (const std::vector<KeyEntry>& row : legend_) {
    double height = 0;
    for (const KeyEntry& entry : row) height = std::max(height, entry.height());
    top += height + 3;
  }
  return legend_.empty() ? top : top + 6;
}

void ChartPainter::lay_out() {
  double top = 2;
  const auto lines_height = [](const std::vector<std::string>& lines, double px) {
    return static_cast<double>(lines.size()) * px * kLineHeight;
  };
  if (frame_.has_title && !one_line(chart_.title).empty()) {
    title_ = wrap_text(one_line(chart_.title), frame_.width - 4, kTitlePx, true);
    top += lines_height(title_, kTitlePx) + 8;
  }
  y_.emplace(chart_.y, shown_values(false), static_cast<size_t>(frame_.plot_height / 42), chart_.bars.has_value());
  choose_key();
  const bool is_direct = can_label_directly();
  if (is_direct)
    direct_labels_ = key_;
  else
    top = lay_out_legend(top);
  if (!one_line(chart_.y.title).empty()) {
    y_title_ = wrap_text(one_line(chart_.y.title), frame_.width - 4, kTickPx);
    y_title_top_ = top;
    top += lines_height(y_title_, kTickPx) + 4;
  }
  double left = 0, right = 14;
  for (const Tick& tick : y_->ticks()) left = std::max(left, text_width(tick.label, kTickPx) + 10);
  for (const KeyEntry& entry : direct_labels_) right = std::max(right, entry.width + kDirectLabelGap + 2);
  plot_ = {left + 1, top + 8, std::max(frame_.width - left - 1 - right, 60.0), frame_.plot_height};
  double bottom = plot_.bottom() + 8;
  if (chart_.bars) {
    lay_out_bar_names();
    double name_height = 0;
    for (const auto& lines : bar_names_)
      name_height =
          std::max(name_height, has_vertical_bar_names_ ? text_width(lines[0], kTickPx) : lines_height(lines, kTickPx));
    bottom += name_height + 2;
  } else {
    x_.emplace(chart_.x, shown_values(true), static_cast<size_t>(plot_.width / 58));
    const bool has_notes =
        std::any_of(x_->ticks().begin(), x_->ticks().end(), [](const Tick& tick) { return !tick.note.empty(); });
    bottom += kTickPx * kLineHeight * (has_notes ? 2 : 1);
  }
  place_points();
  if (!one_line(chart_.x.title).empty()) {
    x_title_ = wrap_text(one_line(chart_.x.title), frame_.width - 4, kTickPx);
    x_title_top_ = bottom + 2;
    bottom = x_title_top_ + lines_height(x_title_, kTickPx);
  }
  notes_top_ = bottom + 6;
  height_ = bottom + 4;
}

double ChartPainter::region_room(const Region& region) const {
  if (!x_->has_place(region.from) || !x_->has_place(region.to)) return 0;
  const double from = std::max(x_of(std::min(region.from, region.to)), plot_.x),
               to = std::min(x_of(std::max(region.from, region.to)), plot_.right());
  return std::max(0.0, to - from);
}

void ChartPainter::place_points() {
  size_t num_outside = 0;
  bool has_steps = false;
  for (size_t index = 0; index < series_.size(); ++index) {
    PlotSeries& series = series_[index];
    const PlotPoint* last = nullptr;
    for (PlotPoint& point : series.points) {
      point.at = {x_of(point.x), y_of(point.y)};
      const bool is_inside = is_shown(point);
      num_outside += !is_inside && !series.source->is_reference;
      if (is_inside) last = &point;
    }
    for (KeyEntry& entry : direct_labels_)
      if (entry.index == index) {
        entry.anchor_y = last != nullptr ? last->at.y : plot_.y;
        if (last != nullptr) entry.from = last->at;
      }
    has_steps =
        has_steps || (series.source->mark == Mark::kStep && !series.source->is_reference && !series.points.empty());
  }
  if (has_steps) add_note("Markers: shares of 50, 95 and 99 %.");
  if (num_outside > 0)
    add_note(points_are(num_outside, "lies outside these axes; the table has it.",
                        "lie outside these axes; the table has them."));
  if (chart_.bars && !chart_.bars->bars.empty())
    for (KeyEntry& entry : direct_labels_) {  // beside the last bar's parts
      const size_t bar = chart_.bars->bars.size() - 1;
      double below = 0;
      for (size_t part = 0; part < entry.index; ++part) below += bar_value(part, bar);
      entry.anchor_y = y_of(below + bar_value(entry.index, bar) / 2);
    }
}

}  // namespace lockstep::draw
