#include "core/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>

#include "core/characters.h"

namespace lockstep::core {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const auto at = text.find(separator, from);
    parts.emplace_back(text.substr(from, at == std::string_view::npos ? at : at - from));
    if (at == std::string_view::npos) return parts;
    from = at + separator.size();
  }
}

std::string to_lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  std::string out;
  size_t begin = 0;
  for (size_t at = 0; (at = text.find(from, begin)) != std::string::npos; begin = at + from.size()) {
    out.append(text, begin, at - begin);
    out += to;
  }
  if (begin == 0) return text;
  return out.append(text, begin);
}

std::string_view scheme_of(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '+')) ++end;
  return end > 1 && text.substr(end, 2) == ":/" ? text.substr(0, end) : std::string_view();
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

namespace {
template <typename Number> std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// Edits that make one text of the other, whose lengths differ by less than `limit`; `limit` where they are not fewer.
/// What is as far from the diagonal is not looked at.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  std::vector<size_t> row(b.size() + 1, limit);
  std::iota(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(std::min(limit, row.size())), size_t{0});
  for (size_t ia = 1; ia <= a.size(); ++ia) {
    const size_t first = ia >= limit ? ia - limit + 1 : 1, last = std::min(b.size(), ia + limit - 1);
    size_t diagonal = row[first - 1];
    size_t least = row[first - 1] = first == 1 ? ia : limit;
    for (size_t ib = first; ib <= last; ++ib) {
      const size_t substituted = diagonal + (a[ia - 1] != b[ib - 1]);
      diagonal = row[ib];
      row[ib] = std::min({row[ib] + 1, row[ib - 1] + 1, substituted});
      least = std::min(least, row[ib]);
    }
    if (least >= limit) return limit;
  }
  return std::min(row.back(), limit);
}

/// How many characters of other texts a text has as well, each as often as it has it: what takes as long as reading
/// them tells most names that are far from it.
class SharedCharacters {
 public:
  explicit SharedCharacters(std::string_view text) {
    for (const unsigned char c : text) ++left_[c];
  }
  size_t count(std::string_view other) {
    size_t num_shared = 0;
    for (const unsigned char c : other) num_shared += left_[c]-- > 0;
    for (const unsigned char c : other) ++left_[c];
    return num_shared;
  }

 private:
  std::array<int64_t, 256> left_{};
};
}  // namespace

std::optional<int64_t> parse_int(std::string_view text) { return parse_number<int64_t>(text); }
std::optional<double> parse_double(std::string_view text) { return parse_number<double>(text); }

std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names) {
  const std::string wanted = to_lower_ascii(typed);
  SharedCharacters shared(wanted);
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t longer = std::max(wanted.size(), name.size());
    if (longer - std::min(wanted.size(), name.size()) >= best_distance) continue;
    const std::string known = to_lower_ascii(name);
    if (longer - shared.count(known) >= best_distance) continue;  // each other character is an edit
    const size_t distance = edit_distance(wanted, known, best_distance);
    if (distance < best_distance) {
      best_distance = distance;
      best = &name;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string join_or(std::span<const std::string> parts) {
  if (parts.empty()) return "";
  if (parts.size() == 1) return parts[0];
  return fmt::format("{} or {}", fmt::join(parts.first(parts.size() - 1), ", "), parts.back());
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t ia = 0, ib = 0;
  while (ia < a.size() && ib < b.size()) {
    if (is_digit(a[ia]) && is_digit(b[ib])) {
      size_t end_a = ia, end_b = ib;
      while (end_a < a.size() && is_digit(a[end_a])) ++end_a;
      while (end_b < b.size() && is_digit(b[end_b])) ++end_b;
      auto digits_a = a.substr(ia, end_a - ia), digits_b = b.substr(ib, end_b - ib);
      while (digits_a.size() > 1 && digits_a[0] == '0') digits_a.remove_prefix(1);
      while (digits_b.size() > 1 && digits_b[0] == '0') digits_b.remove_prefix(1);
      if (digits_a.size() != digits_b.size()) return digits_a.size() < digits_b.size();
      if (digits_a != digits_b) return digits_a < digits_b;
      ia = end_a;
      ib = end_b;
    } else {
      if (a[ia] != b[ib]) return a[ia] < b[ib];
      ++ia, ++ib;
    }
  }
  return a.size() - ia < b.size() - ib;
}

std::vector<std::string> wrap_text(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string& word : split(text, " ")) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  lines.push_back(std::move(line));
  return lines;
}

std::string markdown_item(const std::string& text) {
  constexpr size_t kPageWidth = 118;
  return "- " + join(wrap_text(text, kPageWidth - 2), "\n  ") + "\n";
}

}  // namespace lockstep::core
