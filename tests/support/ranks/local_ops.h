#pragma once
#include <vector>

#include "comm/backend.h"

namespace lockstep::tests {

/// Why the calls of two ranks cannot belong together ("" when they can): operation, element count, type, memory layout,
/// root.
std::string mismatch(const comm::Call& a, const comm::Call& b);

/// Carries out one collective of all ranks at once; `calls` in rank order (of a transfer: the sender's, then the
/// receiver's).
void execute(const std::vector<comm::Call>& calls);

}  // namespace lockstep::tests
