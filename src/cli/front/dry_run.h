#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "spec/commands.h"

namespace lockstep::cli {

/// One line of a dry run: key in the JSON, words for people, value for both.
struct DryRunFact {
  std::string key, label;
  core::Json value;
  std::string text;  ///< The value as people read it.
};

/// What a training command would do, as far as it can be told without tensors, data and devices.
std::vector<DryRunFact> dry_run_facts(const spec::ParsedCommand& command);

/// Prints the facts and the options that differ from their defaults, as text or (--json) as one object.
void print_dry_run(const spec::ParsedCommand& command);

}  // namespace lockstep::cli
