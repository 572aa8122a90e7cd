#pragma once
#include <exception>
#include <optional>

#include "core/error.h"

namespace lockstep::core {

/// What the standard library threw because the system said no, as the error that users see: a file that cannot be used,
/// a thread that cannot be started. Nothing for other exceptions.
std::optional<EnvironmentError> system_failure_of(const std::exception& error);

/// What the mains end with after this exception.
ExitCode exit_code_of(const std::exception& error);

}  // namespace lockstep::core
