#include "core/log.h"

#include <gtest/gtest.h>

#include <string>

#include "core/files.h"
#include "support/stalled_pipe.h"

namespace lockstep::core {
namespace {

TEST(Log, AStalledFileHoldsNobodyUpAndTellsWhatItLost) {
  const TempDir folder;
  tests::StalledPipe pipe(folder.path() / "out.log");
  LogConfig quiet;
  quiet.to_stderr = false;
  configure_log(quiet);
  open_log_file((folder.path() / "out.log").string());
  constexpr int kLines = 3000;  // of 10,000 bytes: several times what the queue holds
  for (int line = 0; line < kLines; ++line) log_info("line {} {}", line, std::string(10'000, 'x'));
  pipe.drain();
  open_log_file("");  // waits for what was queued
  const std::string written = pipe.take();
  configure_log({});
  int whole = 0;
  for (size_t at = 0; (at = written.find("| INFO | line ", at)) != std::string::npos; ++at) ++whole;
  EXPECT_GT(whole, 100);
  EXPECT_LT(whole, kLines);
  EXPECT_NE(written.find("(" + std::to_string(kLines - whole) + " lines are missing here"), std::string::npos)
      << whole << " lines; ends in " << written.substr(written.size() - 200);
}

TEST(Log, ANameBeginsNoLineOfItsOwn) {
  const TempDir folder;
  const std::string path = (folder.path() / "out.log").string();
  LogConfig quiet;
  quiet.to_stderr = false;
  configure_log(quiet);
  open_log_file(path);
  log_info("read '{}'", "a\n2026-01-01,00:00:00 | INFO | Train Epoch: 0");
  open_log_file("");
  configure_log({});
  const std::string written = read_file(path);
  EXPECT_EQ(written.find('\n'), written.size() - 1) << written;
  EXPECT_NE(written.find("read 'a\\u000a2026-01-01"), std::string::npos) << written;
}

TEST(Log, ProgressIsCutBehindWholeCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc");
  EXPECT_EQ(shortened("ab\u00e9", 3), "ab");
  EXPECT_EQ(shortened("\U0001F408", 3), "");
}

}  // namespace
}  // namespace lockstep::core
