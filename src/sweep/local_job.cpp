#include "sweep/local_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/clock.h"
#include "core/host_name.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace {
constexpr std::string_view kPrefix = "local-";

/// When a process began, in clock ticks since the machine started (proc(5), field 22 of stat); nothing when there is no
/// such process.
std::optional<int64_t> process_start(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line, skipped;
  if (!std::getline(file, line)) return std::nullopt;
  std::istringstream fields(line.substr(line.rfind(')') + 1));  // the name in parentheses may hold blanks
  for (int field = 3; field < 22; ++field) fields >> skipped;
  int64_t ticks = 0;
  return fields >> ticks ? std::optional(ticks) : std::nullopt;
}
}  // namespace

bool is_local_job(const std::string& id) { return core::starts_with(id, kPrefix); }

JobRef own_local_job(const std::string& log) {
  return {.id = fmt::format("{}{}", kPrefix, ::getpid()),
          .submitted_s = core::unix_seconds(),
          .log = log,
          .host = core::host_name(),
          .process_start = process_start(::getpid()).value_or(0)};
}

bool is_local_alive(const JobRef& job, const RunOutcome& outcome) {
  if (!job.host.empty() && job.host != core::host_name()) {
    const bool is_of_this_start = outcome.heartbeat_s && *outcome.heartbeat_s >= job.submitted_s;
    return !is_of_this_start || !has_ended(outcome.status);
  }
  const auto pid = core::parse_int(job.id.substr(kPrefix.size()));
  const auto start = pid && *pid > 0 ? process_start(*pid) : std::nullopt;
  return start && (job.process_start == 0 || *start == job.process_start);  // 0: of a sweep.json that did not note it
}

}  // namespace lockstep::sweep
