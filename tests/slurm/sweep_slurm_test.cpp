// Sweeps on a real SLURM of four nodes that lives as long as the test (tools/onebox_slurm.sh), with real engine runs
// over Gloo.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "record/reader.h"
#include "slurm/cluster.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

/// One cluster for all tests of this file; sweep_slurm.sh does the work, the tests look at what it left.
class SweepOnSlurm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    skip_reason_ = new std::string(reason_against_cluster());
    folder_ = new core::TempDir("lockstep_slurm");
    if (!skip_reason_->empty()) return;
    const auto run =
        run_program({kCluster, "--nodes", "4", "--", std::string(LOCKSTEP_SOURCE_DIR) + "/tests/slurm/sweep_slurm.sh",
                     lockstep_program(), LOCKSTEP_SOURCE_DIR, folder_->path().string()},
                    {{"SLURM_CONF", std::nullopt}}, std::chrono::minutes(30));
    ASSERT_EQ(run.exit_code, 0) << run.out << run.err << logs();
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
  /// The ends of all job logs, for a failing test.
  static std::string logs() {
    std::string text;
    for (const auto& entry : fs::recursive_directory_iterator(folder_->path()))
      if (entry.path().extension() == ".out") {
        const std::string content = core::read_file(entry.path());
        text += "\n== " + entry.path().string() + "\n" +
                content.substr(content.size() - std::min<size_t>(content.size(), 2000));
      }
    return text;
  }
  static core::Json json(const std::string& name) { return core::parse_json(read(name), name); }
  static int count(const std::string& text, const std::string& part) {
    return static_cast<int>(core::split(text, part).size()) - 1;
  }
  static std::vector<double> losses(const std::string& run) {
    std::vector<double> values;
    for (const auto& step : record::read_steps(folder_->path() / run).steps) values.push_back(step.loss);
    return values;
  }

  static std::string* skip_reason_;
  static core::TempDir* folder_;
};
std::string* SweepOnSlurm::skip_reason_ = nullptr;
core::TempDir* SweepOnSlurm::folder_ = nullptr;

TEST_F(SweepOnSlurm, RanksKnowWhoTheyAre) {
  EXPECT_EQ(count(read("ranks-step.out"), "\"world_size\": 4,"), 4) << read("ranks-step.out");
  std::set<std::string> ranks;
  for (const auto& line : core::split(read("ranks-launch.out"), "\n"))
    if (line.find(" of 4 on ") != std::string::npos)
      ranks.insert(line.substr(line.rfind("] ") == std::string::npos ? 0 : line.rfind("] ") + 2));
  EXPECT_EQ(ranks, (std::set<std::string>{"0 of 4 on node1 at node1", "1 of 4 on node1 at node1",
                                          "2 of 4 on node2 at node1", "3 of 4 on node2 at node1"}))
      << read("ranks-launch.out");
  const std::string batch = read("ranks-batch.out");
  EXPECT_EQ(count(batch, "\"world_size\": 1,"), 1) << batch;  // the shell itself
  EXPECT_EQ(count(batch, "\"world_size\": 2,"), 2) << batch;  // a step smaller than the job
}

TEST_F(SweepOnSlurm, TheClapBenchmarkRunsFromItsOwnFileToItsTables) {
  EXPECT_NE(read("clap-submit.out").find("6 of 6 jobs submitted"), std::string::npos) << read("clap-submit.out");
  ASSERT_EQ(core::trim(read("clap-report.code")), "0") << read("clap-report.out") << logs();
  const core::Json report = json("clap-report.json");
  ASSERT_EQ(report.at("curves").size(), 2u) << read("clap-report.out");
  for (const core::Json& curve : report.at("curves")) {
    ASSERT_EQ(curve.at("points").size(), 3u) << curve.dump(1);
    const bool is_tiny = curve.at("points").at(0).at("samples_per_device") == 8;
    for (const core::Json& point : curve.at("points")) {
      EXPECT_EQ(point.at("devices"), point.at("nodes"));
      EXPECT_EQ(point.at("samples_per_device"), is_tiny ? 8 : 4);
      const double rate = point.at("mean_samples_per_s").get<double>();
      EXPECT_GT(rate, 0);
      // The benchmark's own column: three forward passes of its nominal figure over 989 TFLOP/s a device.
      const double nominal = is_tiny ? 111.20e9 : 130.09e9;
      const double billed = point.at("samples_per_s").at("value").get<double>();
      EXPECT_NEAR(point.at("mfu").get<double>() * 989e12 * point.at("devices").get<double>() / (3 * nominal * billed),
                  1, 1e-6)
          << point.dump(1);
    }
  }
  for (const core::Json& run : report.at("runs")) {
    EXPECT_EQ(run.at("setup").at("task"), "clap");
    EXPECT_EQ(run.at("steps"), 8);
    EXPECT_TRUE(run.at("setup").at("is_synthetic"));
  }
  const std::string page = read("clap-report/report.md");
  EXPECT_NE(page.find(" of 111.2 GFLOP forward per sample ("), std::string::npos)
      << page;  // why its MFU is not that of the real shapes
  EXPECT_NE(page.find("as model profiles count"), std::string::npos) << page;
  EXPECT_NE(page.find("MFU, computed FLOPs (%)"), std::string::npos) << page;
  EXPECT_TRUE(fs::exists(folder_->path() / "clap-report/report.html"));
}

