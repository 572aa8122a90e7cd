#include "logs/line.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/characters.h"
#include "core/strings.h"

namespace lockstep::logs {
namespace {

using core::is_digit;

/// Takes out colour codes and other control characters: ESC [ ... letter, and ESC ] ... BEL.
void append_visible(std::string_view raw, std::string& out) {
  constexpr char kEscape = '\x1b', kBell = '\x07';
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; };
  if (std::none_of(raw.begin(), raw.end(), is_control)) {
    out += raw;
    return;
  }
  for (size_t at = 0; at < raw.size(); ++at) {
    const char c = raw[at];
    if (c == kEscape && at + 1 < raw.size() && raw[at + 1] == '[') {
      at += 2;
      while (at < raw.size() && !(raw[at] >= '@' && raw[at] <= '~')) ++at;
    } else if (c == kEscape && at + 1 < raw.size() && raw[at + 1] == ']') {
      while (at < raw.size() && raw[at] != kBell) ++at;
    } else if (!is_control(c)) {
      out += c;
    }
  }
}

/// Length of "<opener>digits<closer>" at the start of `text`, its number in `rank`; 0 when it is something else.
size_t match_rank(std::string_view text, std::string_view opener, std::string_view closer, std::optional<int>& rank) {
  if (!core::starts_with(text, opener)) return 0;
  size_t end = opener.size();
  while (end < text.size() && is_digit(text[end])) ++end;
  constexpr size_t kMaxDigits = 7;
  if (end == opener.size() || end - opener.size() > kMaxDigits || !core::starts_with(text.substr(end), closer))
    return 0;
  rank = static_cast<int>(*core::parse_int(text.substr(opener.size(), end - opener.size())));
  return end + closer.size();
}

std::string_view strip_rank(std::string_view text, std::optional<int>& rank) {
  struct Shape {
    std::string_view opener, closer;
  };
  static constexpr Shape kShapes[] = {{"[rank", "]:"},       {"[rank", "]"},  {"rank", ":"},      {"rank ", ":"},
                                      {"Rank ", ":"},        {"[Rank ", "]"}, {"[default", "]:"}, {"[1,", "]<stdout>:"},
                                      {"[1,", "]<stderr>:"}, {"", ": "}};
  for (bool is_stripped = true; is_stripped;) {
    is_stripped = false;
    text = core::trim(text);
    for (const Shape& shape : kShapes) {
      const size_t length = match_rank(text, shape.opener, shape.closer, rank);
      if (length == 0) continue;
      text.remove_prefix(length);
      is_stripped = true;
      break;
    }
  }
  return text;
}

/// End of the number at `begin`: sign, digits with thousands separators, fraction, exponent.
size_t number_end(std::string_view text, size_t begin, bool& has_separators) {
  size_t at = begin;
  has_separators = false;
  if (at < text.size() && text[at] == '-') ++at;
  const size_t first = at;
  size_t in_group = 0;
  for (; at < text.size(); ++at) {
    if (is_digit(text[at])) {
      ++in_group;
      continue;
    }
    const bool is_group_end = has_separators ? in_group == 3 : in_group >= 1 && in_group <= 3;
    if (text[at] != ',' || !is_group_end) break;
    size_t digits = 0;
    while (at + 1 + digits < text.size() && is_digit(text[at + 1 + digits])) ++digits;
    if (digits != 3) break;
    has_separators = true;
    in_group = 0;
  }
  if (at == first && !(at < text.size() && text[at] == '.')) return begin;
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
  }
  if (at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t exponent = at + 1;
    if (text[exponent] == '+' || text[exponent] == '-') ++exponent;
    if (exponent < text.size() && is_digit(text[exponent])) {
      while (exponent < text.size() && is_digit(text[exponent])) ++exponent;
      at = exponent;
    }
  }
  return at;
}

std::string_view skip_space(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

/// Digits of fixed width, or -1.
int digits_at(std::string_view text, size_t at, size_t count) {
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (at + i >= text.size() || !is_digit(text[at + i])) return -1;
    value = value * 10 + (text[at + i] - '0');
  }
  return value;
}

constexpr size_t kStampLength = 19;  // 2026-01-31 12:34:56

std::optional<double> stamp_at(std::string_view text) {
  if (text.size() < kStampLength || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  if (text[10] != ' ' && text[10] != ',' && text[10] != 'T') return std::nullopt;
  const int year = digits_at(text, 0, 4), month = digits_at(text, 5, 2), day = digits_at(text, 8, 2);
  const int hour = digits_at(text, 11, 2), minute = digits_at(text, 14, 2), second = digits_at(text, 17, 2);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1970 || month < 0 || day < 0 || !date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      second < 0 || second > 60)
    return std::nullopt;
  double seconds = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400.0 +
                   hour * 3600.0 + minute * 60.0 + second;
  double scale = 0.1;
  if (text.size() > kStampLength && (text[kStampLength] == '.' || text[kStampLength] == ','))
    for (size_t at = kStampLength + 1; at < text.size() && is_digit(text[at]); ++at, scale /= 10)
      seconds += scale * (text[at] - '0');
  return seconds;
}

}  // namespace

