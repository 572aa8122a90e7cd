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

/// UsageError where the folder that a file is written into does not exist.
void need_folder_of(const std::string& file);

/// The same before work whose result goes to the file, which may be "", and where it is a folder.
void need_place_of(const std::string& file);

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

/// One of several ways to say the same: flags, and others that mean something beside them only.
struct Alternative {
  std::vector<const char*> flags, parts = {};
};
/// Of such a group at most one alternative can hold.
using Alternatives = std::vector<Alternative>;

/// An option of a recipe that yields: to which flag of the command line.
struct Yielding {
  std::string name, to;
};
/// The command line wins over recipes, also where it says the same in another way: what recipes give for the other
/// alternatives of a group. Flags that are off (0, none, --no-x) make nothing yield.
std::vector<Yielding> find_yielding(const core::OptionSet& set, const std::vector<Alternatives>& groups);
/// Gives the option the value that it has in `defaults`, a set of the same declarations, and notes what it yields to.
void take_default(core::OptionSet& set, const core::OptionSet& defaults, const Yielding& yielding);
/// "--fp16 False: from --bf16, which wins over RECIPE:3": a line for each option that has yielded.
std::vector<std::string> yielding_texts(const core::OptionSet& set);

}  // namespace lockstep::config
