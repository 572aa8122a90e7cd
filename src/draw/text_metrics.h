#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::draw {

/// Valid UTF-8 without control characters (line ends become '\n', tabs a space): broken or cut sequences become U+FFFD.
std::string clean_text(std::string_view text);
/// Code points of clean text.
std::vector<char32_t> code_points(std::string_view text);
/// Clean text with every run of line ends as one space.
std::string one_line(std::string_view text);
/// Clean text for XML and HTML, inside elements and quoted attributes.
std::string escape_xml(std::string_view text);
/// Columns that a terminal needs.
int terminal_columns(std::string_view text);

/// Width in pixels in a sans serif font with the advance widths of Helvetica (those of Arial and Liberation Sans), with
/// a margin of 4 % for others.
double text_width(std::string_view text, double font_px, bool is_bold = false);
/// Lines of at most `max_px`, broken at spaces and hard line ends; a word that is too long is broken anywhere. At least
/// one line.
std::vector<std::string> wrap_text(std::string_view text, double max_px, double font_px, bool is_bold = false);
/// The text, or its beginning and end with dots between them, at most `max_px` wide.
std::string shorten_text(std::string_view text, double max_px, double font_px);
/// Lines of at most so many terminal columns, broken likewise.
std::vector<std::string> wrap_columns(std::string_view text, int max_columns);

}  // namespace lockstep::draw
