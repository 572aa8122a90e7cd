#pragma once
#include <optional>
#include <string>

#include "core/options.h"
#include "tasks/front/dry_run.h"

namespace lockstep::tasks {

/// --device-memory SIZE|NAME of training commands: the memory that a dry run asks about. `other_name`, where given, is
/// a second spelling.
void declare_device_memory_option(core::OptionSet& set, std::string* asked, const std::string& other_name = "");

/// UsageError where it is given without --dry-run.
void check_device_memory_option(const std::string& asked, bool is_dry_run);

/// What --device-memory says, or rank_memory where it is not given. UsageError for one that is neither a size nor the
/// name of a device or system.
std::optional<RankMemory> asked_or_rank_memory(const std::string& asked, const config::RunOptions& options,
                                               const WorldSize& world);

}  // namespace lockstep::tasks
