#pragma once
#include "core/error.h"

namespace lockstep {

/// Of errors whose text has line ends that are the program's own, as lists have: whoever makes one has cleaned what
/// others wrote (core::printable_line). In all other errors line ends are somebody else's, and shown as \u000a.
class HasOwnLines {
 public:
  virtual ~HasOwnLines() = default;
};

/// UsageError, DataError, ... with lines of its own.
template <typename Kind> class ErrorOfLines : public Kind, public HasOwnLines {
 public:
  using Kind::Kind;
};

/// Message and hint as a terminal may show them: a name in them begins no line.
std::string shown_text(const Error& error);
/// The same on one line, for logs: "MESSAGE (HINT)".
std::string one_line_text(const Error& error);

}  // namespace lockstep
