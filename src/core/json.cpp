#include "core/json.h"

#include <set>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::core {
namespace {

/// What the parser says, without its own code in brackets.
std::string plain_words(const Json::exception& error) {
  const std::string words = error.what();
  const size_t end = words.find("] ");
  return words.front() == '[' && end != std::string::npos ? words.substr(end + 2) : words;
}
}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > 200) throw DataError(fmt::format("json: '{}' is nested deeper than 200 levels", where));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && duplicate.empty())
      duplicate = value.get<std::string>();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    return true;
  };
  try {
    Json parsed = Json::parse(text, watch);
    if (!duplicate.empty())
      throw DataError(fmt::format("json: key '{}' occurs twice in one object of '{}'", duplicate, where));
    return parsed;
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("json: cannot parse '{}': {}", where, plain_words(error)));
  }
}

Json read_json_file(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

std::string text_at(const Json& value, const char* key) {
  if (!value.is_object()) return "";
  const auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace lockstep::core
