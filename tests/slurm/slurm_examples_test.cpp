// The job scripts of examples/slurm, and the command lines of OpenCLIP's guide, on a real SLURM of two nodes that lives
// as long as the test (tools/onebox_slurm.sh). slurm_examples.sh does the work, the tests look at what it left.
#include <gtest/gtest.h>

#include <set>

#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "record/reader.h"
#include "slurm/cluster.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

class SlurmExamples : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    skip_reason_ = new std::string(reason_against_cluster());
    folder_ = new core::TempDir("lockstep_slurm_examples");
    if (!skip_reason_->empty()) return;
    const auto run = run_program(
        {kCluster, "--nodes", "2", "--", std::string(LOCKSTEP_SOURCE_DIR) + "/tests/slurm/slurm_examples.sh",
         lockstep_program(), LOCKSTEP_SOURCE_DIR, folder_->path().string()},
        {{"SLURM_CONF", std::nullopt}, {"MASTER_ADDR", std::nullopt}, {"MASTER_PORT", std::nullopt}},
        std::chrono::minutes(20));
    ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete skip_reason_;
  }
  void SetUp() override {
    if (!skip_reason_->empty()) GTEST_SKIP() << *skip_reason_;
  }

  static std::string read(const std::string& name) {
    const fs::path path = folder_->path() / name;
    return fs::exists(path) ? core::read_file(path) : "(no " + name + ")";
  }
  static std::string all_of(const std::string& name) { return read(name + ".out") + read(name + ".job"); }
  static int code(const std::string& name) {
    return static_cast<int>(core::parse_int(core::trim(read(name + ".code"))).value_or(-1));
  }
  static fs::path run(const std::string& name) { return folder_->path() / "logs" / name; }
  /// The run has ended well, on four ranks, with this many steps.
  static void expect_run(const std::string& name, size_t num_steps) {
    const auto steps = record::read_steps(run(name)).steps;
    EXPECT_EQ(steps.size(), num_steps) << name;
    const auto attempts = record::read_run(run(name)).attempts;
    ASSERT_FALSE(attempts.empty()) << name;
    EXPECT_EQ(attempts.at(0).at("world_size"), 4) << name;
  }

  static std::string* skip_reason_;
  static core::TempDir* folder_;
};
std::string* SlurmExamples::skip_reason_ = nullptr;
core::TempDir* SlurmExamples::folder_ = nullptr;

TEST_F(SlurmExamples, DoctorLooksAtAllNodes) {
  EXPECT_EQ(code("doctor"), 0) << all_of("doctor");
  const std::string text = read("doctor.job");
  EXPECT_NE(text.find("all 4 ranks on 2 hosts met"), std::string::npos) << text;
  EXPECT_NE(text.find("all 2 pairs of nodes reach each other"), std::string::npos) << text;
}

TEST_F(SlurmExamples, TheProductionScriptTrains) {
  EXPECT_EQ(code("production"), 0) << all_of("production");
  expect_run("production", 6);  // 96 samples, 4 ranks x 4
}

TEST_F(SlurmExamples, TheProductionScriptStopsAtWhatDoctorFinds) {
  EXPECT_EQ(code("refused"), 4) << all_of("refused");
  EXPECT_NE(read("refused.job").find("'missing.tar' is not there"), std::string::npos) << read("refused.job");
  EXPECT_FALSE(fs::exists(run("refused")));
}

TEST_F(SlurmExamples, TheArrayHasARunForEachRate) {
  EXPECT_EQ(code("rates"), 0) << all_of("rates");
  expect_run("lr-1e-3", 6);
  expect_run("lr-5e-4", 6);
}

TEST_F(SlurmExamples, EvaluationAndStaging) {
  EXPECT_EQ(code("evaluate"), 0) << all_of("evaluate");
  EXPECT_NE(read("evaluate.job").find("imagenet-zeroshot-val-top1"), std::string::npos) << read("evaluate.job");
  EXPECT_EQ(code("staged"), 0) << all_of("staged");
  EXPECT_TRUE(!fs::exists(folder_->path() / "disk") || fs::is_empty(folder_->path() / "disk")) << "it cleans up";
}

TEST_F(SlurmExamples, TheAllocationRunsACommand) {
  EXPECT_EQ(code("interactive"), 0) << read("interactive.out");
  std::multiset<std::string> hosts;
  for (const std::string& line : core::split(read("interactive.out"), "\n"))
    if (line == "node1" || line == "node2") hosts.insert(line);
  EXPECT_EQ(hosts, (std::multiset<std::string>{"node1", "node1", "node2", "node2"})) << read("interactive.out");
}

TEST_F(SlurmExamples, EveryTrainingCommandOfTheGuideRunsToItsEnd) {
  for (const char* name : {"guide-basic", "guide-complete", "guide-slurm", "guide-production", "guide-remote",
                           "guide-array", "guide-huge"}) {
    EXPECT_EQ(code(name), 0) << name << "\n" << read(std::string(name) + ".out");
    expect_run(name, 6);
  }
  EXPECT_EQ(code("guide-accumulation"), 0) << read("guide-accumulation.out");
  expect_run("guide-accumulation", 2);  // four micro-batches a step: 64 samples, and the rest of the epoch rounded up
}

}  // namespace
}  // namespace lockstep::tests
