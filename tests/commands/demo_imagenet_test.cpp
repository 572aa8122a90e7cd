// The demo of ImageNet-style training in its short form: LMDBs, two ranks, a stop in the middle of an epoch and the
// same losses after it. The demo itself compares them.
#include <gtest/gtest.h>

#include <filesystem>

#include "commands/run_program.h"
#include "core/files.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

TEST(DemoImagenet, ReadsLmdbsOnTwoRanksAndGoesOnInTheMiddleOfAnEpoch) {
  const core::TempDir folder;
  const auto done = run_program({(fs::path(LOCKSTEP_SOURCE_DIR) / "examples/imagenet/demo.sh").string(),
                                 lockstep_program(), folder.path().string(), "--short"},
                                {}, std::chrono::minutes(4));
  ASSERT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_NE(done.out.find("top-1 accuracy, "), std::string::npos) << done.out;
  const auto run = record::read_run(folder.path() / "logs/resumed");
  ASSERT_EQ(run.attempts.size(), 2u);
  EXPECT_EQ(run.attempts[1].at("task"), "imagenet");
  EXPECT_EQ(record::read_steps(folder.path() / "logs/resumed").steps.size(), 8u);
}

}  // namespace
}  // namespace lockstep::tests
