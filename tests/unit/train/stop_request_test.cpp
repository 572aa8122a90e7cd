#include "train/stop_request.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace lockstep::train {
namespace {

constexpr int kNoted = 7, kMissed = 8;

bool is_blocked_here(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 1;
}

/// Ends the process with what became of a wish to save.
[[noreturn]] void leave_when_noted() {
  for (int tries = 0; tries < 20'000; ++tries) {
    if (take_stop_request() == StopRequest::kSaveAndGoOn) ::_exit(kNoted);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::_exit(kMissed);
}

/// Each in a process of its own, since signals stay as they were set.
class StopRequestDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopRequestDeathTest, NoSignalInterruptsTheThreadsThatCompute) {
  EXPECT_EXIT(
      {
        leave_on_stop_signals();
        note_stop_signals(/*tells=*/false, 1);
        for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
          bool is_blocked_later = false;
          std::thread([&] { is_blocked_later = is_blocked_here(signal); }).join();
          if (!is_blocked_here(signal) || !is_blocked_later) ::_exit(kMissed);
        }
        ::_exit(kNoted);
      },
      testing::ExitedWithCode(kNoted), "");
}

TEST_F(StopRequestDeathTest, AThreadOfItsOwnNotesWhatTheOthersDoNotSee) {
  EXPECT_EXIT(
      {
        leave_on_stop_signals();
        note_stop_signals(/*tells=*/false, 1);
        ::kill(::getpid(), SIGUSR2);
        leave_when_noted();
      },
      testing::ExitedWithCode(kNoted), "");
}

TEST_F(StopRequestDeathTest, ThreadsThatWereThereBeforeNoteThemToo) {
  EXPECT_EXIT(
      {
        std::thread foreign([] {
          for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
        });
        leave_on_stop_signals();
        note_stop_signals(/*tells=*/false, 1);
        ::pthread_kill(foreign.native_handle(), SIGUSR2);
        leave_when_noted();
      },
      testing::ExitedWithCode(kNoted), "");
}

TEST_F(StopRequestDeathTest, BeforeAnythingHasBegunTheProcessEndsAtOnce) {
  EXPECT_EXIT(
      {
        leave_on_stop_signals();
        ::kill(::getpid(), SIGTERM);
        leave_when_noted();
      },
      testing::ExitedWithCode(75), "");
}

TEST_F(StopRequestDeathTest, AtTheEndASignalIsNotedAndTheSecondInterruptLeaves) {
  const auto wait_until_told = [] {
    for (int tries = 0; tries < 20'000 && !was_told_to_end(); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_EXIT(
      {
        leave_on_stop_signals();
        note_stop_signals(/*tells=*/false, 1);
        note_stop_signals_at_end();
        ::kill(::getpid(), SIGUSR2);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (was_told_to_end()) ::_exit(kMissed);
        ::kill(::getpid(), SIGTERM);
        wait_until_told();
        ::_exit(was_told_to_end() ? kNoted : kMissed);
      },
      testing::ExitedWithCode(kNoted), "");
  EXPECT_EXIT(
      {
        leave_on_stop_signals();
        note_stop_signals(/*tells=*/false, 1);
        ::kill(::getpid(), SIGINT);
        while (take_stop_request() == StopRequest::kNone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        note_stop_signals_at_end();
        ::kill(::getpid(), SIGINT);
        wait_until_told();
        ::kill(::getpid(), SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(20));
        ::_exit(kMissed);
      },
      testing::ExitedWithCode(130), "");
}

TEST_F(StopRequestDeathTest, OnceTheExitCodeIsDecidedSignalsChangeNothing) {
  EXPECT_EXIT(
      {
        leave_on_stop_signals();
        note_stop_signals(/*tells=*/false, 1);
        ignore_stop_signals();
        for (const int signal : {SIGTERM, SIGINT, SIGINT, SIGUSR2}) ::kill(::getpid(), signal);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::_exit(take_stop_request() == StopRequest::kNone ? kNoted : kMissed);
      },
      testing::ExitedWithCode(kNoted), "");
}

}  // namespace
}  // namespace lockstep::train
