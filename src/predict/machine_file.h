#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "draw/document.h"
#include "predict/machine.h"

namespace lockstep::predict {

/// A user's system: flat TOML, keys as docs/predict.md lists them. What a known `device` says fills what is not given.
/// UsageError with file and line for unknown keys and values of a wrong kind or range; with all of them at once for
/// numbers that are missing, contradict each other or look like another unit.
Machine read_machine_file(const std::string& path);
Machine parse_machine(std::string_view text, const std::string& path);

/// A row of the table by name or alias, or a file whose name ends in ".toml". UsageError with the nearest name.
Machine find_machine(const std::string& name_or_path);

/// Every system of the table.
draw::Table machines_table();
core::Json machines_json();
core::Json machine_json(const Machine& machine);

}  // namespace lockstep::predict
