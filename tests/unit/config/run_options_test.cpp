#include "config/run_options.h"

#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

TEST(RunOptions, ARunThatNobodyNamedIsContinuedByItsName) {
  EXPECT_EQ(flags_to_resume("", "", "2026_01_31-model_resnet18"), "--name 2026_01_31-model_resnet18 --resume latest");
  EXPECT_EQ(flags_to_resume("mine", "", "mine"), "--resume latest");
}

TEST(RunOptions, ARunOfSaveIsContinuedByLoad) {
  RunOptions options;
  options.name = "mine", options.save = "/runs/mine";
  EXPECT_EQ(flags_to_resume(options, "mine"), "--load '/runs/mine'");
}

}  // namespace
}  // namespace lockstep::config
