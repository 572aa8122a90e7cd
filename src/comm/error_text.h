#pragma once
#include <exception>
#include <string>

namespace lockstep::comm {

/// What a foreign exception says, without the stack trace that LibTorch appends.
inline std::string error_text(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

}  // namespace lockstep::comm
