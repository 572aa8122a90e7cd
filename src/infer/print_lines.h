#pragma once
#include <string>

namespace lockstep::infer {

/// Results to standard output. Names of files, keys of samples and generated text are of others: as core::printable,
/// which JSON reads as it was. EnvironmentError where it cannot be written.
void print_lines(const std::string& lines);

}  // namespace lockstep::infer
