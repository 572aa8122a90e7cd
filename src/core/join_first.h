#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "core/strings.h"

namespace lockstep::core {

/// The first `most` names and how many there are beside them: "a, b and 4 more".
inline std::string join_first(std::span<const std::string> names, size_t most) {
  const size_t num_more = names.size() - std::min(names.size(), most);
  const std::string text = join(names.first(names.size() - num_more), ", ");
  return num_more == 0 ? text : fmt::format("{} and {} more", text, num_more);
}

}  // namespace lockstep::core