TEST_F(SweepOnSlurm, TheVisionStudyRunsFromItsOwnFileToItsThreeEfficiencies) {
  EXPECT_NE(read("study-submit.out").find("8 of 8 jobs submitted"), std::string::npos) << read("study-submit.out");
  ASSERT_EQ(core::trim(read("study-report.code")), "0") << read("study-report.out") << logs();
  const core::Json report = json("study-report.json");
  ASSERT_EQ(report.at("curves").size(), 4u) << read("study-report.out");  // weak and strong, fp32 and amp
  for (const core::Json& curve : report.at("curves")) {
    const bool is_weak = curve.at("scaling") == "weak scaling";
    ASSERT_EQ(curve.at("points").size(), 2u) << curve.dump(1);
    EXPECT_EQ(curve.at("points").at(1).at("global_batch"), is_weak ? 8 : 4);
    for (const core::Json& point : curve.at("points")) {
      EXPECT_EQ(point.at("devices"), point.at("nodes"));
      EXPECT_GT(point.at("epoch_s").get<double>(), point.at("epoch_train_s").get<double>());
      EXPECT_GE(point.at("data_wait_share").get<double>(), 0);
      for (const char* definition : {"eff_epoch", "eff_train"}) EXPECT_GT(point.at(definition).get<double>(), 0);
      // The guide's batch time is of equal local batches: its study is weak scaling.
      EXPECT_EQ(point.at("eff_batch").is_null(), !is_weak && point.at("nodes") == 2) << point.dump(1);
    }
    const core::Json &one = curve.at("points").at(0), &two = curve.at("points").at(1);
    EXPECT_NEAR(two.at("eff_epoch").get<double>(),
                one.at("epoch_s").get<double>() / (2 * two.at("epoch_s").get<double>()), 1e-6);
    EXPECT_NEAR(two.at("eff_train").get<double>(),
                one.at("epoch_train_s").get<double>() / (2 * two.at("epoch_train_s").get<double>()), 1e-6);
  }
  for (const core::Json& run : report.at("runs")) {
    EXPECT_EQ(run.at("setup").at("task"), "imagenet");
    EXPECT_EQ(run.at("setup").at("tags").at("system"), "onebox");
    EXPECT_FALSE(run.at("setup").at("is_synthetic"));
  }
  const std::string page = read("study-report/report.md");
  EXPECT_NE(page.find("Epochs and input"), std::string::npos) << page;
  EXPECT_NE(page.find("Distribution of step times"), std::string::npos) << page;
  EXPECT_NE(page.find("of the fourth epoch"), std::string::npos) << page;  // the guide's own estimator
  for (const auto& entry : fs::directory_iterator(folder_->path() / "study/sweeps/resnet50-epicure/runs")) {
    const auto steps = record::read_steps(entry.path()).steps;  // every batch is kept
    EXPECT_EQ(steps.size(), entry.path().string().find("case_weak-nodes_2") == std::string::npos ? 32u : 16u);
    EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.data_wait_ms > 0; }));
  }
}

TEST_F(SweepOnSlurm, AFailedJobIsNamedAndOnlyItIsResumed) {
  EXPECT_NE(read("nodes-submit.out").find("3 of 3 jobs submitted"), std::string::npos) << read("nodes-submit.out");
  const core::Json failed = json("nodes-failed.json");
  ASSERT_EQ(failed.at("points").size(), 3u);
  EXPECT_EQ(failed.at("counts"), (core::Json{{"failed", 1}, {"finished", 2}})) << read("nodes-status.out") << logs();
  EXPECT_EQ(failed.at("points").at(1).at("state"), "failed");
  EXPECT_NE(read("nodes-status.out").find("an error was asked for by LOCKSTEP_FAULT"), std::string::npos)
      << read("nodes-status.out");
  EXPECT_NE(read("nodes-submit-again.out").find("nothing is left to start"), std::string::npos)
      << read("nodes-submit-again.out");
  EXPECT_NE(read("nodes-resume.out").find("1 of 1 job submitted"), std::string::npos) << read("nodes-resume.out");
  EXPECT_EQ(json("nodes.json").at("counts"), (core::Json{{"finished", 3}})) << logs();
  for (const int nodes : {1, 2, 4}) {
    const std::string run =
        "nodes/runs/000" + std::to_string(nodes == 4 ? 3 : nodes) + "-nodes_" + std::to_string(nodes);
    const auto attempts = record::read_run(folder_->path() / run).attempts;
    EXPECT_EQ(attempts.back().at("world_size"), nodes) << run;
    EXPECT_EQ(attempts.back().at("ranks_from"), "slurm") << run;
    EXPECT_EQ(losses(run).size(), 4u) << run;
  }
}

