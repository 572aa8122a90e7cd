#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
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

template <typename... Args> void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep::core
