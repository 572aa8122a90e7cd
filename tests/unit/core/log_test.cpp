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

}  // namespace
}  // namespace lockstep::core
