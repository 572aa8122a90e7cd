#include "sweep/point_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace {
constexpr size_t kMaxTextBytes = 64 << 10;

bool is_plain_name(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}
}  // namespace

std::string formula_name(const std::string& key) { return core::replace_all(key, "-", "_"); }

void PointScope::set_coordinate(const std::string& key, Scalar value) {
  coordinates_[formula_name(key)] = std::move(value);
  resolved_.clear();
}

void PointScope::set_settings(std::vector<Setting> settings) {
  settings_ = std::move(settings);
  resolved_.clear();
}

std::string PointScope::where(const Setting& setting) const {
  return fmt::format("{}:{}: '{}'", file_.path, setting.line, setting.key);
}

bool PointScope::is_formula_option(const std::string& key) const {
  const core::Option* option = options_.find(key);
  if (option == nullptr) return false;
  return !std::holds_alternative<std::string*>(option->target) &&
         !std::holds_alternative<std::optional<std::string>*>(option->target) &&
         !std::holds_alternative<std::vector<std::string>*>(option->target);
}

std::optional<Scalar> PointScope::look_up_coordinate(const std::string& name) const {
  if (const auto found = coordinates_.find(name); found != coordinates_.end()) return found->second;
  if (const auto text = variables_(name)) return scalar_from_text(*text);
  return std::nullopt;
}

std::optional<Scalar> PointScope::look_up_setting(const std::string& name) const {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [&](const Setting& setting) { return formula_name(setting.key) == name; });
  if (found == settings_.end() || found->is_list) return std::nullopt;
  if (const auto known = resolved_.find(name); known != resolved_.end()) return known->second;
  if (!in_progress_.insert(name).second)
    throw UsageError(fmt::format("sweep: {} refers to itself", where(*found)),
                     "break the circle: give one of the settings a number");
  const Scalar value = values_of(*found, is_formula_option(found->key)).front();
  in_progress_.erase(name);
  resolved_.emplace(name, value);
  return value;
}

std::optional<Scalar> PointScope::look_up(const std::string& name) const {
  if (const auto found = coordinates_.find(name); found != coordinates_.end()) return found->second;
  if (auto value = look_up_setting(name)) return value;
  return look_up_coordinate(name);
}

bool PointScope::holds(const WhenBlock& block) const {
  const auto condition = Expression::parse(block.condition, fmt::format("{}:{}", file_.path, block.line));
  return condition.is_true([this](const std::string& name) { return look_up_coordinate(name); });
}

std::vector<Scalar> PointScope::values_of(const Setting& setting, bool is_number) const {
  const NameLookup names = [this](const std::string& name) { return look_up(name); };
  const auto inserted_value = [&](const std::string& inside) -> Scalar {
    const bool is_name = is_plain_name(inside);
    if (is_name && !coordinates_.contains(inside) && !look_up_setting(inside))
      return variable_text(inside, where(setting), variables_);
    return Expression::parse(inside, where(setting)).evaluate(names);
  };
  std::vector<Scalar> values;
  for (const Scalar& value : setting.values) {
    const auto* text = std::get_if<std::string>(&value);
    const bool is_none = text != nullptr && *text == "none";
    if (text == nullptr || is_none) {
      values.push_back(value);
      continue;
    }
    const std::string inserted = substitute(*text, where(setting), inserted_value);
    if (is_number)
      values.push_back(Expression::parse(inserted, where(setting)).evaluate(names));
    else
      values.emplace_back(inserted);
  }
  return values;
}

double PointScope::number_of(const Setting& setting) const {
  const auto values = values_of(setting, true);
  const auto* number = std::get_if<double>(&values[0]);
  if (setting.is_list || number == nullptr)
    throw UsageError(
        fmt::format("sweep: {} is '{}', expected a number or a formula", where(setting), to_text(values[0])),
        "for example 4, or \"nodes * 2\"");
  return *number;
}

std::string PointScope::text_of(const Setting& setting) const {
  if (setting.is_list)
    throw UsageError(fmt::format("sweep: {} is a list, expected one value", where(setting)),
                     "docs/sweep.md says which keys take lists");
  return to_text(values_of(setting, false)[0]);
}

std::string variable_text(const std::string& name, const std::string& where, const VariableLookup& variables) {
  if (auto text = variables(name)) return *std::move(text);
  throw UsageError(fmt::format("sweep: {}: ${{{}}} is not set", where, name),
                   fmt::format("give --set {}=VALUE, export it, or put it under [variables]", name));
}

std::string substitute(const std::string& text, const std::string& where,
                       const std::function<Scalar(const std::string& inside)>& value_of) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const bool is_dollar = text[at] == '$' && at + 1 < text.size();
    if (is_dollar && text[at + 1] == '$') {
      result += '$';
      at += 2;
    } else if (is_dollar && text[at + 1] == '{') {
      const size_t end = text.find('}', at);
      if (end == std::string::npos)
        throw UsageError(
            fmt::format("sweep: {}: column {} of '{}': the brace of '${{' is not closed", where, at + 1, text),
            "write ${NAME}, or $$ for a dollar sign");
      result += to_text(value_of(text.substr(at + 2, end - at - 2)));
      at = end + 1;
    } else {
      result += text[at++];
    }
    if (result.size() > kMaxTextBytes)
      throw UsageError(fmt::format("sweep: {}: the values inserted make more than {} bytes", where, kMaxTextBytes),
                       "settings that insert each other several times double with each step");
  }
  return result;
}

}  // namespace lockstep::sweep
