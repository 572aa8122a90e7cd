#pragma once
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::data {

/// Names of the values of an option.
template <typename T, size_t N> using NameTable = std::array<std::pair<const char*, T>, N>;

[[noreturn]] inline void throw_unknown_name(std::string_view what, const std::string& name,
                                            const std::vector<std::string>& known) {
  throw UsageError(fmt::format("data: unknown {} '{}'", what, name), fmt::format("known: {}", core::join_or(known)));
}

/// The value of `name`; UsageError ("unknown <what> ...") with the known names.
template <typename T, size_t N>
T parse_name(const std::string& name, const NameTable<T, N>& table, std::string_view what) {
  std::vector<std::string> known;
  for (const auto& [text, value] : table) {
    if (name == text) return value;
    known.emplace_back(text);
  }
  throw_unknown_name(what, name, known);
}

}  // namespace lockstep::data
