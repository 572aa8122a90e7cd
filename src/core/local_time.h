#pragma once
#include <ctime>
#include <string>

namespace lockstep::core {

/// A time of this machine's time zone as strftime() writes it, of at most 31 characters.
std::string local_time_text(std::time_t time, const char* format);

}  // namespace lockstep::core
