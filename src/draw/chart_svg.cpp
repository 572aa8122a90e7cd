#include "draw/chart_svg.h"

#include <fmt/format.h>

#include "draw/chart_painter.h"
#include "draw/render.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {

std::string ChartPainter::paint() {
  const Theme& theme = light_theme();
  paint_lines(title_, {2, 2 + kTitlePx}, {.font_px = kTitlePx, .is_bold = true});
  paint_legend();
  if (chart_.bars) paint_hatches();
  if (x_) paint_regions();
  paint_axes();
  const bool is_empty =
      chart_.bars ? chart_.bars->bars.empty() || chart_.bars->parts.empty() : shown_values(false).empty();
  if (is_empty)
    out_.text({plot_.x + plot_.width / 2, plot_.y + plot_.height / 2}, "no data",
              {.font_px = kTitlePx, .anchor = SvgWriter::Anchor::kMiddle, .is_muted = true});
  else if (chart_.bars)
    paint_bars();
  else
    paint_series();
  paint_direct_labels();
  double height = height_;
  if (!notes_.empty()) {
    std::string all;
    for (const std::string& note : notes_) all += (all.empty() ? "" : " ") + note;
    const std::vector<std::string> lines = wrap_text(all, frame_.width - 4, kSmallPx);
    paint_lines(lines, {2, notes_top_ + kSmallPx}, {.font_px = kSmallPx, .is_muted = true});
    height = notes_top_ + static_cast<double>(lines.size()) * kSmallPx * kLineHeight + 4;
  }
  const std::string title = one_line(chart_.title).empty() ? "Chart" : one_line(chart_.title);
  const double margin = frame_.has_title ? 12 : 0;  // one that stands alone
  const std::string view = fmt::format("{0} {0} {1} {2}", svg_number(-margin), svg_number(frame_.width + 2 * margin),
                                       svg_number(height + 2 * margin));
  const std::string paper = fmt::format(R"(<rect x="{0}" y="{0}" width="100%" height="100%" fill="{1}"/>)",
                                        svg_number(-margin), theme.paper.hex());
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="{0}" role="img" aria-labelledby="{1}-t {1}-d" )"
      R"(font-family="Arial, Helvetica, 'Liberation Sans', sans-serif" font-size="12"><title id="{1}-t">{2}</title><desc id="{1}-d">{3}</desc>{4}{5}</svg>)",
      view, frame_.id, escape_xml(title), escape_xml(one_line(chart_.summary)), frame_.has_title ? paper : "",
      out_.str());
}

std::string draw_chart(const Chart& chart, const ChartFrame& frame) { return ChartPainter(chart, frame).paint(); }

std::string to_svg(const Chart& chart) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + draw_chart(chart, {.id = "chart"}) + "\n";
}

}  // namespace lockstep::draw
