#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// One class name per line, in the order of the class indices; a comma or a space is part of the name, '#' too. Empty
/// lines at the end are ignored, any other empty line, a line that is not UTF-8 and a file without names throw
/// DataError with the line.
std::vector<std::string> read_class_names(const std::filesystem::path& path);

/// Where `class_names`, which are those of `folders` but for case, '_', '-' and white space, stand in another order
/// than these: the first such place. Nothing where the order is the same, or the names are others.
std::optional<size_t> first_in_other_order(const std::vector<std::string>& folders,
                                           const std::vector<std::string>& class_names);

/// One prompt template per line, each with exactly one place for the class name: `{}` or `{c}`. Same errors, and one
/// for a line without it. The result uses `{}` throughout.
std::vector<std::string> read_templates(const std::filesystem::path& path);

/// The template with the class name in the place of `{}`.
std::string fill_template(std::string_view text, std::string_view class_name);

}  // namespace lockstep::data
