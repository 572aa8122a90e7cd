#pragma once
#include <string>

namespace lockstep::core {

/// Name of this machine as it calls itself; "unknown host" where it has none.
std::string host_name();

}  // namespace lockstep::core
