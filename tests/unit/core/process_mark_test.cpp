#include "core/process_mark.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "core/strings.h"

namespace lockstep::core {
namespace {

/// A process that has told its mark and waits for the end of its standard input.
struct Child {
  pid_t pid = -1;
  int release = -1;
  std::string mark{};

  Child() {
    std::array<int, 2> told{}, released{};
    EXPECT_EQ(::pipe(told.data()) | ::pipe(released.data()), 0);
    pid = ::fork();
    if (pid == 0) {
      ::close(released[1]);
      const std::string own = process_mark();
      char byte = 0;
      const bool is_told = ::write(told[1], own.data(), own.size()) == static_cast<ssize_t>(own.size());
      ::close(told[1]);
      ::_exit(is_told && ::read(released[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::close(told[1]);
    ::close(released[0]);
    release = released[1];
    std::array<char, 256> text{};
    const ssize_t size = ::read(told[0], text.data(), text.size());
    mark.assign(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    ::close(told[0]);
  }
};

TEST(ProcessMark, TellsTheEndOfAProcessAlsoWhereNobodyHasAskedForIt) {
  const Child child;
  ASSERT_FALSE(child.mark.empty());
  EXPECT_FALSE(has_process_ended(child.mark)) << child.mark;
  ::close(child.release);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(has_process_ended(child.mark)) << "its parent has not asked for it yet: " << child.mark;
  ASSERT_EQ(::waitpid(child.pid, nullptr, 0), child.pid);
  EXPECT_TRUE(has_process_ended(child.mark)) << child.mark;
}

TEST(ProcessMark, ANumberThatAnotherProcessHasNowIsNotTheOne) {
  std::vector<std::string> words = split(process_mark(), " ");
  ASSERT_EQ(words.size(), 4u);
  EXPECT_EQ(words[2], std::to_string(::getpid()));
  EXPECT_FALSE(has_process_ended(process_mark()));
  EXPECT_TRUE(has_process_ended(fmt::format("{} {} {} 1{}", words[0], words[1], words[2], words[3])));
}

TEST(ProcessMark, SaysNothingOfOtherMachinesAndOfWhatIsNoMark) {
  const std::vector<std::string> words = split(process_mark(), " ");
  ASSERT_EQ(words.size(), 4u);
  constexpr const char* kNobody = "4194305";  // above the kernel's highest number
  EXPECT_TRUE(has_process_ended(fmt::format("{} {} {} 1", words[0], words[1], kNobody)));
  EXPECT_FALSE(has_process_ended(fmt::format("another-boot {} {} 1", words[1], kNobody)));
  EXPECT_FALSE(has_process_ended(fmt::format("{} pid:[1] {} 1", words[0], kNobody)));
  for (const char* number : {"0", "-1", "x", "99999999999"})
    EXPECT_FALSE(has_process_ended(fmt::format("{} {} {} 1", words[0], words[1], number))) << number;
  EXPECT_FALSE(has_process_ended(""));
  EXPECT_FALSE(has_process_ended("1234"));
}

}  // namespace
}  // namespace lockstep::core
