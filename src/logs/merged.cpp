#include "logs/merged.h"

#include <algorithm>

#include "core/strings.h"

namespace lockstep::logs {
namespace {

size_t count_of(std::string_view line, std::string_view text) {
  size_t count = 0;
  for (size_t at = line.find(text); at != std::string_view::npos; at = line.find(text, at + text.size())) ++count;
  return count;
}

/// Every key once and in order, the last value closed.
bool is_whole(const LineShape& shape, std::string_view measurement) {
  size_t behind = 0;
  for (const std::string_view key : shape.keys) {
    const size_t at = measurement.find(key, behind);
    if (at == std::string_view::npos || count_of(measurement, key) != 1) return false;
    behind = at + key.size();
  }
  return measurement.find(shape.end, behind) != std::string_view::npos;
}

}  // namespace

std::optional<MergedLine> take_merged_apart(const LineShape& shape, std::string_view line) {
  if (std::none_of(shape.keys.begin(), shape.keys.end(), [&](std::string_view key) { return count_of(line, key) > 1; }))
    return std::nullopt;
  MergedLine merged{.has_rest = true};
  if (shape.begin.empty()) return merged;
  for (size_t from = line.find(shape.begin); from != std::string_view::npos;) {
    const size_t next = line.find(shape.begin, from + shape.begin.size());
    const std::string_view measurement = line.substr(from, next == std::string_view::npos ? next : next - from);
    if (!is_whole(shape, measurement)) return merged;
    merged.whole.push_back(measurement);
    from = next;
  }
  merged.has_rest = merged.whole.empty();
  return merged;
}

bool is_number_closed(std::string_view line, std::string_view key, std::initializer_list<std::string_view> ends) {
  std::string_view rest;
  if (!number_after(line, key, &rest)) return true;
  rest = core::trim(rest);
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return end.empty() ? rest.empty() : core::starts_with(rest, end); });
}

bool are_numbers_closed(std::string_view line, std::initializer_list<std::string_view> keys,
                        std::initializer_list<std::string_view> ends) {
  return std::all_of(keys.begin(), keys.end(), [&](std::string_view key) { return is_number_closed(line, key, ends); });
}

bool is_fragment(const LineShape& shape, std::string_view line) {
  constexpr size_t kSurely = 2;
  return static_cast<size_t>(std::count_if(shape.keys.begin(), shape.keys.end(), [&](std::string_view key) {
           return line.find(key) != std::string_view::npos;
         })) >= kSurely;
}

}  // namespace lockstep::logs
