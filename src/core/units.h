#pragma once
#include <cstdint>
#include <string>

namespace lockstep::core {

/// Bytes with a binary unit and three significant digits: "512 B", "1.50 KiB", "25.0 MiB".
std::string format_bytes(double bytes);
/// A count with a decimal suffix and three significant digits: "999", "1.23 k", "151 M", "2.17 G".
std::string format_count(double count);
/// "0.250 s", "12.3 s", "4 min 05 s", "3 h 20 min", "2 d 04 h".
std::string format_duration(double seconds);
/// The shortest text that reads back as the same double, always recognisable as a floating-point number (Python's
/// repr): 0.0005, 5e-05, 1.0.
std::string format_double(double value);

}  // namespace lockstep::core
