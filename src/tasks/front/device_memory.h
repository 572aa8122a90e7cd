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

/// Whether `planned_bytes` go into a device, as people read it: "fits: 40 % of 78.0 GiB (H100 SXM 80GB)".
std::string room_text(double planned_bytes, const RankMemory& memory);

/// The fact "device_memory" of a dry run: size and source of the device's memory, and whether `planned_bytes` go into
/// it. Null where the memory is not known; `text_if_unknown` is shown then.
DryRunFact device_memory_fact(
    double planned_bytes, const std::optional<RankMemory>& memory,
    const std::string& text_if_unknown = "not known; --device-memory SIZE|NAME asks whether it fits");

}  // namespace lockstep::tasks
