// The demo of GPT training in its short form: tokenizer, one rank, two tensor ranks stopped by SIGTERM, two pipeline
// stages, generation.
#include <gtest/gtest.h>

#include <filesystem>

#include "commands/run_program.h"
#include "core/files.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

TEST(DemoText, StopsOnTensorRanksAndGoesOnAsPipelineStagesOnOneRanksCurve) {
  const core::TempDir folder;
  const auto done = run_program({(fs::path(LOCKSTEP_SOURCE_DIR) / "examples/text/demo.sh").string(), lockstep_program(),
                                 folder.path().string(), "--short"},
                                {}, std::chrono::minutes(4));
  ASSERT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_NE(done.out.find("This program is free software"), std::string::npos) << done.out;
  const auto run = record::read_run(folder.path() / "logs/two");
  ASSERT_EQ(run.attempts.size(), 2u);
  EXPECT_EQ(run.attempts[0].at("setup").at("layout"), "dp=1 tp=2 pp=1");
  EXPECT_EQ(run.attempts[1].at("setup").at("layout"), "dp=1 tp=1 pp=2");
  EXPECT_EQ(record::read_steps(folder.path() / "logs/two").steps.size(), 80u);
}

}  // namespace
}  // namespace lockstep::tests
