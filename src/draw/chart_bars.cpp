#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draw/chart_painter.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr size_t kNumHatches = 6;  ///< The first is plain.
constexpr double kMaxBarWidth = 72, kBarShare = 0.68;

std::string value_label(double value) { return fmt::format("{:.3g}", value); }

}  // namespace

double ChartPainter::bar_value(size_t part, size_t bar) const {
  const auto& values = chart_.bars->values;
  const double value = part < values.size() && bar < values[part].size() ? values[part][bar] : 0;
  return std::isfinite(value) && value > 0 ? value : 0;
}

void ChartPainter::collect_bar_values() {
  size_t num_missing = 0, num_negative = 0;
  for (size_t part = 0; part < chart_.bars->parts.size(); ++part)
    for (size_t bar = 0; bar < chart_.bars->bars.size(); ++bar) {
      const auto& values = chart_.bars->values;
      const double value = part < values.size() && bar < values[part].size() ? values[part][bar] : std::nan("");
      num_missing += !std::isfinite(value);
      num_negative += std::isfinite(value) && value < 0;
    }
  if (num_missing > 0)
    add_note(fmt::format("{} {} missing and not drawn.", num_missing, num_missing == 1 ? "part is" : "parts are"));
  if (num_negative > 0)
    add_note(fmt::format("{} {} below zero and not drawn; the table has {}.", num_negative,
                         num_negative == 1 ? "part is" : "parts are", num_negative == 1 ? "it" : "them"));
}

void ChartPainter::lay_out_bar_names() {
  const size_t count = chart_.bars->bars.size();
  if (count == 0) return;
  constexpr size_t kMaxNameLines = 3;
  const double slot = plot_.width / static_cast<double>(count);
  for (const std::string& name : chart_.bars->bars) bar_names_.push_back(wrap_text(one_line(name), slot - 6, kTickPx));
  // A name breaks at spaces only; where a word is wider than its slot, all names are turned.
  for (size_t bar = 0; bar < count; ++bar) {
    std::string again;
    for (const std::string& line : bar_names_[bar]) again += (again.empty() ? "" : " ") + line;
    if (again != one_line(chart_.bars->bars[bar]) || bar_names_[bar].size() > kMaxNameLines)
      has_vertical_bar_names_ = true;
  }
  if (!has_vertical_bar_names_) return;
  constexpr double kMaxNamePx = 210;
  bool is_shortened = false;
  for (size_t bar = 0; bar < count; ++bar) {
    const std::string name = one_line(chart_.bars->bars[bar]);
    bar_names_[bar] = {shorten_text(name, kMaxNamePx, kTickPx)};
    is_shortened = is_shortened || bar_names_[bar][0] != name;
  }
  if (is_shortened) add_note("Long names are shortened; the table has them in full.");
  while (slot * static_cast<double>(bar_name_stride_) < kTickPx * 1.25) ++bar_name_stride_;
  if (bar_name_stride_ > 1) add_note(fmt::format("One bar in {} is named; the table has all names.", bar_name_stride_));
}

void ChartPainter::paint_bar_names() {
  const double slot = plot_.width / static_cast<double>(std::max<size_t>(1, bar_names_.size()));
  for (size_t bar = 0; bar < bar_names_.size(); ++bar) {
    const double centre = plot_.x + slot * (static_cast<double>(bar) + 0.5);
    if (!has_vertical_bar_names_)
      paint_lines(bar_names_[bar], {centre, plot_.bottom() + 19}, {.anchor = SvgWriter::Anchor::kMiddle});
    else if (bar % bar_name_stride_ == 0)
      out_.text({centre + kTickPx * 0.36, plot_.bottom() + 8}, bar_names_[bar][0],
                {.anchor = SvgWriter::Anchor::kEnd, .is_vertical = true});
  }
}

