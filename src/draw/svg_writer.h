#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "draw/label_placer.h"
#include "draw/palette.h"

namespace lockstep::draw {

inline constexpr double kTickPx = 12, kSmallPx = 11, kTitlePx = 15;
inline constexpr double kLineHeight = 1.3;  ///< Times the font size.

/// A coordinate with two decimals at most.
std::string svg_number(double value);

/// Builds SVG text. Everything carries colours of the light theme as attributes, so that it stands alone anywhere, and
/// classes by which a page may recolour it.
class SvgWriter {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };
  struct TextStyle {
    double font_px = kTickPx;
    Anchor anchor = Anchor::kStart;
    bool is_muted = false, is_bold = false;
    bool has_halo = false;      ///< A rim in the colour of the paper, for text over lines.
    bool is_vertical = false;   ///< Read from below; `at` is then the start of its base line.
    const Rgb* fill = nullptr;  ///< Instead of ink; with `fill_class`.
    std::string fill_class{};
  };

  void raw(std::string_view markup) { out_ += markup; }
  /// `at` is on the base line; the text is escaped here.
  void text(Point at, std::string_view content, const TextStyle& style);
  void line(Point from, Point to, std::string_view css_class, Rgb colour, double width, std::string_view dash = "");
  /// A group that gives its shapes the colour of a series; with `index` a page can hide it. Ends with close().
  void open_series(const SeriesStyle& style, std::optional<size_t> index = {});
  void close() { out_ += "</g>"; }
  void stroke_path(std::string_view path, double width, std::string_view dash);
  /// A marker about 9 pixels across around `at`, with a thin rim of the paper's colour. `attributes` go inside its tag
  /// and `content` inside the element.
  void marker(int shape, Point at, std::string_view css_class = "", std::string_view attributes = "",
              std::string_view content = "");
  const std::string& str() const { return out_; }

 private:
  std::string out_{};
};

}  // namespace lockstep::draw
