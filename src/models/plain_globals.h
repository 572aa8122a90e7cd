#pragma once
#include <string_view>

namespace lockstep::models {

/// Is "module.name" one of the things that pickles of weights name, none of which does anything but hold values?
/// Python would import and call whatever a pickle names; a file that names more may be made to execute code.
bool is_plain_global(std::string_view name);

}  // namespace lockstep::models
