#pragma once
#include <chrono>
#include <string>

#include "record/steps.h"

namespace lockstep::train {

/// Time from the start of this process to the first step, by phase.
class StartupClock {
 public:
  /// The first phase, "start", is the life of the process so far (loading of the program and its libraries).
  StartupClock();
  /// The time since the phase before (or since construction) belongs to `phase`; a phase may come several times.
  void finish(const std::string& phase);
  /// Moves `ms` out of `from` (which must be there) into a phase of its own, put before it.
  void split(const std::string& from, const std::string& phase, double ms);
  void add(const std::string& phase, double ms);
  const record::NamedNumbers& phases_ms() const { return phases_ms_; }
  /// Since the start of this process.
  double age_minutes() const;

 private:
  record::NamedNumbers phases_ms_;
  std::chrono::steady_clock::time_point constructed_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace lockstep::train
