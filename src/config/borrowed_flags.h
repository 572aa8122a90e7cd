#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "config/train_options.h"
#include "core/options.h"

namespace lockstep::config {

/// A flag of `train clip`, and names that another dialect has for it.
struct BorrowedFlag {
  BorrowedFlag(const char* flag, std::vector<std::string> other_names = {})
      : name(flag), aliases(std::move(other_names)) {}
  const char* name;
  std::vector<std::string> aliases;
};

/// Takes over flags of `train clip` by name: the same field, help, unit and range, under the set's present heading.
void borrow_train_flags(core::OptionSet& set, TrainOptions& train, std::initializer_list<BorrowedFlag> flags);

}  // namespace lockstep::config
