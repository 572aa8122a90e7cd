#pragma once
#include <functional>
#include <sstream>
#include <string>

#include "core/error.h"

namespace lockstep::tests {

/// Message and hint of the Kind of error that `body` throws; "no error" where it throws none. Other errors pass on and
/// fail the test.
template <typename Kind = Error> std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Kind& error) {
    return error.text();
  }
  return "no error";
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The words of a page with single spaces between them, wherever its lines end.
inline std::string words_of(const std::string& page) {
  std::istringstream all(page);
  std::string words;
  for (std::string word; all >> word;) words += word + " ";
  return words;
}

}  // namespace lockstep::tests
