#pragma once
#include "core/json.h"
#include "record/run_data.h"

namespace lockstep::record {

/// The object `setup` of an attempt in run.json (docs/record.md); what is unknown is left out.
core::Json to_json(const RunSetup& setup);
/// Reads it back; keys of the wrong type count as unknown.
RunSetup setup_from_json(const core::Json& object);
/// Setup of an attempt in run.json: its `setup`, and for records older than that what options, model and plan tell.
RunSetup setup_of_attempt(const core::Json& attempt);
/// Its resolved options as texts; empty where the attempt does not hold them.
std::map<std::string, std::string> options_of_attempt(const core::Json& attempt);

}  // namespace lockstep::record
