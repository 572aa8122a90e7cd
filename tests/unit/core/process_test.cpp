#include "core/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::core {
namespace {

using namespace std::chrono_literals;
using Stream = ProcessOptions::Stream;

CommandResult shell(const std::string& script, std::chrono::milliseconds timeout = 60s) {
  return run_command({.argv = {"/bin/sh", "-c", script}}, timeout);
}

/// A zombie that waits for init to reap it is not alive.
bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  if (!std::getline(file, stat)) return false;
  const size_t after_name = stat.rfind(") ");
  return after_name != std::string::npos && stat[after_name + 2] != 'Z';
}

/// Waits (not for a speed, only for an end) until `condition` holds.
template <typename Condition> bool becomes_true(const Condition& condition) {
  for (int round = 0; round < 6000; ++round) {
    if (condition()) return true;
    ::usleep(10'000);
  }
  return false;
}

TEST(Process, CollectsBothStreamsAndTheCode) {
  const CommandResult result = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.status.code, 7);
  EXPECT_EQ(result.status.text(), "exit code 7");
  EXPECT_FALSE(result.is_timed_out);
}

TEST(Process, LargeOutputOnBothStreamsDoesNotBlock) {
  const CommandResult result = shell("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2");
  EXPECT_EQ(result.out.size(), 3000000u);
  EXPECT_EQ(result.err.size(), 2000000u);
}

TEST(Process, DeathBySignalIsTold) {
  const CommandResult result = shell("kill -9 $$");
  EXPECT_EQ(result.status.signal, SIGKILL);
  EXPECT_EQ(result.status.shell_code(), 137);
  EXPECT_EQ(result.status.text(), "signal 9 (Killed)");
}

TEST(Process, EnvironmentIsChangedForTheChildOnly) {
  ::setenv("LOCKSTEP_TEST_OLD", "old", 1);
  const CommandResult result =
      run_command({.argv = {"sh", "-c", "echo $LOCKSTEP_TEST_NEW,${LOCKSTEP_TEST_OLD-unset}"},
                   .env_changes = {{"LOCKSTEP_TEST_NEW", "new"}, {"LOCKSTEP_TEST_OLD", std::nullopt}}},
                  60s);
  EXPECT_EQ(result.out, "new,unset\n");
  EXPECT_STREQ(std::getenv("LOCKSTEP_TEST_OLD"), "old");
  EXPECT_EQ(std::getenv("LOCKSTEP_TEST_NEW"), nullptr);
  ::unsetenv("LOCKSTEP_TEST_OLD");
}

TEST(Process, RunsInItsFolder) {
  const TempDir folder;
  const CommandResult result = run_command({.argv = {"pwd", "-P"}, .working_folder = folder.path()}, 60s);
  EXPECT_EQ(trim(result.out), std::filesystem::canonical(folder.path()).string());
}

TEST(Process, WhatCannotBeStartedIsNamed) {
  const TempDir folder;
  const auto plain = folder.path() / "plain";
  write_file_atomic(plain, "no program");
  const std::vector<std::pair<std::string, std::string>> cases{{"/no/such/program", "No such file"},
                                                               {"no-such-program-anywhere", "No such file"},
                                                               {plain.string(), "Permission denied"},
                                                               {"", "No such file"}};
  for (const auto& [program, reason] : cases) {
    try {
      Process::spawn({.argv = {program}});
      FAIL() << "started '" << program << "'";
    } catch (const EnvironmentError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + program + "'"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(Process::spawn({.argv = {"true"}, .working_folder = "/no/such/folder"}), EnvironmentError);
}

TEST(Process, TimeoutKillsTheWholeGroup) {
  const CommandResult result = shell("sleep 1000 & echo $!; wait", 300ms);
  EXPECT_TRUE(result.is_timed_out);
  EXPECT_EQ(result.status.signal, SIGKILL);
  const auto grandchild = parse_int(trim(result.out));
  ASSERT_TRUE(grandchild);
  EXPECT_TRUE(becomes_true([&] { return !is_alive(static_cast<pid_t>(*grandchild)); }));
}

TEST(Process, ChildrenLeftBehindEndWithTheirLeader) {
  const CommandResult result = shell("sleep 1000 > /dev/null 2>&1 & echo $!");
  const auto grandchild = parse_int(trim(result.out));
  ASSERT_TRUE(grandchild);
  EXPECT_TRUE(becomes_true([&] { return !is_alive(static_cast<pid_t>(*grandchild)); }));
}

TEST(Process, SignalsArriveAndWaitForReportsTheRunning) {
  Process process = Process::spawn(
      {.argv = {"sh", "-c", "trap 'exit 42' USR1; echo ready; while :; do sleep 0.01; done"}, .out = Stream::kPipe});
  char ready[6];
  ASSERT_EQ(::read(process.out().get(), ready, sizeof ready), 6);
  EXPECT_FALSE(process.wait_for(0ms));
  process.send_signal(SIGUSR1);
  EXPECT_EQ(process.wait().code, 42);
  EXPECT_EQ(process.poll()->code, 42);  // and again
}

TEST(Process, BlockedSignalsAreNotHandedDown) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  Process process = Process::spawn({.argv = {"sleep", "1000"}});
  process.send_signal(SIGTERM);
  EXPECT_EQ(process.wait().signal, SIGTERM);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Process, TheDestructorLeavesNothing) {
  pid_t pid = -1;
  {
    const Process process = Process::spawn({.argv = {"sleep", "1000"}});
    pid = process.pid();
    EXPECT_TRUE(is_alive(pid));
  }
  EXPECT_FALSE(is_alive(pid));
}

TEST(Process, DiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t middle = ::fork();
  if (middle == 0) {
    Process process = Process::spawn({.argv = {"sleep", "1000"}});
    const pid_t pid = process.pid();
    (void)!::write(ends[1], &pid, sizeof pid);
    ::pause();
    ::_exit(0);
  }
  pid_t grandchild = -1;
  ASSERT_EQ(::read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  EXPECT_TRUE(is_alive(grandchild));
  ::kill(middle, SIGKILL);
  ::waitpid(middle, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return !is_alive(grandchild); }));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Process, APtyLooksLikeATerminal) {
  Process process = Process::spawn({.argv = {"sh", "-c", "test -t 2 && echo yes >&2"}, .err = Stream::kPty});
  EXPECT_EQ(process.wait().code, 0);
  char text[16];
  const ssize_t count = ::read(process.err().get(), text, sizeof text);
  ASSERT_GT(count, 0);
  EXPECT_EQ(std::string(text, static_cast<size_t>(count)), "yes\n");  // raw: no carriage return
}

}  // namespace
}  // namespace lockstep::core
