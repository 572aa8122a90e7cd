#include "report/analysis_path_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "core/strings.h"

namespace lockstep::report {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// Characters that mean themselves in an expression.
bool is_plain(char c) { return is_digit(c) || is_letter(c) || c == '_' || c == '-' || c == '=' || c == '/'; }

/// A path, parted at its numbers: texts[0] numbers[0] texts[1] ... texts[n].
struct PartedPath {
  std::vector<std::string> texts{}, numbers{};
};

PartedPath part_at_numbers(const std::string& path) {
  PartedPath parted{.texts = {""}, .numbers = {}};
  for (size_t at = 0; at < path.size(); ++at) {
    if (!is_digit(path[at])) {
      parted.texts.back() += path[at];
      continue;
    }
    if (at == 0 || !is_digit(path[at - 1])) {
      parted.numbers.emplace_back();
      parted.texts.emplace_back();
    }
    parted.numbers.back() += path[at];
  }
  return parted;
}

using Words = std::span<const std::string_view>;

Words words_for(const std::string& fact) {
  static constexpr std::array<std::string_view, 3> kNodes{"nodes", "node", "n"};
  static constexpr std::array<std::string_view, 7> kDevices{"devices", "device", "gpus", "gpu", "ranks", "dev", "g"};
  return fact == "nodes" ? Words(kNodes) : fact == "devices" ? Words(kDevices) : Words();
}

bool ends_in_word(std::string text, Words words) {
  text = core::to_lower_ascii(text);
  while (!text.empty() && (text.back() == '_' || text.back() == '-' || text.back() == '=')) text.pop_back();
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return core::ends_with(text, word) && (text.size() == word.size() || !is_letter(text[text.size() - word.size() - 1]));
  });
}

bool begins_with_word(std::string text, Words words) {
  text = core::to_lower_ascii(text);
  const size_t begin = text.find_first_not_of("_-");
  if (begin == std::string::npos) return false;
  text = text.substr(begin);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return core::starts_with(text, word) && (text.size() == word.size() || !is_letter(text[word.size()])); });
}

/// What stands before the number, from the start of its part of the path.
std::string context_before(const std::string& text) {
  size_t begin = text.size();
  while (begin > 0 && is_plain(text[begin - 1]) && text[begin - 1] != '/') --begin;
  if (begin == text.size() && begin > 0 && text[begin - 1] == '/') --begin;
  return text.substr(begin);
}

std::string context_behind(const std::string& text) {
  size_t end = 0;
  while (end < text.size() && is_plain(text[end]) && text[end] != '/') ++end;
  if (end == 0 && !text.empty() && text[0] == '/') ++end;
  return text.substr(0, end);
}

/// The number that the expression finds first in a path; "" where it finds none.
std::string first_match(const std::string& path, const std::string& before, const std::string& behind) {
  for (size_t at = path.find(before); at != std::string::npos; at = path.find(before, at + 1)) {
    size_t end = at + before.size();
    while (end < path.size() && is_digit(path[end])) ++end;
    const std::string number = path.substr(at + before.size(), end - at - before.size());
    if (!number.empty() && path.compare(end, behind.size(), behind) == 0) return number;
  }
  return "";
}

}  // namespace

std::optional<PathPattern> pattern_of_paths(const std::string& fact, const std::vector<std::filesystem::path>& paths) {
  const Words words = words_for(fact);
  std::vector<std::string> texts;
  std::vector<PartedPath> parted;
  for (const auto& path : paths) {
    texts.push_back(std::filesystem::absolute(path).lexically_normal().string());
    parted.push_back(part_at_numbers(texts.back()));
    if (parted.back().texts != parted.front().texts) return std::nullopt;
  }
  std::optional<PathPattern> pattern;
  for (size_t place = 0; !parted.empty() && place < parted.front().numbers.size(); ++place) {
    const std::string &before = parted.front().texts[place], &behind = parted.front().texts[place + 1];
    const bool is_of_next = place + 2 < parted.front().texts.size() && !is_letter(behind[0]) && ends_in_word(behind, words);  // "1_gpus4"
    if (!ends_in_word(before, words) && (is_of_next || !begins_with_word(behind, words))) continue;
    const std::string head = context_before(before), tail = context_behind(behind);
    std::set<int64_t> values;
    bool is_found = true;
    for (size_t i = 0; i < parted.size(); ++i) {
      const auto value = core::parse_int(parted[i].numbers[place]);
      is_found = is_found && value && *value > 0 && first_match(texts[i], head, tail) == parted[i].numbers[place];
      values.insert(value.value_or(0));
    }
    if (values.size() < 2) continue;
    if (!is_found || pattern) return std::nullopt;
    pattern = PathPattern{fmt::format("{}(?<{}>[0-9]+){}", head, fact, tail), {values.begin(), values.end()}};
  }
  return pattern;
}

}  // namespace lockstep::report
