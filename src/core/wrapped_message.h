#pragma once
#include <string>

#include "core/error.h"

namespace lockstep::core {

/// "OUTER: " and what `error` says of a file, without its module ("files: ") and without a path that OUTER names
/// already: "data: picture 'a.jpg': cannot open: No such file or directory".
std::string wrapped_message(const std::string& outer, const Error& error);

}  // namespace lockstep::core
