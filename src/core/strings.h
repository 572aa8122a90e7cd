#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::core {

std::string_view trim(std::string_view text);  ///< ASCII white space off both ends.
std::vector<std::string> split(std::string_view text,
                               std::string_view separator);  ///< Keeps empty fields; "" gives {""}.
std::string to_lower_ascii(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string replace_all(std::string text, std::string_view from, std::string_view to);
std::string join(std::span<const std::string> parts, std::string_view separator);

/// Whole string as a number, or nothing (no leading '+', no white space, no overflow, no trailing text).
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// The name nearest to `typed` by edit distance, or nothing when none is near enough to be a likely slip.
std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names);

/// "gs" of "gs://BUCKET/x", and of "gs:/BUCKET/x", a slip; "" of what is no address. One letter is a drive.
std::string_view scheme_of(std::string_view text);

/// A line break or another ASCII control character, a tab too.
bool has_control_character(std::string_view text);

/// "a", "a or b", "a, b or c".
std::string join_or(std::span<const std::string> parts);

/// Orders "epoch_2" before "epoch_10": digit runs compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

/// Breaks text at spaces into lines of at most `width` characters; longer words stay whole.
std::vector<std::string> wrap_text(std::string_view text, size_t width);

/// An item of a list on a Markdown page: "- ", in lines of at most 118 columns.
std::string markdown_item(const std::string& text);

}  // namespace lockstep::core
