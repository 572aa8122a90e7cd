#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"

namespace lockstep::config {

/// UsageError "options: MESSAGE" with the hint if the options are wrong.
void refuse_if(bool is_wrong, const std::string& message, const std::string& hint);

/// UsageError "options: 'COMMAND' needs FLAG" with the hint if the flag is missing.
void need_flag(const core::OptionSet& set, bool is_missing, const char* flag, const char* hint);

/// A size as users of other benchmarks write it: "8", "32K", "128M", "1.5G", "1T", with or without B or iB; binary
/// multiples. UsageError that names the flag.
int64_t parse_bytes(std::string_view text, std::string_view flag);

/// Flags of another program that are refused for the same reason, but for values in `off` (OptionSet::refuse).
struct RefusedFlags {
  const char* reason;
  const char* instead;
  std::vector<const char*> names;
  std::vector<std::string> off = {};
};
/// Declares them as refused.
void refuse_flags(core::OptionSet& set, const std::vector<RefusedFlags>& groups);

/// Flags of another program that have no effect here for the same reason (OptionSet::ignore).
struct IgnoredFlags {
  const char* reason;
  std::vector<const char*> switches;     ///< Take no value.
  std::vector<const char*> with_values;  ///< Take one or more.
};
/// Declares them as ignored.
void ignore_flags(core::OptionSet& set, const std::vector<IgnoredFlags>& groups);

}  // namespace lockstep::config
