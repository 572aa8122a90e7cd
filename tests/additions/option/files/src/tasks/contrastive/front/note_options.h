#pragma once
#include <string>

#include "core/options.h"

namespace lockstep::tasks {

/// What the user wants to be kept with the record of a run.
struct NoteOptions {
  std::string note;  // --note

  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

}  // namespace lockstep::tasks
