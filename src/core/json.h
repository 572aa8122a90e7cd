#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::core {

/// JSON value that keeps the order of its keys.
using Json = nlohmann::ordered_json;

/// Parses a whole text; an error throws DataError with `where`, line, column and what was expected. Duplicate keys and
/// nesting deeper than 200 levels are refused. Takes time linear in the text.
Json parse_json(std::string_view text, std::string_view where);
Json read_json_file(const std::filesystem::path& path);

/// The text under `key`; "" where `value` is no object or holds no text there.
std::string text_at(const Json& value, const char* key);

/// The integer that `value` is; nothing for values of other types and for those beyond int64, which the library's own
/// conversion wraps round.
std::optional<int64_t> integer_of(const Json& value);
/// The same of the value under `key`; nothing where `object` is none or lacks it.
std::optional<int64_t> integer_at(const Json& object, const char* key);

}  // namespace lockstep::core
