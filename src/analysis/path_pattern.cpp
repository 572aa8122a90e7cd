#include "analysis/path_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "core/characters.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {

using core::is_digit;

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
    return core::ends_with(text, word) &&
           (text.size() == word.size() || !is_letter(text[text.size() - word.size() - 1]));
  });
}

bool begins_with_word(std::string text, Words words) {
  text = core::to_lower_ascii(text);
  const size_t begin = text.find_first_not_of("_-");
  if (begin == std::string::npos) return false;
  text = text.substr(begin);
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return core::starts_with(text, word) && (text.size() == word.size() || !is_letter(text[word.size()]));
  });
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

/// A number in a path by what stands around it.
struct Place {
  std::string before{}, behind{};

  bool operator==(const Place&) const = default;
};

struct Match {
  size_t at = std::string::npos;  // npos: none
  std::string number{};
};

/// What an expression of this place finds first in a path.
Match first_match(const std::string& path, const Place& place) {
  for (size_t at = path.find(place.before); at != std::string::npos; at = path.find(place.before, at + 1)) {
    const size_t begin = at + place.before.size();
    size_t end = begin;
    while (end < path.size() && is_digit(path[end])) ++end;
    if (end > begin && path.compare(end, place.behind.size(), place.behind) == 0)
      return {at, path.substr(begin, end - begin)};
  }
  return {};
}

/// Paths that differ in their numbers only.
struct PathForm {
  std::vector<PartedPath> paths{};
  std::vector<std::string> texts{};
  std::vector<size_t> places{};  ///< Of each path among all.

  /// The one number beside a word and, of several paths, not the same in all; nothing where none or several are.
  std::optional<size_t> find_number(Words words) const {
    const std::vector<std::string>& around = paths.front().texts;
    std::optional<size_t> found;
    for (size_t place = 0; place + 1 < around.size(); ++place) {
      const std::string &before = around[place], &behind = around[place + 1];
      const bool is_of_next =
          place + 2 < around.size() && !is_letter(behind[0]) && ends_in_word(behind, words);  // "1_gpus4"
      if (!ends_in_word(before, words) && (is_of_next || !begins_with_word(behind, words))) continue;
      const bool is_same = std::all_of(paths.begin(), paths.end(), [&](const PartedPath& path) {
        return path.numbers[place] == paths.front().numbers[place];
      });
      if (is_same && paths.size() > 1) continue;
      if (found) return std::nullopt;
      found = place;
    }
    return found;
  }
};

/// The forms of paths, in the order of their first ones.
std::vector<PathForm> forms_of(const std::vector<std::filesystem::path>& paths) {
  std::vector<PathForm> forms;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string text = std::filesystem::absolute(paths[i]).lexically_normal().string();
    PartedPath parted = part_at_numbers(text);
    auto form = std::find_if(forms.begin(), forms.end(),
                             [&](const PathForm& one) { return one.paths.front().texts == parted.texts; });
    if (form == forms.end()) form = forms.insert(forms.end(), PathForm{});
    form->paths.push_back(std::move(parted));
    form->places.push_back(i);
    form->texts.push_back(text);
  }
  return forms;
}

/// Does an expression of all places find in this path the number that is meant?
bool finds(const std::vector<Place>& places, const std::string& path, const std::string& number) {
  Match first;
  for (const Place& place : places)
    if (const Match match = first_match(path, place); match.at < first.at) first = match;
  return first.number == number;
}

}  // namespace

std::optional<PathPattern> pattern_of_paths(const std::string& fact, const std::vector<std::filesystem::path>& paths) {
  constexpr size_t kMaxForms = 3;
  const std::vector<PathForm> forms = forms_of(paths);
  if (forms.size() > kMaxForms) return std::nullopt;
  std::vector<Place> places;
  std::vector<size_t> numbers;
  for (const PathForm& form : forms) {
    const auto number = form.find_number(words_for(fact));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    const std::vector<std::string>& around = form.paths.front().texts;
    const Place place{context_before(around[*number]), context_behind(around[*number + 1])};
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  std::set<int64_t> values;
  std::vector<int64_t> of_paths(paths.size());
  for (size_t form = 0; form < forms.size(); ++form)
    for (size_t i = 0; i < forms[form].paths.size(); ++i) {
      const std::string& number = forms[form].paths[i].numbers[numbers[form]];
      const auto value = core::parse_int(number);
      if (!value || *value < 1 || !finds(places, forms[form].texts[i], number)) return std::nullopt;
      values.insert(*value);
      of_paths[forms[form].places[i]] = *value;
    }
  if (values.size() < 2) return std::nullopt;
  std::vector<std::string> expressions;
  for (const Place& place : places)
    expressions.push_back(fmt::format("{}(?<{}>[0-9]+){}", place.before, fact, place.behind));
  return PathPattern{core::join(expressions, "|"), {values.begin(), values.end()}, std::move(of_paths)};
}

}  // namespace lockstep::analysis
