#include "core/system_failure.h"

#include <filesystem>
#include <system_error>

#include "core/files.h"

namespace lockstep::core {

std::optional<EnvironmentError> system_failure_of(const std::exception& error) {
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return as_environment_error(*of_file);
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system == nullptr || of_system->code() != std::errc::resource_unavailable_try_again) return std::nullopt;
  return EnvironmentError(fmt::format("cli: the system starts no more threads: {}", of_system->code().message()),
                          "raise the limit of processes and threads (ulimit -u, pids.max of a container or job), or "
                          "use fewer: --workers, --threads, ranks per node");
}

ExitCode exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->code();
  const auto failure = system_failure_of(error);
  return failure ? failure->code() : ExitCode::kInternal;
}

}  // namespace lockstep::core
