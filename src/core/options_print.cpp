#include <fmt/format.h>

#include <algorithm>

#include "core/options.h"
#include "core/strings.h"

namespace lockstep::core {
namespace {
constexpr size_t kTextColumn = 26;  // where the explanation begins in help

std::string flag_text(const Option& option) {
  if (option.is_positional) return option.metavar();
  std::string text;
  for (const std::string& alias : option.spec.aliases)
    if (alias.size() == 1) text += "-" + alias + ", ";
  text += "--" + option.name;
  return option.is_flag() ? text : text + " " + option.metavar();
}

/// "--log-interval, --print-freq": other long names; of an argument all flags that give it.
std::string other_names(const Option& option) {
  std::vector<std::string> names;
  for (const std::string& alias : option.spec.aliases)
    if (option.is_positional && alias.size() == 1) names.push_back("-" + alias);
  for (const std::string& alias : option.spec.aliases)
    if (alias.size() > 1) names.push_back("--" + alias);
  return join(names, ", ");
}

/// "(also --log-interval; steps; default 100)"; flags are off unless said otherwise.
std::string facts_text(const Option& option) {
  std::vector<std::string> facts;
  if (const std::string names = other_names(option); !names.empty()) facts.push_back("also " + names);
  if (option.is_positional) return facts.empty() ? "" : fmt::format(" ({})", facts.front());
  if (!option.spec.unit.empty()) facts.push_back(option.spec.unit);
  if (!option.is_flag() || option.default_text != "off") facts.push_back("default " + option.default_text);
  return facts.empty() ? "" : fmt::format(" ({})", fmt::join(facts, "; "));
}

std::vector<std::string> group_names(std::span<const Option> options) {
  std::vector<std::string> names;
  for (const Option& option : options)
    if (!option.is_positional && std::count(names.begin(), names.end(), option.spec.group) == 0)
      names.push_back(option.spec.group);
  return names;
}

std::string help_entry(const std::string& flag, const std::string& text, size_t width) {
  std::string entry = "  " + flag;
  const auto lines = wrap_text(text, width - kTextColumn);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool goes_beside = i == 0 && entry.size() + 2 <= kTextColumn;
    entry += goes_beside ? std::string(kTextColumn - entry.size(), ' ') : "\n" + std::string(kTextColumn, ' ');
    entry += lines[i];
  }
  return entry + "\n";
}

std::string snake_case(const std::string& name) { return replace_all(name, "-", "_"); }

/// "`0`, `''`"
std::string off_values(const std::vector<std::string>& off) {
  std::vector<std::string> values;
  for (const std::string& value : off) values.push_back(value.empty() ? "`''`" : "`" + value + "`");
  return join(values, ", ");
}

std::string list_item(const std::string& flag, const std::string& text) {
  return markdown_item(fmt::format("`--{}`: {}", flag, text));
}

std::string list_item(const Option& option, bool names_role) {
  std::vector<std::string> facts;
  if (!option.default_text.empty()) facts.push_back("default " + option.default_text);
  if (!option.spec.unit.empty()) facts.push_back(option.spec.unit);
  if (names_role) facts.push_back(role_name(*option.spec.role));
  std::string text = fmt::format("`{}`", flag_text(option));
  if (!facts.empty()) text += fmt::format(" ({})", join(facts, "; "));
  text += ": " + option.spec.help;
  if (!other_names(option).empty()) text += fmt::format(" Also `{}`.", replace_all(other_names(option), ", ", "`, `"));
  return markdown_item(text);
}
}  // namespace

std::string OptionSet::help_text(size_t width) const {
  std::string usage = "Usage: lockstep " + command_;
  bool has_flags = false;
  for (const Option& option : options_) {
    if (option.is_positional) usage += " " + option.metavar();
    has_flags = has_flags || !option.is_positional;
  }
  std::string text = usage + (has_flags ? " [FLAGS]\n\n" : "\n\n");
  for (const std::string& line : wrap_text(summary_, width)) text += line + "\n";
  std::string arguments;
  for (const Option& option : options_)
    if (option.is_positional) arguments += help_entry(option.metavar(), option.spec.help + facts_text(option), width);
  if (!arguments.empty()) text += "\n" + arguments;
  for (const std::string& group : group_names(options_)) {
    text += "\n" + group + "\n";
    for (const Option& option : options_)
      if (!option.is_positional && option.spec.group == group)
        text += help_entry(flag_text(option), option.spec.help + facts_text(option), width);
  }
  return text;
}

Json OptionSet::values_json() const {
  Json values = Json::object();
  for (const Option& option : options_) values[snake_case(option.name)] = option.value_json();
  return values;
}

std::string OptionSet::markdown() const {
  std::string text = fmt::format("## lockstep {}\n\n{}\n", command_, join(wrap_text(summary_, 118), "\n"));
  std::string arguments;
  for (const Option& option : options_)
    if (option.is_positional)
      arguments += markdown_item(fmt::format("`{}`: {}", option.metavar(), option.spec.help + facts_text(option)));
  if (!arguments.empty()) text += "\n" + arguments;
  for (const std::string& group : group_names(options_)) {
    text += fmt::format("\n### {}\n\n", group);
    for (const Option& option : options_)
      if (!option.is_positional && option.spec.group == group) text += list_item(option, requires_roles_);
  }
  std::string refused, ignored;
  for (const auto& [name, flag] : foreign_) {
    if (flag.is_ignored)
      ignored += list_item(name, flag.reason);
    else
      refused += list_item(name, fmt::format("{}. Instead: {}{}", flag.reason, flag.instead,
                                             flag.off.empty() ? "" : "; taken with " + off_values(flag.off)));
  }
  if (!ignored.empty())
    text += "\n### Known and without effect\n\nTaken, with one warning that names them.\n\n" + ignored;
  if (!refused.empty()) text += "\n### Known and refused\n\n" + refused;
  return text;
}

Json OptionSet::reference_json() const {
  Json reference = {{"command", command_},
                    {"summary", summary_},
                    {"options", Json::array()},
                    {"refused", Json::array()},
                    {"ignored", Json::array()}};
  for (const Option& option : options_) {
    Json entry = {{"name", option.name},
                  {"positional", option.is_positional},
                  {"group", option.spec.group},
                  {"takes", option.is_flag() ? "nothing" : option.expected_text()},
                  {"default", option.default_text},
                  {"unit", option.spec.unit},
                  {"help", option.spec.help},
                  {"aliases", option.spec.aliases},
                  {"choices", option.spec.choices}};
    if (option.spec.role) entry["role"] = role_name(*option.spec.role);
    if (option.spec.min) entry["min"] = *option.spec.min;
    if (option.spec.max) entry["max"] = *option.spec.max;
    reference["options"].push_back(std::move(entry));
  }
  for (const auto& [name, flag] : foreign_) {
    if (flag.is_ignored)
      reference["ignored"].push_back({{"name", name}, {"reason", flag.reason}});
    else
      reference["refused"].push_back(
          {{"name", name}, {"reason", flag.reason}, {"instead", flag.instead}, {"taken_with", flag.off}});
  }
  return reference;
}

}  // namespace lockstep::core
