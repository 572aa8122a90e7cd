#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep::core {

/// The text without what could steer a terminal: control characters but line ends and tabs, marks that turn the writing
/// direction, and bytes that are no UTF-8 become \uXXXX, which JSON reads as the same character.
std::string printable(std::string_view text);
/// The same without line ends: a name in the text cannot begin a line that looks like one of the program's own.
std::string printable_line(std::string_view text);

/// Writes printable(text) to standard output. Results of commands go through here: names, captions and log lines are
/// written by others.
void print_text(std::string_view text);
/// The same to standard error, in one piece: of ranks beside rank 0, whose standard output is the command's.
void print_error_text(std::string_view text);

/// A text as a name in a sentence; values of other types as they are.
template <typename T> decltype(auto) as_name(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return printable_line(value);
  else
    return (value);
}

/// Writes what vformat makes of these; see print.
template <typename... Args> void print_line(fmt::string_view format, const Args&... args) {
  print_text(fmt::vformat(format, fmt::make_format_args(args...)));
}

/// Texts among `args` are names and become printable_line(text), unless `format` is "{}", "{}\n" or "\n{}": what stands
/// alone is a whole text with lines of its own, such as a table.
template <typename... Args> void print(fmt::format_string<Args...> format, Args&&... args) {
  const fmt::string_view chosen = format;
  const std::string_view text(chosen.data(), chosen.size());
  if (text == "{}" || text == "{}\n" || text == "\n{}")
    print_text(fmt::format(format, std::forward<Args>(args)...));
  else
    print_line(chosen, as_name(args)...);
}

}  // namespace lockstep::core
