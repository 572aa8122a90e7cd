#pragma once
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "logs/parser.h"

namespace lockstep::logs {

/// What a line holds into which several ranks wrote at once.
struct MergedLine {
  std::vector<std::string_view> whole{};  ///< Measurements that surely come from one rank each.
  bool has_rest = false;                  ///< There is more, of which nobody can tell which number is whose.
};

/// Nothing for a line of one rank, as far as it shows: no text occurs twice that the format has once per line.
/// Measurements count as whole from the left, each complete before the next one begins; behind the first that is cut
/// its rest may lie anywhere, so nothing behind it is used.
std::optional<MergedLine> take_merged_apart(const LineShape& shape, std::string_view line);

/// Text that may follow a number; kLineEnd: nothing at all.
inline constexpr std::string_view kLineEnd{};

/// Do the numbers behind `key` end as the program ends them? White space between is passed over. A line without the
/// key, or without a number behind it, is no case of it: a parser rejects it where it needs it.
bool is_number_closed(std::string_view line, std::string_view key, std::initializer_list<std::string_view> ends);
/// The same of several keys.
bool are_numbers_closed(std::string_view line, std::initializer_list<std::string_view> keys,
                        std::initializer_list<std::string_view> ends);

/// Part of a measurement that began in another line.
bool is_fragment(const LineShape& shape, std::string_view line);

}  // namespace lockstep::logs
