#pragma once
#include <cstdint>
#include <functional>

#include "remote/remote_error.h"

namespace lockstep::remote {

/// Waiting times between attempts: exponential with full jitter, so that clients that failed together do not come back
/// together.
struct RetryPolicy {
  double first_s = 0.5;
  double cap_s = 30;
  int max_attempts = 6;  ///< Including the first.

  /// Seconds before attempt `attempt` + 1 (attempt counts from 1): `jitter` in [0, 1) of min(cap_s, first_s *
  /// 2^(attempt
  /// - 1)), at least a tenth of it.
  double wait_s(int attempt, double jitter) const;
};

/// What retries take from outside; tests put in their own.
struct RetryClock {
  std::function<bool(double seconds)> sleep;  ///< False: stop waiting and give up.
  std::function<double()> jitter;             ///< In [0, 1).
};
/// Sleeps in short pieces, until `is_stopped` (where given) says yes.
RetryClock real_clock(std::function<bool()> is_stopped = {});

/// Calls `attempt` until it does not throw a transient RemoteError, at most policy.max_attempts times; then the last
/// error is thrown. Interrupted where the clock stops waiting. `on_retry` hears of each failure that is tried again.
void with_retries(const RetryPolicy& policy, const RetryClock& clock, const std::function<void()>& attempt,
                  const std::function<void(const RemoteError&, int attempt)>& on_retry = {});

}  // namespace lockstep::remote
