#include "core/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::core {
namespace {
template <typename T>
constexpr bool kIsList = std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::vector<int64_t>> ||
                         std::is_same_v<T, std::vector<double>>;
template <typename T>
constexpr bool kIsOptional = std::is_same_v<T, std::optional<int64_t>> || std::is_same_v<T, std::optional<double>> ||
                             std::is_same_v<T, std::optional<std::string>>;

std::string python_text(bool value) { return value ? "True" : "False"; }
std::string python_text(int64_t value) { return std::to_string(value); }
std::string python_text(double value) { return format_double(value); }
std::string python_text(const std::string& value) { return value; }

template <typename T> std::string list_text(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>)
      parts.push_back("'" + value + "'");
    else
      parts.push_back(python_text(value));
  }
  return "[" + join(parts, ", ") + "]";
}

/// "an integer", "a number", "a text" for the value, or for each value of a list.
std::string type_text(const Option& option) {
  return std::visit(
      [](const auto* field) -> std::string {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
        if constexpr (std::is_same_v<T, bool>) return "true or false";
        if constexpr (std::is_same_v<T, std::vector<int64_t>>) return "one or more integers";
        if constexpr (std::is_same_v<T, std::vector<double>>) return "one or more numbers";
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return "one or more values";
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>) return "an integer";
        if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>) return "a number";
        return "a text";
      },
      option.target);
}

std::string range_text(const OptionSpec& spec) {
  const auto number = [](double value) { return fmt::format("{}", value); };
  if (spec.min && spec.max)
    return fmt::format("{} {} and {} {}", spec.is_min_excluded ? ">" : ">=", number(*spec.min),
                       spec.is_max_excluded ? "<" : "<=", number(*spec.max));
  if (spec.min) return fmt::format("{} {}", spec.is_min_excluded ? ">" : ">=", number(*spec.min));
  if (spec.max) return fmt::format("{} {}", spec.is_max_excluded ? "<" : "<=", number(*spec.max));
  return "";
}
}  // namespace

std::string role_name(OptionRole role) {
  switch (role) {
    case OptionRole::kIdentity: return "identity";
    case OptionRole::kSchedule: return "schedule";
    case OptionRole::kSetup: return "setup";
    case OptionRole::kConfiguration: return "configuration";
    case OptionRole::kNoInfluence: return "no influence";
  }
  return "";
}

std::string Origin::text() const {
  switch (kind) {
    case Kind::kDefault: return "default";
    case Kind::kDerived: return "from " + file;
    case Kind::kFile: return fmt::format("{}:{}", file, line);
    case Kind::kCommandLine: return "command line";
  }
  return "";
}

std::string Option::value_text() const {
  return std::visit(
      [](const auto* field) -> std::string {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
        if constexpr (kIsList<T>)
          return list_text(*field);
        else if constexpr (kIsOptional<T>)
          return field->has_value() ? python_text(**field) : "None";
        else
          return python_text(*field);
      },
      target);
}

Json Option::value_json() const {
  return std::visit(
      [](const auto* field) -> Json {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
        if constexpr (kIsOptional<T>)
          return field->has_value() ? Json(**field) : Json(nullptr);
        else
          return Json(*field);
      },
      target);
}

std::string Option::expected_text() const {
  std::string text = spec.choices.empty() ? type_text(*this) : join_or(spec.choices);
  if (const std::string range = range_text(spec); !range.empty()) text += " " + range;
  if (!spec.unit.empty()) text += " (" + spec.unit + ")";
  return text;
}

std::string Option::metavar() const {
  if (is_flag()) return "";
  std::string text = spec.metavar;
  if (text.empty() && !spec.choices.empty()) text = "{" + join(spec.choices, ",") + "}";
  if (text.empty())
    text = std::visit(
        [](const auto* field) -> std::string {
          using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
          if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>> ||
                        std::is_same_v<T, std::vector<int64_t>>)
            return "N";
          if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>> ||
                        std::is_same_v<T, std::vector<double>>)
            return "X";
          return "TEXT";
        },
        target);
  return takes_list() ? text + "..." : text;
}