std::string ChartPainter::hatch_fill(size_t part) const {
  return part % kNumHatches == 0 ? "" : fmt::format(R"svg(fill="url(#{}-h{})")svg", frame_.id, part % kNumHatches);
}

void ChartPainter::paint_hatches() {
  static constexpr const char* kPaths[kNumHatches] = {
      "", "M-2 2L2 -2M0 8L8 0M6 10L10 6", "M0 4H8", "M-2 6L2 10M0 0L8 8M6 -2L10 2", "M4 0V8", "M0 4H8M4 0V8"};
  out_.raw("<defs>");
  for (size_t hatch = 1; hatch < kNumHatches; ++hatch)
    out_.raw(fmt::format(
        R"(<pattern id="{}-h{}" width="8" height="8" patternUnits="userSpaceOnUse"><path class="hatch" d="{}" fill="none" stroke="{}" stroke-width="1.5" stroke-opacity="0.55"/></pattern>)",
        frame_.id, hatch, kPaths[hatch], light_theme().paper.hex()));
  out_.raw("</defs>");
}

double ChartPainter::bar_total(size_t bar) const {
  double total = 0;
  for (size_t part = 0; part < chart_.bars->parts.size(); ++part) total += bar_value(part, bar);
  return total;
}

bool ChartPainter::fits_part_labels(size_t part, double width) const {
  for (size_t bar = 0; bar < chart_.bars->bars.size(); ++bar)
    if (text_width(value_label(bar_value(part, bar)), kSmallPx) + 8 > width) return false;
  return true;
}

void ChartPainter::paint_bars() {
  const size_t count = chart_.bars->bars.size();
  const double slot = plot_.width / static_cast<double>(count), width = std::min(slot * kBarShare, kMaxBarWidth);
  bool has_totals = chart_.bars->parts.size() > 1;
  for (size_t bar = 0; bar < count; ++bar)
    has_totals = has_totals && text_width(value_label(bar_total(bar)), kSmallPx, true) + 4 <= slot;
  for (size_t bar = 0; bar < count; ++bar)
    paint_bar(bar, plot_.x + slot * (static_cast<double>(bar) + 0.5) - width / 2, width, has_totals);
}

void ChartPainter::paint_part_label(const SeriesStyle& style, const std::string& label, Point centre) {
  constexpr double kHeight = 14;
  const Rgb fill = text_on(style.colour);
  const double width = text_width(label, kSmallPx) + 6;
  out_.raw(fmt::format(R"(<g stroke="none" pointer-events="none"><rect x="{}" y="{}" width="{}" height="{}" rx="2"/>)",
                       svg_number(centre.x - width / 2), svg_number(centre.y - kHeight / 2), svg_number(width),
                       svg_number(kHeight)));
  out_.text({centre.x, centre.y + 4}, label,
            {.font_px = kSmallPx,
             .anchor = SvgWriter::Anchor::kMiddle,
             .fill = &fill,
             .fill_class = "on-" + style.colour_class});
  out_.close();
}

void ChartPainter::paint_bar(size_t bar, double left, double width, bool has_total) {
  constexpr double kMinLabelled = 18;
  const size_t num_parts = chart_.bars->parts.size();
  const double total = bar_total(bar);
  const auto y_inside = [&](double value) { return std::clamp(y_of(value), plot_.y, plot_.bottom()); };
  double below = 0;
  bool is_first = true;
  for (size_t part = 0; part < num_parts; ++part) {
    const double value = bar_value(part, bar), bottom = y_inside(below), top = y_inside(below + value);
    below += value;
    if (value <= 0) continue;
    const SeriesStyle style = series_style(part, num_parts, chart_.is_sequential);
    const double gap = bottom - top > 3 ? 1 : 0;  // a thin line of paper between parts
    const std::string geometry = fmt::format(R"(x="{}" y="{}" width="{}" height="{}" stroke="none")", svg_number(left),
                                             svg_number(top + gap), svg_number(width), svg_number(bottom - top - gap));
    const std::string said =
        fmt::format("{}, {}: {} of {} ({:.3g} %)", one_line(chart_.bars->bars[bar]), one_line(chart_.bars->parts[part]),
                    short_number(value), short_number(total), 100 * (value / total));
    out_.open_series(style, part);
    out_.raw(fmt::format(R"(<rect class="pt" {} tabindex="{}"><title>{}</title></rect>)", geometry, is_first ? 0 : -1,
                         escape_xml(said)));
    if (const std::string hatch = hatch_fill(part); !hatch.empty())
      out_.raw(fmt::format(R"(<rect {} {} pointer-events="none"/>)", geometry, hatch));
    if (bottom - top > kMinLabelled && fits_part_labels(part, width))
      paint_part_label(style, value_label(value), {left + width / 2, (top + gap + bottom) / 2});
    out_.close();
    is_first = false;
  }
  if (has_total && total > 0 && y_->is_inside(total))
    out_.text({left + width / 2, y_of(total) - 5}, value_label(total),
              {.font_px = kSmallPx, .anchor = SvgWriter::Anchor::kMiddle, .is_bold = true, .has_halo = true});
}

}  // namespace lockstep::draw
