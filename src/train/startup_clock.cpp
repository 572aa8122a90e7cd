#include "train/startup_clock.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace lockstep::train {
namespace {

/// Age of this process in ms (resolution 10 ms); 0 where /proc does not tell. exec keeps it, so the front program's
/// part is in it.
double process_age_ms() {
  std::ifstream stat_file("/proc/self/stat"), uptime_file("/proc/uptime");
  std::string stat;
  double uptime_s = 0, start_ticks = 0;
  if (!std::getline(stat_file, stat) || !(uptime_file >> uptime_s)) return 0;
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));  // the name in parentheses may hold blanks
  std::string skipped;
  for (int i = 0; i < 19; ++i) fields >> skipped;
  if (!(fields >> start_ticks)) return 0;
  return std::max(0.0, (uptime_s - start_ticks / static_cast<double>(::sysconf(_SC_CLK_TCK))) * 1000);
}

}  // namespace

StartupClock::StartupClock()
    : phases_ms_{{"start", process_age_ms()}}, constructed_(std::chrono::steady_clock::now()), last_(constructed_) {}

double StartupClock::age_minutes() const {
  using Minutes = std::chrono::duration<double, std::ratio<60>>;
  return phases_ms_.front().second / 60000 + Minutes(std::chrono::steady_clock::now() - constructed_).count();
}

void StartupClock::add(const std::string& phase, double ms) {
  for (auto& [name, sum_ms] : phases_ms_)
    if (name == phase) {
      sum_ms += ms;
      return;
    }
  phases_ms_.emplace_back(phase, ms);
}

void StartupClock::finish(const std::string& phase) {
  const auto now = std::chrono::steady_clock::now();
  add(phase, std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
}

void StartupClock::split(const std::string& from, const std::string& phase, double ms) {
  const auto place =
      std::find_if(phases_ms_.begin(), phases_ms_.end(), [&](const auto& entry) { return entry.first == from; });
  LOCKSTEP_CHECK(place != phases_ms_.end(), "phase '{}'", from);
  ms = std::min(ms, place->second);
  place->second -= ms;
  phases_ms_.emplace(place, phase, ms);
}

}  // namespace lockstep::train
