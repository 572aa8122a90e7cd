// Real runs with a known fault, through `lockstep report`: the check that belongs to the fault fires and its share is
// the injected one.
#include <fmt/format.h>

#include "commands/train_fixture.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

using core::Json;

class ReportFaults : public TrainFixture {
 protected:
  ProgramResult train_with(const std::string& fault, const std::string& name) const {
    auto args =
        train_args(name, {"--epochs", "8", "--max-steps", "40", "--save-frequency", "0", "--val-frequency", "0"});
    args.insert(args.begin(), {"launch", "--nproc-per-node", "2", "--"});
    return run_lockstep(args, {{"LOCKSTEP_FAULT", fault}});
  }
  Json report_on(const std::string& name) const {
    const auto result = run_lockstep({"report", (logs_.path() / name).string(), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return core::parse_json(result.out, "report");
  }
  /// Sentences of the checks with this code that speak of `words`.
  static std::vector<std::string> sentences(const Json& report, const std::string& code,
                                            const std::string& words = "") {
    std::vector<std::string> found;
    for (const Json& check : report.at("checks"))
      if (const std::string sentence = check.at("sentence");
          check.at("code") == code && sentence.find(words) != std::string::npos)
        found.push_back(sentence);
    return found;
  }
  static const Json& point(const Json& report) { return report.at("curves").at(0).at("points").at(0); }
};

TEST_F(ReportFaults, ASlowRankIsNamedAndTheOthersWaitingIsExposedCommunication) {
  constexpr double kSlowMs = 120;  // many times the 10 ms of a step, so that a busy machine changes no share by a tenth
  const auto trained = train_with(fmt::format("slow-compute rank=1 ms={}", kSlowMs), "slow");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json report = report_on("slow");
  ASSERT_EQ(point(report).at("devices"), 2) << "the fault is of rank 1";
  EXPECT_EQ(sentences(report, "M12", "rank 1 ").size(), 1u) << report.at("checks").dump(1);
  EXPECT_TRUE(sentences(report, "M12", "rank 0 ").empty()) << report.at("checks").dump(1);
  const double step_ms = point(report).at("step_mean_ms"),
               exposed_ms = point(report).at("phases_ms").at("exposed_comm");
  EXPECT_GE(step_ms, kSlowMs);
  EXPECT_GE(exposed_ms, 0.75 * kSlowMs)
      << "rank 0 waits in collectives while rank 1 sleeps";  // longer where the machine is busy
}

TEST_F(ReportFaults, TheRankThatFailedFirstStandsInTheRecordAndTheReport) {
  const auto died = train_with("die rank=1 from=5", "died");
  EXPECT_NE(died.exit_code, 0);
  const Json status = core::read_json_file(logs_.path() / "died" / "status.json");
  EXPECT_EQ(status.at("first_failing_rank"), 1) << status.dump(1);
  EXPECT_EQ(status.at("state"), "failed");
  const std::string log = core::read_file(logs_.path() / "died" / "out.log");
  EXPECT_NE(log.find(" | ERROR | launch: rank 1 on "), std::string::npos) << log;
  const auto first = train_with("die rank=0 from=5", "died-first");
  EXPECT_NE(first.exit_code, 0);
  const Json killed = core::read_json_file(logs_.path() / "died-first" / "status.json");
  EXPECT_EQ(killed.at("first_failing_rank"), 0) << killed.dump(1);
  EXPECT_EQ(killed.at("state"), "failed") << "rank 0 could not say so itself";
  const Json report = report_on("died");
  EXPECT_NE(report.at("runs").at(0).at("message").get<std::string>().find("rank 1 failed first"), std::string::npos)
      << report.at("runs").at(0).dump(1);
}

TEST_F(ReportFaults, TheLogOfARunHoldsTheErrorThatEndedIt) {
  const auto broken = train("broken", {}, {{"LOCKSTEP_FAULT", "throw rank=0 from=2"}});
  EXPECT_EQ(broken.exit_code, 1) << broken.err;
  const std::string log = core::read_file(logs_.path() / "broken" / "out.log");
  const std::string line = " | ERROR | train: an error was asked for by LOCKSTEP_FAULT\n";
  EXPECT_NE(log.find(line), std::string::npos) << log;
  EXPECT_EQ(log.find(line), log.rfind(line)) << "once";
}

TEST_F(ReportFaults, PhasesAddUpToTheStepAndEvaluationsTellTheirTime) {
  ASSERT_EQ(train("whole", {"--max-steps", "12", "--val-data", shapes("val_shards"), "--force-patch-dropout", "0.5"})
                .exit_code,
            0);
  const auto read = record::read_steps(logs_.path() / "whole");
  ASSERT_EQ(read.steps.size(), 12u);
  double other_ms = 0;
  for (const auto& step : read.steps) {
    double sum_ms = 0;
    for (const auto& [phase, ms] : step.phases_ms) {
      sum_ms += ms;
      if (phase == "other") other_ms += ms;
    }
    EXPECT_NEAR(sum_ms, step.step_ms, 1e-6 * step.step_ms) << "one rank: step_ms is its own";
  }
  EXPECT_GT(other_ms, 0);
  const Json result = Json::parse(core::split(core::read_file(logs_.path() / "whole" / "results.jsonl"), "\n").at(0));
  EXPECT_GT(result.at("seconds").get<double>(), 0) << result.dump();
  const Json setup = core::read_json_file(logs_.path() / "whole" / "run.json").at("attempts").at(0).at("setup");
  EXPECT_LT(setup.at("processed_gflops_per_sample").get<double>(), setup.at("forward_gflops_per_sample").get<double>());
}

TEST_F(ReportFaults, ASlowLoaderIsADataStall) {
  // A storage that gives 8 KiB every 50 ms: a batch of eight pictures is about three such pieces.
  const fs::path throttle = logs_.path() / "throttle.sh";
  std::ofstream(throttle) << "i=0\nsize=$(stat -c %s \"$1\")\nwhile [ $((8192 * i)) -lt \"$size\" ]; do\n"
                          << "  dd if=\"$1\" bs=8192 skip=$i count=1 2>/dev/null\n  i=$((i + 1))\n  sleep 0.05\ndone\n";
  const std::vector<std::string> more = {"--max-steps",         "24", "--epochs",         "8",
                                         "--train-num-samples", "96", "--save-frequency", "0"};
  const auto fast = train("fast", more);
  ASSERT_EQ(fast.exit_code, 0) << fast.err;
  auto args = more;
  args.insert(args.end(), {"--train-data", fmt::format("pipe:sh {} {}", throttle.string(), shapes("train_shards"))});
  const auto slow = train("starved", args);
  ASSERT_EQ(slow.exit_code, 0) << slow.err;
  const Json report = report_on("starved");
  EXPECT_EQ(sentences(report, "M11", "waiting for data").size(), 1u) << report.at("checks").dump(1);
  EXPECT_GT(point(report).at("step_mean_ms").get<double>(), 50) << "less than the sleep before one piece";
  double waited_ms = 0, sum_ms = 0;  // of the very run: others of the machine slow its steps as well
  for (const auto& step : record::read_steps(logs_.path() / "starved").steps) {
    for (const auto& [phase, ms] : step.phases_ms) waited_ms += phase == "data_wait" ? ms : 0;
    sum_ms += step.step_ms;
  }
  EXPECT_NEAR(point(report).at("data_wait_share").get<double>(), waited_ms / sum_ms, 0.1);
  EXPECT_GT(waited_ms, 0.5 * sum_ms);
  EXPECT_LT(point(report_on("fast")).at("data_wait_share").get<double>(), 0.5);
}

}  // namespace
}  // namespace lockstep::tests
