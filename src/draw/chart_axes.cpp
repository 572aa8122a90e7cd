#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/chart_painter.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {
constexpr double kBaseLine = 0.36;  ///< Of the font size: from the middle of a line of text down to its base line.
}

void ChartPainter::paint_lines(const std::vector<std::string>& lines, Point at, const SvgWriter::TextStyle& style) {
  for (const std::string& line : lines) {
    out_.text(at, line, style);
    at.y += style.font_px * kLineHeight;
  }
}

void ChartPainter::paint_axes() {
  paint_y_axis();
  if (x_)
    paint_x_axis();
  else
    paint_bar_names();
  const Theme& theme = light_theme();
  out_.line({plot_.x, plot_.bottom()}, {plot_.right(), plot_.bottom()}, "axis", theme.axis, 1);
  double widest = 0;
  for (const std::string& line : x_title_) widest = std::max(widest, text_width(line, kTickPx));
  const double centre = std::min(plot_.x + plot_.width / 2, frame_.width - widest / 2 - 1);
  paint_lines(x_title_, {std::max(centre, widest / 2 + 1), x_title_top_ + kTickPx},
              {.anchor = SvgWriter::Anchor::kMiddle, .is_muted = true});
  paint_lines(y_title_, {2, y_title_top_ + kTickPx}, {.is_muted = true});
}

void ChartPainter::paint_y_axis() {
  const Theme& theme = light_theme();
  for (const Tick& tick : y_->ticks()) {
    const double y = y_of(tick.value);
    out_.line({plot_.x, y}, {plot_.right(), y}, "grid", theme.grid, 1);
    if (!tick.label.empty())
      out_.text({plot_.x - 8, y + kTickPx * kBaseLine}, tick.label,
                {.anchor = SvgWriter::Anchor::kEnd, .is_muted = true});
  }
  if (y_->is_log() || y_->low() <= 0) return;
  // The axis does not begin at zero: say so with a break at its foot.
  const double x = plot_.x, y = plot_.bottom();
  out_.raw(fmt::format(
      R"(<path class="axis" d="M{0} {1}v-6l-4 -3l8 -4l-4 -3v-6" fill="none" stroke="{2}" stroke-width="1.25"><title>This axis does not begin at zero.</title></path>)",
      svg_number(x), svg_number(y), theme.axis.hex()));
}

double ChartPainter::tick_centre(double value, double width) const {
  return std::clamp(x_of(value), width / 2 + 1, std::max(width / 2 + 1, frame_.width - width / 2 - 1));
}

void ChartPainter::thin_ticks(std::vector<Tick>& ticks) const {
  constexpr double kGap = 7;
  // Texts chosen by the caller stay from the right, as many as fit: the largest size matters most.
  const auto thin_given = [&](std::string Tick::*text, double px) {
    double edge = 1e9;
    for (auto tick = ticks.rbegin(); tick != ticks.rend(); ++tick) {
      if (((*tick).*text).empty()) continue;
      const double width = text_width((*tick).*text, px), centre = tick_centre(tick->value, width);
      if (centre + width / 2 > edge - kGap || width > frame_.width / 2)
        ((*tick).*text).clear();
      else
        edge = centre - width / 2;
    }
  };
  if (!chart_.x.ticks.empty()) {
    thin_given(&Tick::label, kTickPx);
    for (Tick& tick : ticks)
      if (tick.label.empty()) tick.note.clear();
    thin_given(&Tick::note, kSmallPx);
    return;
  }
  const auto is_clear = [&](size_t stride) {
    double edge = -1e9;
    for (size_t index = 0; index < ticks.size(); index += stride) {
      if (ticks[index].label.empty()) continue;
      const double width = text_width(ticks[index].label, kTickPx), centre = tick_centre(ticks[index].value, width);
      if (centre - width / 2 < edge + kGap) return false;
      edge = centre + width / 2;
    }
    return true;
  };
  size_t stride = 1;
  while (stride < ticks.size() && !is_clear(stride)) ++stride;
  for (size_t index = 0; index < ticks.size(); ++index)
    if (index % stride != 0) ticks[index].label.clear();
}

