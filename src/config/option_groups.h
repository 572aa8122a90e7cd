#pragma once
#include <string>

#include "core/options.h"

namespace lockstep::config {

/// Groups of options that a task has beside its own. A group is a plain struct of fields in files of its own with
///   void declare(core::OptionSet& set, const std::string& task);
///   void check(const core::OptionSet& set, const std::string& task) const;
/// where `task` is the command that has it ("clip") and check() throws UsageError.
template <typename... Groups> struct OptionGroups : Groups... {
  void declare_groups(core::OptionSet& set, const std::string& task) { (Groups::declare(set, task), ...); }
  void check_groups(const core::OptionSet& set, const std::string& task) const { (Groups::check(set, task), ...); }
};

}  // namespace lockstep::config
