#include "draw/svg_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

/// A closed polygon with corners at `radius` (every second one at `inner` of it), the first at `turn` of a full circle
/// from the top.
std::string polygon(Point at, int corners, double radius, double inner, double turn) {
  std::string path;
  for (int corner = 0; corner < corners; ++corner) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(corner) / corners + turn) - std::numbers::pi / 2;
    const double reach = corner % 2 == 1 ? radius * inner : radius;
    path += fmt::format("{}{} {}", corner == 0 ? "M" : "L", svg_number(at.x + reach * std::cos(angle)),
                        svg_number(at.y + reach * std::sin(angle)));
  }
  return path + "Z";
}

std::string marker_path(int shape, Point at) {
  switch (shape) {
    case 1: return polygon(at, 4, 5.2, 1, 0.125);
    case 2: return polygon(at, 3, 5.6, 1, 0);
    case 3: return polygon(at, 4, 5.6, 1, 0);
    case 4: return polygon(at, 3, 5.6, 1, 0.5);
    case 5: return polygon(at, 8, 6.2, 0.42, 0.125);
    case 6: return polygon(at, 5, 5.2, 1, 0);
    default: return polygon(at, 10, 6.2, 0.45, 0);
  }
}

}  // namespace

std::string svg_number(double value) {
  const double rounded = std::round(value * 100) / 100;
  return fmt::format("{:.10g}", rounded == 0 ? 0.0 : rounded);
}

void SvgWriter::text(Point at, std::string_view content, const TextStyle& style) {
  const Theme& theme = light_theme();
  const char* anchor = style.anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                       : style.anchor == Anchor::kEnd  ? " text-anchor=\"end\""
                                                       : "";
  const std::string turned =
      style.is_vertical ? fmt::format(" transform=\"rotate(-90 {} {})\"", svg_number(at.x), svg_number(at.y)) : "";
  const Rgb fill = style.fill != nullptr ? *style.fill : style.is_muted ? theme.muted : theme.ink;
  const std::string css_class = style.fill != nullptr ? style.fill_class : style.is_muted ? "muted" : "ink";
  const std::string halo =
      style.has_halo ? fmt::format(" paint-order=\"stroke\" stroke=\"{}\" stroke-width=\"3\" stroke-linejoin=\"round\"",
                                   theme.paper.hex())
                     : "";
  out_ +=
      fmt::format(R"(<text class="{}{}" x="{}" y="{}" font-size="{}"{}{} fill="{}"{}{}>{}</text>)", css_class,
                  style.has_halo ? " halo" : "", svg_number(at.x), svg_number(at.y), svg_number(style.font_px), anchor,
                  style.is_bold ? " font-weight=\"600\"" : "", fill.hex(), halo, turned, escape_xml(content));
}

void SvgWriter::line(Point from, Point to, std::string_view css_class, Rgb colour, double width,
                     std::string_view dash) {
  out_ +=
      fmt::format(R"(<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="{}"{}/>)", css_class,
                  svg_number(from.x), svg_number(from.y), svg_number(to.x), svg_number(to.y), colour.hex(),
                  svg_number(width), dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

void SvgWriter::open_series(const SeriesStyle& style, std::optional<size_t> index) {
  out_ += fmt::format(R"(<g class="series {0}" stroke="{1}" fill="{1}"{2}>)", style.colour_class, style.colour.hex(),
                      index ? fmt::format(" data-series=\"{}\"", *index) : "");
}

void SvgWriter::stroke_path(std::string_view path, double width, std::string_view dash) {
  out_ += fmt::format(R"(<path d="{}" fill="none" stroke-width="{}" stroke-linejoin="round"{}/>)", path,
                      svg_number(width), dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

void SvgWriter::marker(int shape, Point at, std::string_view css_class, std::string_view attributes,
                       std::string_view content) {
  const bool is_circle = shape == 0;
  const std::string geometry = is_circle ? fmt::format(R"(cx="{}" cy="{}" r="4.5")", svg_number(at.x), svg_number(at.y))
                                         : fmt::format(R"(d="{}")", marker_path(shape, at));
  const char* tag = is_circle ? "circle" : "path";
  out_ += fmt::format(R"(<{} class="rim{}" {} stroke="{}" stroke-width="1"{}>{}</{}>)", tag, css_class, geometry,
                      light_theme().paper.hex(), attributes, content, tag);
}

}  // namespace lockstep::draw
