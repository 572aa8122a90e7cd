#pragma once
#include <gtest/gtest.h>

#include <filesystem>

namespace lockstep::tests {

/// A test that starts the engine: skipped, and so counted, where only the front was built.
class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(LOCKSTEP_BUILD_DIR "/lockstep-engine"))
      GTEST_SKIP() << "built without lockstep-engine";
  }
};

}  // namespace lockstep::tests
