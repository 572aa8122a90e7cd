#include "config/json_section.h"

#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {

using core::Json;

namespace {

std::string brief(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

JsonSection::JsonSection(const Json& object, std::string where, std::string label, const JsonFormat& format)
    : object_(object), where_(std::move(where)), label_(std::move(label)), format_(format) {
  if (!object.is_object()) fail("", "an object", object);
}

const Json* JsonSection::find(const std::string& key) {
  known_.insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonSection::is_null(const std::string& key) const {
  const auto it = object_.find(key);
  return it != object_.end() && it->is_null();
}

void JsonSection::read(const std::string& key, int64_t& value) {
  if (const Json* found = find(key)) value = integer(key, *found);
}

int64_t JsonSection::integer(const std::string& key, const Json& found) const {
  constexpr int64_t kMost = 1'000'000'000'000;
  const auto number = core::integer_of(found);
  if (!found.is_number_integer()) fail(key, "an integer", found);
  if (!number || *number > kMost || *number < -kMost) fail(key, "an integer of at most 10^12", found);
  return *number;
}

void JsonSection::read(const std::string& key, double& value) {
  if (const Json* found = find(key)) {
    if (!found->is_number()) fail(key, "a number", *found);
    value = found->get<double>();
  }
}

void JsonSection::read(const std::string& key, std::optional<double>& value) {
  double number = 0.0;
  read(key, number);
  if (find(key) != nullptr) value = number;
}

void JsonSection::read(const std::string& key, bool& value) {
  if (const Json* found = find(key)) {
    if (!found->is_boolean()) fail(key, "true or false", *found);
    value = found->get<bool>();
  }
}

void JsonSection::read(const std::string& key, std::string& value) {
  if (const Json* found = find(key)) {
    if (!found->is_string()) fail(key, "a text", *found);
    value = found->get<std::string>();
  }
}

void JsonSection::only(const std::string& key, const Json& default_value, std::string_view reason) {
  const Json* found = find(key);
  if (found == nullptr || *found == default_value) return;
  if (found->is_object() && found->empty()) return;
  throw UsageError(fmt::format("{}: '{}': {} is {}, which is not supported: {}", format_.kind, where_, path(key),
                               brief(*found), reason),
                   default_value.is_null() ? "remove the key"
                                           : fmt::format("remove the key, or set it to {}", default_value.dump()));
}

void JsonSection::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (known_.contains(key)) continue;
    const std::vector<std::string> names(known_.begin(), known_.end());
    const auto nearest = core::nearest_name(key, names);
    throw UsageError(fmt::format("{}: '{}': unknown key {}", format_.kind, where_, path(key)),
                     nearest ? fmt::format("did you mean '{}'?", *nearest) : std::string(format_.unknown_key_hint));
  }
}

void JsonSection::fail(const std::string& key, std::string_view expected, const Json& seen,
                       const std::string& hint) const {
  throw UsageError(
      fmt::format("{}: '{}': {} must be {}, found {}", format_.kind, where_, path(key), expected, brief(seen)), hint);
}

std::string JsonSection::path(const std::string& key) const {
  if (key.empty()) return label_.empty() ? "the configuration" : fmt::format("'{}'", label_);
  return label_.empty() ? fmt::format("'{}'", key) : fmt::format("'{}.{}'", label_, key);
}

}  // namespace lockstep::config
