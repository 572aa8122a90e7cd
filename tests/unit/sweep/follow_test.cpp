#include "sweep/follow.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "core/strings.h"
#include "sweep/collect.h"
#include "sweep/local_job.h"
#include "unit/sweep/fake_slurm.h"

namespace lockstep::sweep {
namespace {

constexpr double kNow = 2000;

/// A sweep whose first point has job 11, submitted at 1000.
struct FollowTest : public ::testing::Test {
  SweepFixture sweep{"[slurm]\ntime = \"01:00:00\"\n[billing]\nunit = \"GPU-h\"\nper-node-hour = 4\n"};
  SlurmView slurm;

  FollowTest() { submit(0, "11", 1000, ""); }
  void submit(size_t position, const std::string& id, double submitted_s, const std::string& after) {
    sweep.state.mode = "slurm";
    sweep.point(position).jobs.push_back(
        {.id = id, .submitted_s = submitted_s, .log = "logs/" + id + ".out", .after = after});
    sweep.point(position).status = PointStatus::kQueued;
  }
  const PointRecord& look() {
    refresh(sweep.folder, sweep.state, &slurm, kNow);
    return sweep.point(0);
  }
};

TEST_F(FollowTest, WaitingAndRunningComeFromTheQueue) {
  slurm.queue["11"] = {.state = "PENDING", .reason = "Priority"};
  EXPECT_EQ(look().status, PointStatus::kQueued);
  EXPECT_EQ(look().message, "Priority");
  slurm.queue["11"] = {.state = "RUNNING"};
  EXPECT_EQ(look().status, PointStatus::kRunning);
  sweep.note(0, "start", "11", 0, 1100, "null");
  sweep.note(0, "end", "11", 0, 1200, "75");
  slurm.queue["11"] = {.state = "PENDING", .reason = "BeginTime"};
  EXPECT_EQ(look().status, PointStatus::kQueued);
  EXPECT_EQ(look().message, "BeginTime, requeued after 1 starts");
  EXPECT_EQ(sweep.point(1).status, PointStatus::kPlanned);
}

TEST_F(FollowTest, TheRecordOfTheRunIsTheTruth) {
  sweep.record(0, "finished", "", 1500);
  EXPECT_EQ(look().status, PointStatus::kFinished);
}

TEST_F(FollowTest, WithoutTheQueueTheRunsStillTell) {
  submit(1, "12", 1000, "");
  submit(2, "13", 1000, "");
  sweep.record(0, "finished", "", 1500);
  sweep.record(1, "failed", "of a start before this job", 900);
  sweep.note(2, "start", "13", 0, 1100, "null");
  sweep.note(2, "end", "13", 0, 1200, "4");
  refresh(sweep.folder, sweep.state, nullptr, kNow);
  EXPECT_EQ(sweep.point(0).status, PointStatus::kFinished);
  EXPECT_EQ(sweep.point(1).state_text(), "unknown");
  EXPECT_EQ(sweep.point(1).status, PointStatus::kQueued) << "as it stood";
  EXPECT_EQ(sweep.point(2).status, PointStatus::kFailed);
  const std::string table = status_table(sweep.folder, sweep.state, nullptr, kNow);
  EXPECT_NE(table.find("1 failed, 1 finished, 1 unknown"), std::string::npos) << table;
}

TEST_F(FollowTest, AFailedRunKeepsItsMessage) {
  sweep.record(0, "failed", "data: cannot open 'x.tar'", 1500);
  slurm.queue["11"] = {.state = "FAILED"};
  EXPECT_EQ(look().status, PointStatus::kFailed);
  EXPECT_EQ(look().message, "data: cannot open 'x.tar'");
}

TEST_F(FollowTest, ARunThatSaysRunningWithoutAJobHasDied) {
  sweep.record(0, "running", "", kNow - 1);  // the heartbeat is fresh
  slurm.history["11"] = {{.state = "NODE_FAIL", .end_s = 1990}};
  EXPECT_EQ(look().status, PointStatus::kDied);
  EXPECT_NE(look().message.find("SLURM says NODE_FAIL"), std::string::npos) << look().message;
}

TEST_F(FollowTest, AStoppedRunIsStoppedUnlessItsJobWasCancelled) {
  sweep.record(0, "stopped", "", 1500);
  slurm.queue["11"] = {.state = "FAILED"};  // exit code 75, requeues used up
  EXPECT_EQ(look().status, PointStatus::kStopped);
  sweep.point(0).status = PointStatus::kRunning;
  slurm.queue["11"] = {.state = "CANCELLED"};
  EXPECT_EQ(look().status, PointStatus::kCancelled);
}

TEST_F(FollowTest, AFileOfBenchTellsHowItEnded) {
  const std::string file = "runs/bench.json";
  sweep.point(0).run = file;
  const auto write = [&](const std::string& text) {
    core::write_file_atomic(sweep.folder / file, text);
    sweep.point(0).status = PointStatus::kQueued;
  };
  write(R"({"rows": [], "summary": {"num_wrong": 0, "least_p50_ms": 2.5}})");
  EXPECT_EQ(look().status, PointStatus::kFinished);
  EXPECT_EQ(collect(sweep.folder, sweep.state, &slurm, kNow).results.at(0).bench.at("least_p50_ms"), 2.5);
  write(R"({"rows": [], "summary": {"num_wrong": 3}})");
  EXPECT_EQ(look().status, PointStatus::kFailed);
  EXPECT_NE(look().message.find("3 values are wrong"), std::string::npos) << look().message;
  write("{\"rows\"");
  EXPECT_EQ(look().status, PointStatus::kDied);
  const char* under_way = R"({"rows": [{"part": "step"}], "summary": {}, "incomplete": true})";
  write(under_way);
  const auto queue = slurm.queue;
  slurm.queue["11"] = {.state = "RUNNING"};
  EXPECT_EQ(look().status, PointStatus::kRunning) << "it is written anew behind each row";
  slurm.queue = queue;
  sweep.point(0).status = PointStatus::kQueued;
  sweep.note(0, "start", "11", 0, 4'000'000'000, "null");
  sweep.note(0, "end", "11", 0, 4'000'000'001, "2");
  EXPECT_EQ(look().status, PointStatus::kFailed) << "it ended before its last row: the exit code counts";
  std::filesystem::remove(sweep.folder / file);
  sweep.point(0).status = PointStatus::kQueued;
  sweep.note(0, "start", "11", 0, 1100, "null");
  sweep.note(0, "end", "11", 0, 1200, "2");
  EXPECT_EQ(look().status, PointStatus::kFailed) << "no file: the exit code counts";
}

TEST_F(FollowTest, AFileOfBenchThatIsOlderThanTheStartIsNotItsResult) {
  sweep.point(0).run = "runs/bench.json";
  core::write_file_atomic(sweep.folder / sweep.point(0).run, R"({"rows": [], "summary": {"num_wrong": 3}})");
  sweep.note(0, "start", "11", 0, 4'000'000'000, "null");  // long behind the file
  sweep.note(0, "end", "11", 0, 4'000'000'001, "6");
  EXPECT_EQ(look().status, PointStatus::kFailed);
  EXPECT_EQ(look().message, "exit code 6; see logs/11.out");
}

TEST_F(FollowTest, WithoutARecordTheExitCodeOfTheScriptCounts) {
  sweep.note(0, "start", "11", 0, 1100, "null");
  sweep.note(0, "end", "11", 0, 1200, "2");
  EXPECT_EQ(look().status, PointStatus::kFailed);
  EXPECT_EQ(look().message, "exit code 2; see logs/11.out");
}

TEST_F(FollowTest, WithoutARecordTheLogSaysWhy) {
  sweep.note(0, "start", "11", 0, 1100, "null");
  sweep.note(0, "end", "11", 0, 1200, "4");
  core::write_file_atomic(
      sweep.folder / "logs/11.out",
      std::string(100'000, 'x') +
          "\n1: lockstep: error: data: cannot open 'x.tar'\n  hint: h\nlockstep: error: comm: rank 3 left\nend\n");
  EXPECT_EQ(look().message, "data: cannot open 'x.tar' (exit code 4; see logs/11.out)");
  EXPECT_EQ(failure_message(sweep.folder, "logs/none.out", "exit code 9"), "exit code 9; see logs/none.out");
}

TEST_F(FollowTest, ALaterStartThatFailsInTheRendezvousIsNotTheStartBefore) {
  sweep.record(0, "stopped", "", 1150);
  sweep.note(0, "start", "10", 0, 1100, "null");
  sweep.note(0, "end", "10", 0, 1160, "75");
  sweep.note(0, "start", "11", 0, 1200, "null");
  sweep.note(0, "end", "11", 0, 1300, "3");
  core::write_file_atomic(sweep.folder / "logs/11.out",
                          "0: lockstep: error: comm: 3 of 4 ranks met at node1:29500 within 60 s\n");
  EXPECT_EQ(look().status, PointStatus::kFailed);
  EXPECT_EQ(look().message, "comm: 3 of 4 ranks met at node1:29500 within 60 s (exit code 3; see logs/11.out)");
}

TEST_F(FollowTest, ASweepWrittenAnewTakesItsRunsForWhatTheirRecordsSay) {
  sweep.record(1, "finished", "", 1500);
  sweep.record(2, "failed", "data: cannot open 'x.tar'", 1500);
  std::filesystem::remove(state_file(sweep.folder));
  sweep.state = write_sweep(sweep.file, sweep.plan, sweep.folder, "/bin/true");
  look();
  EXPECT_EQ(sweep.point(0).status, PointStatus::kPlanned);
  EXPECT_EQ(sweep.point(1).status, PointStatus::kFinished);
  EXPECT_EQ(sweep.point(2).status, PointStatus::kFailed);
  EXPECT_EQ(sweep.point(2).message, "data: cannot open 'x.tar'");
}

TEST_F(FollowTest, AnAliveRunWithoutAKnownJobIsHeldBackUntilItEnds) {
  std::filesystem::remove(state_file(sweep.folder));
  sweep.state = write_sweep(sweep.file, sweep.plan, sweep.folder, "/bin/true");
  EXPECT_EQ(started_mode(sweep.folder, sweep.state), "");
  sweep.record(1, "running", "", kNow - 1);
  sweep.note(1, "start", "12", 0, 1100, "null");
  look();
  EXPECT_EQ(started_mode(sweep.folder, sweep.state), "slurm");
  EXPECT_EQ(sweep.point(1).status, PointStatus::kRunning);
  EXPECT_EQ(held_back(sweep.state), (std::vector<int64_t>{2}));
  EXPECT_EQ(resumable(sweep.state), (std::vector<int64_t>{1, 3}));
  sweep.record(1, "stopped", "", kNow);
  look();
  EXPECT_EQ(sweep.point(1).status, PointStatus::kStopped);
  EXPECT_EQ(held_back(sweep.state), std::vector<int64_t>{});
}

TEST_F(FollowTest, AJobThatNobodyKnowsHasDied) {
  EXPECT_EQ(look().status, PointStatus::kDied);
  EXPECT_NE(look().message.find("SLURM no longer knows job 11"), std::string::npos) << look().message;
}

TEST_F(FollowTest, ACancelledWaitingJobIsCancelled) {
  slurm.history["11"] = {{.state = "CANCELLED"}};
  EXPECT_EQ(look().status, PointStatus::kCancelled);
}

TEST_F(FollowTest, ADamagedStatusIsTold) {
  sweep.record(0, "finished", "", 1500);
  core::write_file_atomic(sweep.folder / sweep.point(0).run / "status.json", "{\"state\": ");
  EXPECT_EQ(look().status, PointStatus::kDied);
}

TEST_F(FollowTest, LocalRunsDieWithTheirProcess) {
  submit(0, "local-999999999", 1000, "");
  EXPECT_EQ(look().status, PointStatus::kDied);
  submit(1, "local-" + std::to_string(::getpid()), 1000, "");
  sweep.point(1).status = PointStatus::kRunning;
  refresh(sweep.folder, sweep.state, nullptr, kNow);
  EXPECT_EQ(sweep.point(1).status, PointStatus::kRunning);
}

TEST_F(FollowTest, AProcessThatGotTheNumberOfALocalJobLaterIsAnother) {
  const JobRef own = own_local_job("logs/1.out");
  ASSERT_GT(own.process_start, 0);
  EXPECT_TRUE(is_local_alive(own, {}));
  JobRef reused = own;
  reused.process_start -= 1;
  sweep.state.mode = "local";
  sweep.point(1).jobs.push_back(reused);
  sweep.point(1).status = PointStatus::kRunning;
  write_state(sweep.folder, sweep.state);
  SweepState read = read_state(sweep.folder);
  refresh(sweep.folder, read, nullptr, kNow);
  EXPECT_EQ(read.points[1].status, PointStatus::kDied);
  EXPECT_EQ(resumable(read), (std::vector<int64_t>{2, 3}));
}

TEST_F(FollowTest, ALocalJobOfAnotherHostIsJudgedByItsRecord) {
  JobRef elsewhere{
      .id = "local-999999999", .submitted_s = 1000, .log = "logs/1.out", .host = "another.host", .process_start = 5};
  EXPECT_TRUE(is_local_alive(elsewhere, {})) << "its run has not opened the record yet";
  EXPECT_TRUE(is_local_alive(elsewhere, {.status = PointStatus::kStopped, .heartbeat_s = 900}))
      << "the record is of the start before";
  EXPECT_TRUE(is_local_alive(elsewhere, {.status = PointStatus::kRunning, .heartbeat_s = 1900}));
  EXPECT_FALSE(is_local_alive(elsewhere, {.status = PointStatus::kDied, .heartbeat_s = 1100}));
  EXPECT_FALSE(is_local_alive(elsewhere, {.status = PointStatus::kFinished, .heartbeat_s = 1100}));
}

TEST_F(FollowTest, WaitsCountFromTheEndOfTheJobBefore) {
  submit(1, "12", 1000, "11");
  sweep.note(0, "start", "11", 0, 1100, "null");
  sweep.note(0, "end", "11", 0, 1200, "0");
  sweep.note(1, "start", "12", 0, 1230, "null");
  sweep.note(1, "end", "12", 0, 1300, "0");
  const auto views = view_points(sweep.folder, sweep.state, &slurm, kNow);
  EXPECT_EQ(views[0].queue_wait_s, 100);
  EXPECT_EQ(views[1].queue_wait_s, 30);
  EXPECT_FALSE(views[2].queue_wait_s);
  EXPECT_DOUBLE_EQ(views[1].node_hours, 2 * 70.0 / 3600);
}

TEST_F(FollowTest, NodeHoursIncludeFailedAndRunningStarts) {
  sweep.note(0, "start", "11", 0, 1000, "null");
  sweep.note(0, "end", "11", 0, 1360, "75");
  sweep.note(0, "start", "11", 1, 1400, "null");
  slurm.queue["11"] = {.state = "RUNNING"};
  look();
  const auto running = view_points(sweep.folder, sweep.state, &slurm, kNow);
  EXPECT_DOUBLE_EQ(running[0].node_hours, (360 + 600) / 3600.0);
  EXPECT_TRUE(running[0].has_estimated_end);
  slurm.queue.clear();
  slurm.history["11"] = {{.state = "TIMEOUT", .end_s = 1760}};
  look();
  EXPECT_DOUBLE_EQ(view_points(sweep.folder, sweep.state, &slurm, kNow)[0].node_hours, 0.2);
}

TEST_F(FollowTest, ALocalSweepCostsTheHoursOfOneNode) {
  sweep.point(1).jobs.push_back({.id = "local-999999999", .submitted_s = 1000, .log = "logs/2.out"});
  sweep.state.mode = "local";
  sweep.note(1, "start", "local-999999999", 0, 1000, "null");
  sweep.note(1, "end", "local-999999999", 0, 1360, "0");
  ASSERT_EQ(sweep.point(1).nodes, 2);
  const Collection collection = collect(sweep.folder, sweep.state, nullptr, kNow);
  EXPECT_DOUBLE_EQ(collection.results[1].view.node_hours, 0.1);
  EXPECT_DOUBLE_EQ(collection.sizes[1].node_hours_planned, 1);
  const std::string text = collection_text(sweep.state, collection);
  EXPECT_NE(text.find("every point ran on this one machine"), std::string::npos) << text;
  sweep.state.mode = "slurm";
  EXPECT_EQ(collection_text(sweep.state, collection).find("this one machine"), std::string::npos);
}

TEST_F(FollowTest, ACutLineOfAScriptIsSkipped) {
  sweep.note(0, "start", "11", 0, 1000, "null");
  std::ofstream(sweep.folder / sweep.point(0).events, std::ios::app) << "{\"event\":\"en";
  const auto spans = read_spans(sweep.folder / sweep.point(0).events);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_FALSE(spans[0].end_s);
}

TEST_F(FollowTest, CollectsRatesCostsAndProposals) {
  sweep.note(0, "start", "11", 0, 1000, "null");
  sweep.note(0, "end", "11", 0, 1100, "4");
  sweep.note(0, "start", "13", 0, 1200, "null");
  sweep.note(0, "end", "13", 0, 1500, "0");
  sweep.record(0, "finished", "", 1500);
  core::write_file_atomic(sweep.folder / sweep.point(0).run / "run.json",
                          R"({"record_version": 1, "attempts": [{"attempt": 1, "started_s": 1205}]})");
  std::ofstream steps(sweep.folder / sweep.point(0).run / "steps.jsonl");
  for (int step = 0; step < 60; ++step)
    steps << core::Json{{"attempt", 1},
                        {"step", step},
                        {"samples", 64},
                        {"samples_seen", 64 * (step + 1)},
                        {"step_ms", step < 5 ? 900 : 100 + step % 3},
                        {"data_wait_ms", 0},
                        {"samples_per_s", 1},
                        {"loss", 5.0 - step},
                        {"lr", 0.1},
                        {"time_s", 1260.0 + step}}
                 .dump()
          << "\n";
  steps.close();
  look();
  const Collection collection = collect(sweep.folder, sweep.state, &slurm, kNow);
  const PointResult& result = collection.results[0];
  EXPECT_EQ(result.num_steps, 60);
  EXPECT_LE(result.num_measured, 55);
  EXPECT_DOUBLE_EQ(*result.step_ms, 101);
  EXPECT_DOUBLE_EQ(*result.samples_per_s, 64.0 / 101 * 1000);
  EXPECT_DOUBLE_EQ(*result.last_loss, -54);
  EXPECT_DOUBLE_EQ(*result.startup_s, 60);
  EXPECT_DOUBLE_EQ(*result.ran_s, 400);
  EXPECT_EQ(collection.num_jobs, 2);
  EXPECT_EQ(collection.num_failed_jobs, 1);
  EXPECT_DOUBLE_EQ(collection.node_hours_used, 400.0 / 3600);
  EXPECT_DOUBLE_EQ(collection.node_hours_planned, 7);
  ASSERT_EQ(collection.sizes.size(), 3u);
  EXPECT_EQ(collection.sizes[0].proposed_limit_s, propose_time_limit(60, 400, 120));
  EXPECT_FALSE(collection.sizes[1].proposed_limit_s);
  const std::string text = collection_text(sweep.state, collection);
  EXPECT_NE(text.find("= 28.00 GPU-h, used 0.111 node-hours = 0.44 GPU-h"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 2 job starts failed (50 %)"), std::string::npos) << text;
  const core::Json json = collection_json(sweep.state, collection);
  EXPECT_EQ(json["points"][0]["startup_s"], 60);
  EXPECT_TRUE(json["points"][1]["step_ms"].is_null());
}

TEST_F(FollowTest, CostsAreToldInDeviceHoursWhereEveryPointSaysItsDevices) {
  sweep.note(0, "start", "11", 0, 1000, "null");
  sweep.note(0, "end", "11", 0, 4600, "0");
  sweep.record(0, "finished", "", 4600);
  look();
  const auto used = [&] { return collect(sweep.folder, sweep.state, &slurm, kNow); };
  EXPECT_TRUE(used().device_hours_used.empty()) << "no point says its devices";
  for (PointRecord& point : sweep.state.points) point.devices = {.count = 8, .unit = "GPU-hours"};
  const Collection collection = used();
  ASSERT_EQ(collection.device_hours_used.size(), 1u);
  EXPECT_DOUBLE_EQ(collection.node_hours_used, 1);
  EXPECT_DOUBLE_EQ(collection.device_hours_used.at("GPU-hours"), 8);
  EXPECT_DOUBLE_EQ(collection_json(sweep.state, collection).at("device_hours_used").at("GPU-hours").get<double>(), 8);
  const std::string text = collection_text(sweep.state, collection);
  EXPECT_NE(text.find(" = 8.00 GPU-hours\n"), std::string::npos) << text;
  sweep.state.points.back().devices = {};
  EXPECT_TRUE(used().device_hours_used.empty()) << "one point does not";
}

TEST(ProposeTimeLimit, GrowsWithStartupAndRunAndIsRounded) {
  EXPECT_EQ(propose_time_limit(60, 360, 120), 600);     // 90 + 345 + 120 = 555
  EXPECT_EQ(propose_time_limit(600, 1200, 120), 1800);  // 900 + 690 + 120 = 1710
  EXPECT_GT(propose_time_limit(900, 1200, 120), propose_time_limit(600, 1200, 120));
}

TEST(SweepState, ReadsBackWhatItWrote) {
  SweepFixture sweep("[env]\nA = \"b c\"\n[tags]\nfwd-gflops = 111.2\n[submit]\nin-flight = 3\n");
  sweep.point(1).message = "line\nbreak";
  sweep.point(1).jobs.push_back({.id = "7_1", .submitted_s = 12.5, .log = "l", .after = "6"});
  write_state(sweep.folder, sweep.state);
  const SweepState read = read_state(sweep.folder);
  ASSERT_EQ(read.points.size(), 3u);
  EXPECT_EQ(read.points[1].message, "line\nbreak");
  EXPECT_EQ(read.points[1].jobs.at(0).id, "7_1");
  EXPECT_EQ(read.points[1].axes, sweep.point(1).axes);
  EXPECT_EQ(read.points[1].tags.at("fwd-gflops"), "111.2");
  EXPECT_EQ(read.points[1].env.at(0).second, "b c");
  EXPECT_EQ(read.points[1].arguments, sweep.point(1).arguments);
  EXPECT_EQ(read.points[1].samples_per_replica, 64);
  EXPECT_EQ(read.in_flight, 3);
  EXPECT_EQ(read.submit_order, sweep.state.submit_order);
}

TEST(SweepState, DamageIsRefusedWithTheFile) {
  SweepFixture sweep;
  const auto error_with = [&](const std::string& content) -> std::string {
    core::write_file_atomic(state_file(sweep.folder), content);
    try {
      read_state(sweep.folder);
    } catch (const DataError& error) {
      return error.text();
    }
    return "";
  };
  const std::string good = core::read_file(state_file(sweep.folder));
  EXPECT_EQ(error_with(good), "");
  const std::string cut = error_with(good.substr(0, good.size() / 2));
  for (const std::string& words : {std::string("sweep.json"), std::string("is damaged"), std::string("at line "),
                                   fmt::format("`lockstep sweep {} --output {}`",
                                               (sweep.folder / "sweep.toml").string(), sweep.top.path().string())})
    EXPECT_NE(cut.find(words), std::string::npos) << cut;
  EXPECT_NE(error_with("{}").find("sweep_version"), std::string::npos);
  EXPECT_NE(
      error_with(core::replace_all(good, "\"state\": \"planned\"", "\"state\": \"odd\"")).find("'odd' is none of"),
      std::string::npos);
  EXPECT_NE(
      error_with(core::replace_all(good, "\"sweep_version\": 1", "\"sweep_version\": 9")).find("use a newer lockstep"),
      std::string::npos);
  EXPECT_NE(error_with(core::replace_all(good, "\"nodes\": 2", "\"nodes\": \"two\"")).find("is damaged"),
            std::string::npos);
  for (const char* size : {"9223372036854775807", "1000001", "0", "-1", "1e300", "1.5"}) {
    const std::string text = error_with(core::replace_all(good, "\"nodes\": 2", fmt::format("\"nodes\": {}", size)));
    EXPECT_NE(text.find("is no integer in [1, 1000000]"), std::string::npos) << size << ": " << text;
    EXPECT_NE(text.find("sweep.json"), std::string::npos) << text;
  }
  core::Json empty = core::parse_json(good, "sweep.json");
  empty["points"] = empty["submit_order"] = core::Json::array();
  EXPECT_NE(error_with(empty.dump()).find("it has no points"), std::string::npos) << "each command looks at the first";
  std::filesystem::remove(state_file(sweep.folder));
  EXPECT_THROW(read_state(sweep.folder), UsageError);
}

TEST(SweepFolder, AnotherSweepInTheSameFolderIsRefused) {
  SweepFixture sweep("seed = 1\n");
  sweep.point(0).status = PointStatus::kFinished;
  write_state(sweep.folder, sweep.state);
  SweepState again = write_sweep(sweep.file, sweep.plan, sweep.folder, "/bin/true");
  EXPECT_EQ(again.points[0].status, PointStatus::kFinished);  // gone on with
  const SweepFile other_file =
      parse_sweep_file(core::replace_all(sweep.file.text, "seed = 1", "seed = 2"), "other.toml");
  const Plan other = make_plan(other_file, [](const std::string&) { return std::nullopt; });
  EXPECT_THROW(write_sweep(other_file, other, sweep.folder, "/bin/true"), UsageError);
  const SweepFile longer_file = parse_sweep_file(sweep.file.text + "[slurm]\ntime = \"02:00:00\"\n", "f.toml");
  again = write_sweep(longer_file, make_plan(longer_file, [](const std::string&) { return std::nullopt; }),
                      sweep.folder, "/bin/true");
  EXPECT_EQ(again.points[2].time_limit_s, 7200);
  EXPECT_NE(core::read_file(sweep.folder / again.points[2].script).find("#SBATCH --time=02:00:00"), std::string::npos);
}

TEST(SweepFolder, OneProcessAtATime) {
  const SweepFixture sweep;
  const auto first = SweepLock::try_take(sweep.folder);
  ASSERT_TRUE(first);
  EXPECT_FALSE(SweepLock::try_take(sweep.folder));
  EXPECT_THROW(SweepLock::take(sweep.folder), EnvironmentError);
}

TEST(SweepFolder, ALinkInPlaceOfTheLockIsNotFollowed) {
  const core::TempDir folder;
  std::filesystem::create_symlink(folder.path() / "elsewhere", folder.path() / "sweep.lock");
  EXPECT_THROW(SweepLock::take(folder.path()), EnvironmentError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
}

}  // namespace
}  // namespace lockstep::sweep
