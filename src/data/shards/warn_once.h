#pragma once
#include <string>

namespace lockstep::data {

/// Logs a warning, the same one once: a run opens its data several times. Thread safe.
void warn_once(const std::string& text);

}  // namespace lockstep::data
