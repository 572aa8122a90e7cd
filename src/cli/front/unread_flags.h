#pragma once
#include <initializer_list>
#include <string>

#include "core/options.h"

namespace lockstep::cli {

/// UsageError "COMMAND: --FLAG WHY" for the first of these flags that the user gave although nothing reads it here.
void refuse_given(const core::OptionSet& set, std::initializer_list<const char*> names, const std::string& why,
                  const std::string& hint);

}  // namespace lockstep::cli
