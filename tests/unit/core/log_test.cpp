#include "core/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/files.h"

namespace lockstep::core {
namespace {

/// A pipe that nobody empties stands for the stalled file system.
TEST(Log, AStalledFileHoldsNobodyUpAndTellsWhatItLost) {
  const TempDir folder;
  const auto pipe = folder.path() / "out.log";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  LogConfig quiet;
  quiet.to_stderr = false;
  configure_log(quiet);
  open_log_file(pipe.string());
  constexpr int kLines = 3000;  // of 10,000 bytes: several times what the queue holds
  for (int line = 0; line < kLines; ++line) log_info("line {} {}", line, std::string(10'000, 'x'));
  std::string written;
  std::jthread drain([&](const std::stop_token& stop) {
    char block[1 << 16];
    for (;;) {
      const ssize_t got = ::read(reader.get(), block, sizeof block);
      if (got > 0) written.append(block, static_cast<size_t>(got));
      else if (stop.stop_requested()) return;
      else std::this_thread::yield();
    }
  });
  open_log_file("");  // waits for what was queued
  drain.request_stop();
  drain.join();
  configure_log({});
  int whole = 0;
  for (size_t at = 0; (at = written.find("| INFO | line ", at)) != std::string::npos; ++at) ++whole;
  EXPECT_GT(whole, 100);
  EXPECT_LT(whole, kLines);
  EXPECT_NE(written.find("(" + std::to_string(kLines - whole) + " lines are missing here"), std::string::npos) << whole << " lines; ends in " << written.substr(written.size() - 200);
}

}  // namespace
}  // namespace lockstep::core
