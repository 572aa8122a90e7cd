#include "logs/option_dumps.h"

#include <algorithm>

#include "core/strings.h"

namespace lockstep::logs {
namespace {

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

void OptionDumps::begin() {
  // Where several ranks print their lists before the first measurement the last one counts.
  if (!dumps_.empty() && dumps_.back().num_lines == 0) dumps_.pop_back();
  dumps_.emplace_back();
}

void OptionDumps::add(std::string_view name, std::string_view value) {
  if (dumps_.empty()) dumps_.emplace_back();
  if (dumps_.back().num_lines > 0) return;
  dumps_.back().options[std::string(name)] = value;
}

std::map<std::string, std::string> OptionDumps::measured() const {
  const auto longest = std::max_element(dumps_.begin(), dumps_.end(),
                                        [](const Dump& a, const Dump& b) { return a.num_lines < b.num_lines; });
  return longest == dumps_.end() ? std::map<std::string, std::string>{} : longest->options;
}

std::optional<DumpedOption> read_colon_option(std::string_view line) {
  line = core::trim(line);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_name(line.substr(0, colon))) return std::nullopt;
  const std::string_view rest = line.substr(colon + 1);
  if (!rest.empty() && rest.front() != ' ') return std::nullopt;
  return DumpedOption{line.substr(0, colon), core::trim(rest)};
}

std::optional<DumpedOption> read_dotted_option(std::string_view line) {
  constexpr std::string_view kDots = " .";
  const size_t begin = line.find(kDots);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view before = core::trim(line.substr(0, begin));
  const std::string_view name = before.substr(before.find_last_of(" \t") + 1);  // behind the prefix of a logger
  const size_t end = std::min(line.find_first_not_of('.', begin + 1), line.size());
  if (!is_name(name) || (end < line.size() && line[end] != ' ')) return std::nullopt;
  return DumpedOption{name, core::trim(line.substr(end))};
}

}  // namespace lockstep::logs
