#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::draw {

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
  std::string hex() const;  ///< "#0072b2"
};

/// Contrast ratio of WCAG 2.1, 1 to 21.
double contrast(Rgb a, Rgb b);
/// Black or white, whichever can be read better on `fill` (4.5 : 1 at least on any colour).
Rgb text_on(Rgb fill);

/// Colours of one theme. Text (ink, muted) has 4.5 : 1 against both backgrounds; axis and every series colour 3 : 1
/// against `paper`. The grid only decorates.
struct Theme {
  Rgb paper, raised;  ///< Background of page and charts; of code, notes and table heads.
  Rgb ink, muted, link;
  Rgb axis, grid, region;
  Rgb note, warning;               ///< Edges of boxes.
  std::vector<Rgb> categorical{};  ///< After Okabe and Ito; those too pale for the background are darkened.
  std::vector<Rgb> sequential{};   ///< Samples of viridis that stand out from the background, low to high.
};
const Theme& light_theme();
const Theme& dark_theme();

/// How one series looks, in colour and without. `colour_class` names it in the page's style sheet ("s0", "q12", "ref").
struct SeriesStyle {
  std::string colour_class{};
  Rgb colour{};        ///< Of the light theme.
  std::string dash{};  ///< stroke-dasharray; empty: solid.
  int marker = 0;  ///< 0 circle, 1 square, 2 triangle, 3 diamond, 4 triangle downwards, 5 cross, 6 pentagon, 7 star.
};
inline constexpr int kNumMarkers = 8;
/// Style of series `index` of `count`.
SeriesStyle series_style(size_t index, size_t count, bool is_sequential);
/// Grey; each of the first three reference lines of a chart has a dash of its own.
SeriesStyle reference_style(size_t index);

}  // namespace lockstep::draw
