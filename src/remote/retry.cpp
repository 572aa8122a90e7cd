#include "remote/retry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace lockstep::remote {

double RetryPolicy::wait_s(int attempt, double jitter) const {
  const double longest = std::min(cap_s, first_s * std::exp2(std::min(attempt - 1, 60)));
  return longest * std::max(0.1, jitter);
}

RetryClock real_clock(std::function<bool()> is_stopped) {
  const auto sleep = [is_stopped](double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    while (!is_stopped || !is_stopped()) {
      const auto left = end - Clock::now();
      if (left <= Clock::duration::zero()) return true;
      std::this_thread::sleep_for(std::min<Clock::duration>(left, std::chrono::milliseconds(50)));
    }
    return false;
  };
  return {.sleep = sleep, .jitter = [] {
            thread_local std::minstd_rand random{std::random_device{}()};
            return std::uniform_real_distribution<double>(0, 1)(random);
          }};
}

void with_retries(const RetryPolicy& policy, const RetryClock& clock, const std::function<void()>& attempt,
                  const std::function<void(const RemoteError&, int attempt)>& on_retry) {
  for (int number = 1;; ++number) {
    try {
      attempt();
      return;
    } catch (const RemoteError& error) {
      if (!error.is_transient() || number >= policy.max_attempts) throw;
      if (on_retry) on_retry(error, number);
    }
    if (!clock.sleep(policy.wait_s(number, clock.jitter()))) throw Interrupted();
  }
}

}  // namespace lockstep::remote
