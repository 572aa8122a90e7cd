#include "draw/text_metrics.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/strings.h"

namespace lockstep::draw {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// Advance widths of Helvetica for ASCII 32 to 126, in thousandths of the font size.
constexpr std::array<int, 95> kHelvetica = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};

/// Takes one code point off the front; a broken sequence costs one byte and gives U+FFFD.
char32_t take_code_point(std::string_view& text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  char32_t point = length == 1 ? first : length == 0 ? kReplacement : first & (0xFFu >> (length + 1));
  bool is_good = length > 0 && length <= text.size();
  for (size_t at = 1; is_good && at < length; ++at) {
    is_good = (byte(at) & 0xC0) == 0x80;
    point = (point << 6) | (byte(at) & 0x3Fu);
  }
  is_good = is_good && !(length == 3 && point < 0x800) && !(length == 4 && (point < 0x10000 || point > 0x10FFFF));
  is_good = is_good && !(point >= 0xD800 && point < 0xE000) && point != 0xFFFE && point != 0xFFFF;
  text.remove_prefix(is_good ? length : 1);
  return is_good ? point : kReplacement;
}

void append_utf8(std::string& text, char32_t point) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xC0 | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xE0 | (point >> 12));
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | (point >> 18));
    tail(12), tail(6), tail(0);
  }
}

bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x202A && point <= 0x202E);
}
bool is_combining(char32_t point) {
  return (point >= 0x300 && point < 0x370) || (point >= 0x200B && point < 0x2010) || point == 0xFE0F;
}
bool is_wide(char32_t point) {
  return (point >= 0x1100 && point < 0x1160) || (point >= 0x2E80 && point < 0xA4D0) ||
         (point >= 0xAC00 && point < 0xD7A4) || (point >= 0xF900 && point < 0xFB00) ||
         (point >= 0xFE30 && point < 0xFE70) || (point >= 0xFF00 && point < 0xFF61) ||
         (point >= 0x1F300 && point < 0x1FB00) || point >= 0x20000;
}

double advance(char32_t point) {
  if (point >= 32 && point < 127) return kHelvetica[point - 32];
  if (is_combining(point)) return 0;
  return is_wide(point) ? 1040 : point < 0x250 ? 600 : 800;
}

using Measure = std::function<double(std::string_view)>;

/// Splits one word into pieces of at most `max`: behind a sign that parts names ("runs/", "max_"), else anywhere.
std::vector<std::string> break_word(std::string_view word, double max, const Measure& measure) {
  std::vector<std::string> pieces(1);
  for (const char32_t point : code_points(word)) {
    std::string longer = pieces.back();
    append_utf8(longer, point);
    if (pieces.back().empty() || measure(longer) <= max) {
      pieces.back() = longer;
      continue;
    }
    const size_t sign = pieces.back().find_last_of("/_-,;=)");
    const bool has_sign = sign != std::string::npos && sign + 1 < pieces.back().size() && sign > 0;
    std::string rest = has_sign ? pieces.back().substr(sign + 1) : "";
    if (has_sign) pieces.back().resize(sign + 1);
    append_utf8(rest, point);
    pieces.push_back(std::move(rest));
  }
  return pieces;
}

std::vector<std::string> wrap(std::string_view text, double max, const Measure& measure) {
  std::vector<std::string> lines;
  for (const std::string& hard_line : core::split(clean_text(text), "\n")) {
    std::string line;
    for (const std::string& word : core::split(hard_line, " ")) {
      if (word.empty()) continue;
      const std::string longer = line.empty() ? word : line + " " + word;
      if (measure(longer) <= max) {
        line = longer;
        continue;
      }
      if (!line.empty()) lines.push_back(line);
      std::vector<std::string> pieces = break_word(word, max, measure);
      line = pieces.back();
      pieces.pop_back();
      lines.insert(lines.end(), pieces.begin(), pieces.end());
    }
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with("\r\n")) text.remove_prefix(1);
    const char32_t point = take_code_point(text);
    if (point == '\n' || point == '\r')
      clean += '\n';
    else if (point == '\t')
      clean += ' ';
    else
      append_utf8(clean, is_control(point) ? kReplacement : point);
  }
  return clean;
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  while (!text.empty()) points.push_back(take_code_point(text));
  return points;
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const std::string& part : core::split(clean_text(text), "\n"))
    if (const std::string_view piece = core::trim(part); !piece.empty())
      line += (line.empty() ? "" : " ") + std::string(piece);
  return line;
}

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : clean_text(text)) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += c;
  }
  return escaped;
}

int terminal_columns(std::string_view text) {
  int columns = 0;
  for (const char32_t point : code_points(text)) columns += is_combining(point) ? 0 : is_wide(point) ? 2 : 1;
  return columns;
}

double text_width(std::string_view text, double font_px, bool is_bold) {
  constexpr double kOtherFonts = 1.04, kBold = 1.08;
  double width = 0;
  for (const char32_t point : code_points(text)) width += advance(point);
  return width / 1000 * font_px * kOtherFonts * (is_bold ? kBold : 1);
}

std::vector<std::string> wrap_text(std::string_view text, double max_px, double font_px, bool is_bold) {
  return wrap(text, max_px, [=](std::string_view line) { return text_width(line, font_px, is_bold); });
}

std::string shorten_text(std::string_view text, double max_px, double font_px) {
  if (text_width(text, font_px) <= max_px) return std::string(text);
  const std::vector<char32_t> points = code_points(text);
  for (size_t kept = points.size() - 1; kept > 0; --kept) {  // of them the larger half from the beginning
    std::string shortened;
    for (size_t index = 0; index < (kept + 1) / 2; ++index) append_utf8(shortened, points[index]);
    shortened += "...";
    for (size_t index = points.size() - kept / 2; index < points.size(); ++index) append_utf8(shortened, points[index]);
    if (text_width(shortened, font_px) <= max_px) return shortened;
  }
  return "...";
}

std::vector<std::string> wrap_columns(std::string_view text, int max_columns) {
  return wrap(text, max_columns, [](std::string_view line) { return terminal_columns(line); });
}

}  // namespace lockstep::draw
