#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/commands.h"
#include "core/json.h"

namespace lockstep::cli {

/// One line of a dry run: key in the JSON, words for people, value for both.
struct DryRunFact {
  std::string key, label;  ///< No key: not in the JSON; no label: not in the text.
  core::Json value;
  std::string text;  ///< The value as people read it.
};

/// How many ranks a run would have, and who says so.
struct WorldGuess {
  int64_t num_ranks = 1;
  std::string source;
  int64_t num_local_ranks = 0;  ///< Of them on this machine; 0: not known.
};

/// `label` and beside it `text`, broken so that lines end at column 80.
std::string dry_run_entry(const std::string& label, const std::string& text);

/// Prints what a training command would do as far as it can be told without tensors, data and devices, the options that
/// differ from their defaults and warnings (also of named files that are not here), as text or (--json) as one object.
/// The number of ranks is
/// --world-size, else what `launched` or the surroundings say.
void print_dry_run(const config::ParsedCommand& command, const std::optional<WorldGuess>& launched = std::nullopt);

}  // namespace lockstep::cli
