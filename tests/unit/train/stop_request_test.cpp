#include "train/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace lockstep::train {
namespace {

bool is_blocked_here(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 1;
}

/// In a thread of its own, since it blocks signals for good in the thread that calls it.
TEST(StopRequest, NoHandlerInterruptsTheThreadsThatCompute) {
  std::thread([] {
    leave_on_stop_signals();
    note_stop_signals(/*tells=*/false, 1);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
      EXPECT_TRUE(is_blocked_here(signal)) << signal;
      std::thread([signal] {
        EXPECT_TRUE(is_blocked_here(signal)) << signal << " in a thread that was started";
      }).join();
      struct sigaction action {};
      ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
      EXPECT_EQ(action.sa_handler, SIG_DFL) << signal;
    }
    ignore_stop_signals();
  }).join();
}

}  // namespace
}  // namespace lockstep::train
