#include "data/text/class_names.h"

#include <algorithm>

#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kPlace = "{}";

[[noreturn]] void refuse(const std::filesystem::path& path, size_t line, const std::string& what,
                         const std::string& hint) {
  throw DataError(fmt::format("data: '{}' line {}: {}", path.string(), line, what), hint);
}

/// Lines without their ends ("\n" or "\r\n"); empty ones at the end of the file are gone.
std::vector<std::string> read_lines(const std::filesystem::path& path, std::string_view what, const std::string& hint) {
  std::string content = core::read_named_file(path, what, "give the path of a file: " + hint);
  if (core::starts_with(content, "\xEF\xBB\xBF")) content.erase(0, 3);
  std::vector<std::string> lines = core::split(content, "\n");
  for (std::string& line : lines) {
    if (core::ends_with(line, "\r")) line.pop_back();
  }
  while (!lines.empty() && core::trim(lines.back()).empty()) lines.pop_back();
  if (lines.empty()) refuse(path, 1, "the file is empty", hint);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (core::trim(lines[i]).empty()) refuse(path, i + 1, "the line is empty", hint);
    const size_t at = find_invalid_utf8(lines[i]);
    if (at != std::string_view::npos) refuse(path, i + 1, fmt::format("byte {} is not UTF-8", at), hint);
  }
  return lines;
}

/// Names of classes as one compares them by eye: "Bell_strike" is "bell strike".
std::vector<std::string> plain_names(std::vector<std::string> names) {
  for (std::string& name : names) {
    name = core::to_lower_ascii(core::trim(name));
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '_' || c == '-' || c == '\t'; }, ' ');
  }
  return names;
}

}  // namespace

std::optional<size_t> first_in_other_order(const std::vector<std::string>& folders,
                                           const std::vector<std::string>& class_names) {
  std::vector<std::string> one = plain_names(folders), other = plain_names(class_names);
  if (one.size() != other.size()) return std::nullopt;
  const auto place = static_cast<size_t>(std::mismatch(one.begin(), one.end(), other.begin()).first - one.begin());
  if (place == one.size()) return std::nullopt;
  std::sort(one.begin(), one.end());
  std::sort(other.begin(), other.end());
  return one == other ? std::optional(place) : std::nullopt;
}

std::vector<std::string> read_class_names(const std::filesystem::path& path) {
  return read_lines(path, "list of class names", "write one class name per line, in the order of the class indices");
}

std::vector<std::string> read_templates(const std::filesystem::path& path) {
  const std::string hint = "write one template per line, such as: a photo of a {}.";
  std::vector<std::string> templates = read_lines(path, "list of templates", hint);
  for (size_t i = 0; i < templates.size(); ++i) {
    templates[i] = core::replace_all(std::move(templates[i]), "{c}", kPlace);
    const size_t places = core::split(templates[i], kPlace).size() - 1;
    if (places != 1) {
      refuse(path, i + 1, fmt::format("places for the class name={}, expected one {{}} in '{}'", places, templates[i]),
             hint);
    }
  }
  return templates;
}

std::string fill_template(std::string_view text, std::string_view class_name) {
  const size_t at = text.find(kPlace);
  LOCKSTEP_CHECK(at != std::string_view::npos, "template '{}' has no {{}}", text);
  std::string filled(text.substr(0, at));
  return filled.append(class_name).append(text.substr(at + kPlace.size()));
}

}  // namespace lockstep::data