void ChartPainter::paint_x_axis() {
  const Theme& theme = light_theme();
  std::vector<Tick> ticks = x_->ticks();
  thin_ticks(ticks);
  for (const Tick& tick : ticks) {
    const double x = x_of(tick.value);
    if (x_->is_log() && y_->is_log()) out_.line({x, plot_.y}, {x, plot_.bottom()}, "grid", theme.grid, 1);
    out_.line({x, plot_.bottom()}, {x, plot_.bottom() + (tick.label.empty() ? 3 : 5)}, "axis", theme.axis, 1);
    const auto write = [&](const std::string& text, double px, double base_line) {
      if (text.empty()) return;
      out_.text({tick_centre(tick.value, text_width(text, px)), plot_.bottom() + base_line}, text,
                {.font_px = px, .anchor = SvgWriter::Anchor::kMiddle, .is_muted = true});
    };
    write(tick.label, kTickPx, 19);
    write(tick.note, kSmallPx, 19 + kTickPx * kLineHeight);
  }
}

void ChartPainter::paint_regions() {
  const Theme& theme = light_theme();
  for (const Region& region : chart_.regions) {
    if (!x_->has_place(region.from) || !x_->has_place(region.to)) continue;
    const double from = std::clamp(x_of(std::min(region.from, region.to)), plot_.x, plot_.right());
    const double to = std::clamp(x_of(std::max(region.from, region.to)), plot_.x, plot_.right());
    out_.raw(fmt::format(R"(<rect class="region" x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", svg_number(from),
                         svg_number(plot_.y), svg_number(to - from), svg_number(plot_.height), theme.region.hex()));
    for (const double edge : {from, to})
      if (edge > plot_.x && edge < plot_.right())
        out_.line({edge, plot_.y}, {edge, plot_.bottom()}, "axis", theme.axis, 1, "2 3");
  }
}

void ChartPainter::paint_key_entry(const KeyEntry& entry, Point at) {
  const double middle = at.y + kTickPx * kLineHeight / 2;
  const auto rect = [&](std::string_view fill) {
    return fmt::format(R"(<rect x="{}" y="{}" width="18" height="10"{}/>)", svg_number(at.x + 1),
                       svg_number(middle - 5), fill);
  };
  out_.raw(fmt::format(R"(<g class="key" data-series="{}">)", entry.index));
  out_.open_series(entry.style);
  if (entry.symbol == KeyEntry::Symbol::kBar) {
    out_.raw(rect(" stroke=\"none\""));
    if (const std::string hatch = hatch_fill(entry.index); !hatch.empty()) out_.raw(rect(" stroke=\"none\" " + hatch));
  } else if (entry.symbol == KeyEntry::Symbol::kBand) {
    out_.raw(rect(" fill-opacity=\"0.22\" stroke-width=\"1\""));
  } else {
    const bool has_line = entry.symbol != KeyEntry::Symbol::kMarker;
    const bool has_dash = entry.symbol == KeyEntry::Symbol::kLine;
    if (has_line)
      out_.stroke_path(fmt::format("M{} {}h20", svg_number(at.x), svg_number(middle)), 2,
                       has_dash ? std::string_view(entry.style.dash) : "");
    if (entry.symbol != KeyEntry::Symbol::kLine) out_.marker(entry.style.marker, {at.x + 10, middle});
  }
  out_.close();
  paint_lines(entry.lines, {at.x + 26, middle + kTickPx * kBaseLine}, {});
  out_.close();
}

void ChartPainter::paint_legend() {
  double top = legend_top_;
  for (const std::vector<KeyEntry>& row : legend_) {
    double left = 2, height = 0;
    for (const KeyEntry& entry : row) {
      paint_key_entry(entry, {left, top});
      left += entry.width + 18;
      height = std::max(height, entry.height());
    }
    top += height + 3;
  }
}

void ChartPainter::paint_direct_labels() {
  std::vector<double> centres, heights;
  for (const KeyEntry& entry : direct_labels_) {
    centres.push_back(entry.anchor_y);
    heights.push_back(entry.height());
  }
  const std::vector<double> placed = spread(centres, heights, plot_.y - 6, plot_.bottom() + 2, 2);
  const Theme& theme = light_theme();
  for (size_t index = 0; index < direct_labels_.size(); ++index) {
    const KeyEntry& entry = direct_labels_[index];
    const double left = plot_.right() + 10;
    if (entry.from) {
      const bool is_far = plot_.right() - entry.from->x > 3 || std::abs(placed[index] - entry.from->y) > 4;
      if (is_far)
        out_.line({std::min(entry.from->x + 6, plot_.right()), entry.from->y}, {left - 2, placed[index]}, "axis",
                  theme.axis, 0.75, "1 2");
    }
    paint_key_entry(entry,
                    {left, placed[index] - kTickPx * kLineHeight / 2 - (entry.height() - kTickPx * kLineHeight) / 2});
  }
}

}  // namespace lockstep::draw