OptionSet::OptionSet(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {
  constexpr size_t kUsual = 64;  // to move an option takes a good part of the time of declaring it
  options_.reserve(kUsual);
}

void OptionSet::index_name(const std::string& name, size_t index) {
  const bool is_new = !foreign_.contains(name) && index_.emplace(name, index).second;
  LOCKSTEP_CHECK(is_new, "option --{} of '{}' is declared twice", name, command_);
}

void OptionSet::check_declaration(const Option& option) const {
  LOCKSTEP_CHECK(option.name.find('_') == std::string::npos, "option name '{}' must be written with '-'", option.name);
  LOCKSTEP_CHECK(!option.spec.help.empty(), "option '{}' has no help", option.name);
  LOCKSTEP_CHECK(option.spec.role || !requires_roles_, "option '{}' has no role", option.name);
  const auto* text = std::get_if<std::string*>(&option.target);
  if (text != nullptr && !option.spec.choices.empty()) {
    const bool is_legal = std::count(option.spec.choices.begin(), option.spec.choices.end(), **text) > 0;
    LOCKSTEP_CHECK(is_legal, "default '{}' of --{} is none of its choices", **text, option.name);
  }
}

void OptionSet::add(std::string name, Option::Target target, OptionSpec spec) {
  Option option{.name = std::move(name), .target = target, .spec = std::move(spec)};
  check_declaration(option);
  if (option.spec.group.empty()) option.spec.group = group_;
  const std::string value = option.value_text();
  const bool is_empty = value == "None" || value.empty() || value == "[]";
  option.default_text = is_empty ? (option.spec.unset_text.empty() ? "none" : option.spec.unset_text) : value;
  if (value == "\t") option.default_text = "tab";
  if (option.is_flag()) option.default_text = value == "True" ? "on" : "off";
  index_name(option.name, options_.size());
  for (const std::string& alias : option.spec.aliases) index_name(alias, options_.size());
  options_.push_back(std::move(option));
}

void OptionSet::add_positional(std::string name, Option::Target target, OptionSpec spec) {
  Option option{.name = std::move(name), .target = target, .spec = std::move(spec), .is_positional = true};
  check_declaration(option);
  LOCKSTEP_CHECK(
      std::holds_alternative<std::string*>(target) || std::holds_alternative<std::vector<std::string>*>(target),
      "argument {} must be a text or a list of texts", option.name);
  if (const std::string value = option.value_text(); value != "[]") option.default_text = value;
  for (const std::string& alias : option.spec.aliases) index_name(alias, options_.size());
  options_.push_back(std::move(option));
}

void OptionSet::add_config_option() {
  add("config", config_path_.get(),
      {.role = OptionRole::kIdentity,
       .help = "Recipe in TOML whose keys are flag names; flags on the command line win over it.",
       .metavar = "FILE"});
}

void OptionSet::add_foreign(std::string name, ForeignFlag flag) {
  const bool is_new = !index_.contains(name) && foreign_.emplace(name, std::move(flag)).second;
  LOCKSTEP_CHECK(is_new, "option --{} of '{}' is declared twice", name, command_);
}

void OptionSet::refuse(std::string name, std::string reason, std::string instead, std::vector<std::string> off) {
  add_foreign(std::move(name), {.reason = std::move(reason), .instead = std::move(instead), .off = std::move(off)});
}

void OptionSet::ignore(std::string name, std::string reason, bool takes_values) {
  add_foreign(std::move(name), {.reason = std::move(reason), .is_ignored = true, .takes_values = takes_values});
}

bool OptionSet::takes_value(std::string_view name) const {
  if (const Option* option = find(name)) return !option->is_flag();
  const auto foreign = foreign_.find(replace_all(std::string(name), "_", "-"));
  return foreign != foreign_.end() && foreign->second.takes_values;
}

std::string OptionSet::ignored_warning() const {
  if (ignored_.empty()) return "";
  return fmt::format("{} change{} nothing here; `lockstep config reference` says why", join(ignored_, ", "),
                     ignored_.size() == 1 ? "s" : "");
}

Option* OptionSet::find_mutable(std::string_view name) {
  const auto at = index_.find(replace_all(std::string(name), "_", "-"));
  return at == index_.end() ? nullptr : &options_[at->second];
}

const Option* OptionSet::find(std::string_view name) const { return const_cast<OptionSet*>(this)->find_mutable(name); }

bool OptionSet::is_given(std::string_view name) const {
  const Option* option = find(name);
  LOCKSTEP_CHECK(option != nullptr, "no option --{} in '{}'", name, command_);
  return option->origin.kind == Origin::Kind::kFile || option->origin.kind == Origin::Kind::kCommandLine;
}

void OptionSet::mark_derived(std::string_view name, std::string from_what) {
  Option* option = find_mutable(name);
  LOCKSTEP_CHECK(option != nullptr, "no option --{} in '{}'", name, command_);
  option->origin = {.kind = Origin::Kind::kDerived, .file = std::move(from_what)};
}

}  // namespace lockstep::core
