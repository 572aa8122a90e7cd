#pragma once
#include <string>
#include <vector>

#include "core/json.h"
#include "core/options.h"

namespace lockstep::config {

/// Options of the schedule and the configuration that have other values than in `recorded`, the options of an attempt
/// in run.json: "--wd 0.1 (before 0.2)". One that the record does not have is none of them.
std::vector<std::string> changed_settings(const core::OptionSet& set, const core::Json& recorded);

}  // namespace lockstep::config