TEST_F(SweepOnSlurm, JobsRunOneAfterAnother) {
  const core::Json state = json("nodes/sweep.json");
  double previous_end_s = 0;
  for (const auto& point : state.at("points")) {
    const auto events =
        record::read_json_lines(folder_->path() / "nodes" / point.at("events").get<std::string>()).lines;
    ASSERT_GE(events.size(), 2u);
    EXPECT_GE(events[0].at("time_s").get<double>(), previous_end_s);
    previous_end_s = events[1].at("time_s");
  }
}

TEST_F(SweepOnSlurm, CollectTellsWhatItCost) {
  const std::string text = read("nodes-collect.out");
  EXPECT_NE(text.find("core-hours"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 4 job starts failed (25 %)"), std::string::npos) << text;
  const core::Json collected = json("nodes/collected.json");
  for (const auto& point : collected.at("points")) {
    EXPECT_GT(point.at("samples_per_s").get<double>(), 0) << point;
    EXPECT_GE(point.at("queue_wait_s").get<double>(), 0) << point;
    EXPECT_GT(point.at("node_hours").get<double>(), 0) << point;
  }
  EXPECT_EQ(collected.at("points").at(1).at("jobs"), 2);
  EXPECT_LT(collected.at("node_hours_used").get<double>(), collected.at("node_hours_planned").get<double>());
}

TEST_F(SweepOnSlurm, TheReportOfTheSweepHasItsThreeSizes) {
  EXPECT_EQ(read("nodes-report.code"), "0\n") << read("nodes-report.out");
  EXPECT_NE(read("nodes-report/report.html").find("Scaling efficiency"), std::string::npos) << read("nodes-report.out");
  const core::Json analysis = json("nodes-report.json");
  ASSERT_EQ(analysis.at("curves").size(), 1u) << read("nodes-report-json.err");
  EXPECT_EQ(analysis.at("curves").at(0).at("scaling"), "weak scaling");
  const core::Json& points = analysis.at("curves").at(0).at("points");
  ASSERT_EQ(points.size(), 3u) << points.dump(1);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(points[i].at("nodes"), 1 << i);
    EXPECT_GT(points[i].at("efficiency").at("value").get<double>(), 0) << points[i].dump(1);
  }
  EXPECT_DOUBLE_EQ(points[0].at("efficiency").at("value").get<double>(), 1);
}

TEST_F(SweepOnSlurm, AStoppedRunIsRequeuedAndGoesOnWithTheSameLosses) {
  const core::Json collected = json("stopped-collect.out");
  EXPECT_EQ(collected.at("points").at(0).at("state"), "finished") << logs();
  EXPECT_EQ(collected.at("points").at(0).at("requeues"), 1);
  EXPECT_EQ(collected.at("points").at(0).at("jobs"), 1);
  EXPECT_EQ(collected.at("points").at(1).at("requeues"), 0);
  const auto attempts = record::read_run(folder_->path() / "stopped/runs/0001-nodes_2").attempts;
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[1].at("world_size"), 4);
  const auto interrupted = losses("stopped/runs/0001-nodes_2"), whole = losses("stopped/runs/0002-nodes_2-repeat_2");
  ASSERT_EQ(whole.size(), 20u);
  EXPECT_NE(whole.front(), whole.back());
  EXPECT_EQ(interrupted, whole);
}

TEST_F(SweepOnSlurm, ACancelledJobSavesAndStaysCancelled) {
  EXPECT_EQ(read("cancelled-cancel.out"), "1 job cancelled\n");
  EXPECT_EQ(read("cancelled-queue.out"), "");
  EXPECT_NE(read("cancelled-status.out").find("1 cancelled"), std::string::npos) << read("cancelled-status.out");
  EXPECT_EQ(record::read_status(folder_->path() / "cancelled/runs/0001-nodes_2").state, "stopped") << logs();
  EXPECT_EQ(count(read("cancelled/jobs/0001.events.jsonl"), "\"start\""), 1);
}

}  // namespace
}  // namespace lockstep::tests