LogLine clean_line(std::string_view raw, std::string& buffer) {
  buffer.clear();
  append_visible(raw, buffer);
  LogLine line;
  line.text = core::trim(strip_rank(buffer, line.rank));
  line.time_s = read_time_stamp(line.text);
  return line;
}

std::optional<double> read_number(std::string_view text, std::string_view* rest) {
  text = skip_space(text);
  bool has_separators = false;
  const size_t end = number_end(text, 0, has_separators);
  if (end == 0) return std::nullopt;
  std::string digits(text.substr(0, end));
  if (has_separators) digits = core::replace_all(std::move(digits), ",", "");
  const auto number = core::parse_double(digits);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  if (rest != nullptr) *rest = text.substr(end);
  return number;
}

std::optional<double> number_after(std::string_view line, std::string_view key, std::string_view* rest) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view value = skip_space(line.substr(at + key.size()));
  if (!value.empty() && (value.front() == '=' || value.front() == ':')) value = skip_space(value.substr(1));
  return read_number(value, rest);
}

std::optional<int64_t> count_after(std::string_view line, std::string_view key, std::string_view* rest) {
  const auto number = number_after(line, key, rest);
  constexpr double kMaxCount = 9e15;  // below 2^53
  if (!number || *number < 0 || *number > kMaxCount || *number != std::floor(*number)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<double> ms_after(std::string_view line, std::string_view key, double default_ms, double* found_unit_ms) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  double unit_ms = default_ms;
  std::string_view value = skip_space(line.substr(at + key.size()));
  struct Unit {
    std::string_view text;
    double ms;
  };
  static constexpr Unit kKeyUnits[] = {{"(ms)", 1}, {"(s)", kMsPerSecond}, {"in ms", 1}, {"in s", kMsPerSecond},
                                       {"[ms]", 1}, {"[s]", kMsPerSecond}};
  for (const Unit& unit : kKeyUnits) {
    if (!core::starts_with(value, unit.text)) continue;
    unit_ms = unit.ms;
    value = skip_space(value.substr(unit.text.size()));
    break;
  }
  if (!value.empty() && (value.front() == '=' || value.front() == ':')) value = value.substr(1);
  std::string_view rest;
  const auto number = read_number(value, &rest);
  if (!number || *number < 0) return std::nullopt;
  rest = skip_space(rest);
  const auto has_unit = [&](std::string_view unit) {
    return core::starts_with(rest, unit) &&
           (rest.size() == unit.size() || !std::isalnum(static_cast<unsigned char>(rest[unit.size()])));
  };
  if (has_unit("ms"))
    unit_ms = 1;
  else if (has_unit("s") || has_unit("sec") || has_unit("seconds"))
    unit_ms = kMsPerSecond;
  if (found_unit_ms != nullptr) *found_unit_ms = unit_ms;
  return *number * unit_ms;
}

std::optional<double> read_time_stamp(std::string_view line) {
  constexpr size_t kSearched = 48;  // behind "[titan] " and the like
  for (size_t at = 0; at + kStampLength <= line.size() && at < kSearched; ++at)
    if (line[at] == '1' || line[at] == '2')
      if (const auto stamp = stamp_at(line.substr(at))) return stamp;
  return std::nullopt;
}

std::string_view behind_time_stamp(std::string_view line) {
  if (!stamp_at(line)) return line;
  const size_t end = line.find_first_of(" \t", kStampLength);
  return end == std::string_view::npos ? line : skip_space(line.substr(end));
}

std::optional<std::string_view> option_in_dump(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == std::string_view::npos || (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t')) return std::nullopt;
  std::string_view rest = line.substr(at + name.size());
  if (rest.empty() || (rest.front() != ':' && rest.front() != ' ')) return std::nullopt;
  const size_t dots_end = rest.find_first_not_of('.', 1);
  const bool has_dots = dots_end > 1 && (dots_end == std::string_view::npos || rest[dots_end] == ' ');
  if (!has_dots && rest.front() != ':') return std::nullopt;
  while (!rest.empty() && (rest.front() == '.' || rest.front() == ' ' || rest.front() == ':')) rest.remove_prefix(1);
  return core::trim(rest);
}

}  // namespace lockstep::logs
