#pragma once
#include <functional>

namespace lockstep::cli {

/// Runs the body of a program and returns the exit code. An error is printed to standard error as "lockstep: error:
/// MESSAGE" with its hint below; Error gives its own code, any other exception 1. Where TORCHELASTIC_ERROR_FILE is set
/// (by `lockstep launch` and by torchrun) the message is also left there, for the launcher to show.
int guarded_main(const std::function<int()>& body);

}  // namespace lockstep::cli
