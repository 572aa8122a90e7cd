#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::config {

/// A flag of another set, names that another dialect has for it, and its help where it means more here.
struct BorrowedFlag {
  BorrowedFlag(const char* flag, std::vector<std::string> other_names = {}, std::string other_help = "",
               std::string other_unset_text = "")
      : name(flag), aliases(std::move(other_names)), help(std::move(other_help)),
        unset_text(std::move(other_unset_text)) {}
  const char* name;
  std::vector<std::string> aliases;
  std::string help, unset_text;  ///< "": as there.
};

/// Takes over flags of `from` by name: the same field, unit and range, under the present heading of `set`.
void borrow_flags(core::OptionSet& set, const core::OptionSet& from, std::initializer_list<BorrowedFlag> flags);

}  // namespace lockstep::config
