#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::config {

/// A flag of another set, and names that another dialect has for it.
struct BorrowedFlag {
  BorrowedFlag(const char* flag, std::vector<std::string> other_names = {})
      : name(flag), aliases(std::move(other_names)) {}
  const char* name;
  std::vector<std::string> aliases;
};

/// Takes over flags of `from` by name: the same field, help, unit and range, under the present heading of `set`.
void borrow_flags(core::OptionSet& set, const core::OptionSet& from, std::initializer_list<BorrowedFlag> flags);

}  // namespace lockstep::config
