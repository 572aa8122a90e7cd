#pragma once
#include <string>
#include <vector>

namespace lockstep::config {

/// Beginnings of parameter names: layers that locks and layer decay take together.
using NameGroup = std::vector<std::string>;

}  // namespace lockstep::config
