#include "cli/front/unread_flags.h"

#include <fmt/format.h>

#include "core/error.h"

namespace lockstep::cli {

void refuse_given(const core::OptionSet& set, std::initializer_list<const char*> names, const std::string& why,
                  const std::string& hint) {
  for (const char* name : names)
    if (set.is_given(name)) throw UsageError(fmt::format("{}: --{} {}", set.command(), name, why), hint);
}

}  // namespace lockstep::cli
