#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// One class name per line, in the order of the class indices; a comma or a space is part of the name, '#' too. Empty
/// lines at the end are ignored, any other empty line, a line that is not UTF-8 and a file without names throw
/// DataError with the line.
std::vector<std::string> read_class_names(const std::filesystem::path& path);

/// One prompt template per line, each with exactly one place for the class name: `{}` or `{c}`. Same errors, and one
/// for a line without it. The result uses `{}` throughout.
std::vector<std::string> read_templates(const std::filesystem::path& path);

/// The template with the class name in the place of `{}`.
std::string fill_template(std::string_view text, std::string_view class_name);

}  // namespace lockstep::data
