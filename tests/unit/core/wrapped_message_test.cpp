#include "core/wrapped_message.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(WrappedMessage, SaysModuleAndPathOnce) {
  const EnvironmentError error("files: cannot open '/a/b c.jpg': No such file or directory");
  EXPECT_EQ(wrapped_message("data: picture '/a/b c.jpg'", error),
            "data: picture '/a/b c.jpg': cannot open: No such file or directory");
  EXPECT_EQ(wrapped_message("data", error), "data: cannot open '/a/b c.jpg': No such file or directory");
  EXPECT_EQ(wrapped_message("data: list '/a/b'", error),
            "data: list '/a/b': cannot open '/a/b c.jpg': No such file or directory");
}

TEST(WrappedMessage, LeavesOtherMessagesAsTheyAre) {
  EXPECT_EQ(wrapped_message("sweep", EnvironmentError("process: cannot start")), "sweep: process: cannot start");
  EXPECT_EQ(wrapped_message("data", EnvironmentError("it's gone")), "data: it's gone");
  EXPECT_EQ(wrapped_message("data", EnvironmentError("")), "data: ");
}

}  // namespace
}  // namespace lockstep::core
