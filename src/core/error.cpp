#include "core/error.h"

#include <string_view>

namespace lockstep {

void throw_error(ExitCode code, const std::string& message, const std::string& hint) {
  switch (code) {
    case ExitCode::kUsage: throw UsageError(message, hint);
    case ExitCode::kCommunication: throw CommError(message, hint);
    case ExitCode::kData: throw DataError(message, hint);
    case ExitCode::kCheckpoint: throw CheckpointError(message, hint);
    case ExitCode::kEnvironment: throw EnvironmentError(message, hint);
    default: throw Error(code, message, hint);
  }
}

namespace core {

std::string without_nul(const std::string& message) {
  if (message.find('\0') == std::string::npos) return message;
  std::string shown;
  for (const char c : message)
    if (c == '\0')
      shown += "\\u0000";
    else
      shown += c;
  return shown;
}

void throw_check_failure(const char* file, int line, const char* condition, const std::string& details) {
  std::string_view path(file);
  if (const auto at = path.rfind("/src/"); at != std::string_view::npos) path.remove_prefix(at + 1);
  throw Error(ExitCode::kInternal,
              fmt::format("internal: {}:{}: broken invariant ({}): {}", path, line, condition, details),
              "this is a bug in lockstep; please report it with the command line");
}

}  // namespace core
}  // namespace lockstep
