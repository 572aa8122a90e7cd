#include "config/option_checks.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {

void refuse_if(bool is_wrong, const std::string& message, const std::string& hint) {
  if (is_wrong) throw UsageError("options: " + message, hint);
}

void need_flag(const core::OptionSet& set, bool is_missing, const char* flag, const char* hint) {
  refuse_if(is_missing, fmt::format("'{}' needs {}", set.command(), flag), hint);
}

int64_t parse_bytes(std::string_view text, std::string_view flag) {
  std::string number = core::to_lower_ascii(text);
  for (const char* suffix : {"ib", "b"})
    if (core::ends_with(number, suffix)) {
      number.resize(number.size() - std::string_view(suffix).size());
      break;
    }
  double scale = 1;
  const std::string_view kPrefixes = "kmgt";
  const size_t at = number.empty() ? std::string_view::npos : kPrefixes.find(number.back());
  if (at != std::string_view::npos) {
    scale = std::pow(1024.0, static_cast<double>(at + 1));
    number.pop_back();
  }
  const auto value = core::parse_double(number);
  constexpr double kMost = 1e15;
  if (!value || !(*value * scale >= 1) || *value * scale > kMost)
    throw UsageError(
        fmt::format("options: {} '{}' is no size, expected 1 to 1e15 bytes as 8, 32K, 128M or 1G", flag, text));
  return static_cast<int64_t>(*value * scale);
}

void refuse_flags(core::OptionSet& set, const std::vector<RefusedFlags>& groups) {
  for (const RefusedFlags& group : groups)
    for (const char* name : group.names) set.refuse(name, group.reason, group.instead, group.off);
}

void ignore_flags(core::OptionSet& set, const std::vector<IgnoredFlags>& groups) {
  for (const IgnoredFlags& group : groups) {
    for (const char* name : group.switches) set.ignore(name, group.reason, false);
    for (const char* name : group.with_values) set.ignore(name, group.reason, true);
  }
}

}  // namespace lockstep::config
