#include "core/error.h"

#include <string_view>

namespace lockstep::core {

void throw_check_failure(const char* file, int line, const char* condition, const std::string& details) {
  std::string_view path(file);
  if (const auto at = path.rfind("/src/"); at != std::string_view::npos) path.remove_prefix(at + 1);
  throw Error(ExitCode::kInternal, fmt::format("internal: {}:{}: broken invariant ({}): {}", path, line, condition, details),
              "this is a bug in lockstep; please report it with the command line");
}

}  // namespace lockstep::core
