#include "infer/print_lines.h"

#include <cstdio>

#include "core/error.h"
#include "core/print.h"

namespace lockstep::infer {

void print_lines(const std::string& lines) {
  const std::string clean = core::printable(lines);
  if (std::fwrite(clean.data(), 1, clean.size(), stdout) != clean.size() || std::fflush(stdout) != 0)
    throw EnvironmentError("infer: cannot write to standard output");
}

}  // namespace lockstep::infer
