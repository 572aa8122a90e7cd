#include "core/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace lockstep::core {
namespace {
/// Three significant digits below 1000, none behind the point from 100 on.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  return fmt::format("{:.{}f}", value, magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0);
}

template <size_t n>
std::string with_unit(double value, double base, const std::array<std::string_view, n>& units,
                      std::string_view unscaled) {
  if (std::abs(value) < base) {
    const bool is_whole = value == std::floor(value);
    const std::string number = is_whole ? fmt::format("{:.0f}", value) : three_digits(value);
    return unscaled.empty() ? number : fmt::format("{} {}", number, unscaled);
  }
  size_t unit = 0;
  value /= base;
  while (unit + 1 < n && std::abs(value) >= base - 0.5) {
    value /= base;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}
}  // namespace

std::string format_bytes(double bytes) { return with_unit<5>(bytes, 1024.0, {"KiB", "MiB", "GiB", "TiB", "PiB"}, "B"); }

std::string format_count(double count) { return with_unit<5>(count, 1000.0, {"k", "M", "G", "T", "P"}, ""); }

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return "-" + format_duration(-seconds);
  if (seconds < 9.9995) return fmt::format("{:.3f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const double rounded_s = std::round(seconds);
  if (rounded_s < 3600)
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(rounded_s / 60), std::fmod(rounded_s, 60));
  const double minutes = std::round(seconds / 60);
  if (minutes < 48 * 60) return fmt::format("{:.0f} h {:02.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
  const double hours = std::round(seconds / 3600);
  return fmt::format("{:.0f} d {:02.0f} h", std::floor(hours / 24), std::fmod(hours, 24));
}

std::string format_double(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace lockstep::core
