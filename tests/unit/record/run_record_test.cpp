#include "record/run_record.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <future>
#include <limits>
#include <new>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/host_name.h"
#include "core/rng.h"
#include "record/reader.h"
#include "record/run_data.h"
#include "support/error_text.h"
#include "support/file_size_limit.h"
#include "support/stalled_pipe.h"
#include "unit/record/record_checks.h"

namespace lockstep::record {
namespace {

using tests::append_text;

using core::Json;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

StepRecord record_of_step(int64_t step, double loss = 1.5) {
  return {.step = step,
          .samples = 64,
          .samples_seen = 64 * (step + 1),
          .step_ms = 10.25,
          .data_wait_ms = 0.5,
          .samples_per_s = 6244,
          .loss = loss,
          .lr = 5e-4};
}

TEST(RunRecord, LeavesTheFilesOfARun) {
  const core::TempDir folder;
  const fs::path run = folder.path() / "logs" / "name";
  {
    RunRecord record(run, Json{{"options", {{"batch_size", 64}}}, {"host", "override"}});
    EXPECT_EQ(record.attempt(), 1);
    EXPECT_EQ(read_status(run).state, "running");
    StepRecord full = record_of_step(0);
    full.epoch = 2, full.tokens = 4928, full.exposed_comm_ms = 0.125, full.grad_norm = 0.75,
    full.num_zeros = int64_t{1} << 36, full.params_norm = 12.5, full.scale = 14.3, full.loss_scale = 65536;
    full.is_skipped = true, full.device_memory_bytes = int64_t{1} << 34, full.host_memory_bytes = 12345,
    full.time_s = 1700000000.5;
    full.losses = {{"contrastive_loss", 1.25}, {"caption_loss", 0.25}};
    full.phases_ms = {{"forward", 4}, {"backward", 6.25}};
    record.append_step(full);
    record.append_step(record_of_step(1));
    record.append_rank_times({.step = 1, .num_steps = 2, .step_ms = {10, 11.5}, .hosts = {"a", "b"}});
    record.append_comm({.step = 1,
                        .kind = "all_reduce",
                        .axis = "dp",
                        .group_size = 2,
                        .bytes = 4096,
                        .count = 3,
                        .time_ms = 0.75,
                        .blocked_ms = 0.25});
    record.append_result({.step = 2, .epoch = 1, .name = "val", .metrics = {{"clip_val_loss", 3.5}}});
    record.write_params({{"workers", "4"}, {"batch_size", "64"}, {"lr", "0.0005"}});
    record.finish({.state = RunState::kFinished, .exit_code = 0});
  }
  const StepsRead read = read_steps(run);
  ASSERT_EQ(read.steps.size(), 2u);
  const StepRecord& first = read.steps[0];
  EXPECT_EQ(first.attempt, 1);
  EXPECT_EQ(first.epoch, 2);
  EXPECT_EQ(first.tokens, 4928);
  EXPECT_EQ(first.samples, 64);
  EXPECT_EQ(first.samples_seen, 64);
  EXPECT_EQ(first.step_ms, 10.25);
  EXPECT_EQ(first.data_wait_ms, 0.5);
  EXPECT_EQ(first.exposed_comm_ms, 0.125);
  EXPECT_EQ(first.samples_per_s, 6244);
  EXPECT_EQ(first.loss, 1.5);
  EXPECT_EQ(first.lr, 5e-4);
  EXPECT_EQ(first.grad_norm, 0.75);
  EXPECT_EQ(first.num_zeros, int64_t{1} << 36);
  EXPECT_EQ(first.params_norm, 12.5);
  EXPECT_EQ(first.scale, 14.3);
  EXPECT_EQ(first.loss_scale, 65536);
  EXPECT_TRUE(first.is_skipped);
  EXPECT_EQ(first.device_memory_bytes, int64_t{1} << 34);
  EXPECT_EQ(first.host_memory_bytes, 12345);
  EXPECT_EQ(first.losses, (NamedNumbers{{"contrastive_loss", 1.25}, {"caption_loss", 0.25}}));
  EXPECT_EQ(first.phases_ms, (NamedNumbers{{"forward", 4}, {"backward", 6.25}}));
  EXPECT_EQ(first.time_s, 1700000000.5);
  EXPECT_FALSE(read.steps[1].tokens);
  EXPECT_FALSE(read.steps[1].is_skipped);
  EXPECT_EQ(core::read_file(run / "params.txt"), "batch_size: 64\nlr: 0.0005\nworkers: 4\n");
  EXPECT_EQ(read_json_lines(run / "ranks.jsonl").lines.at(0).dump(),
            R"({"attempt":1,"step":1,"num_steps":2,"step_ms":[10.0,11.5],"hosts":["a","b"]})");
  EXPECT_EQ(
      read_json_lines(run / "comm.jsonl").lines.at(0).dump(),
      R"({"attempt":1,"step":1,"kind":"all_reduce","axis":"dp","group_size":2,"bytes":4096,"count":3,"time_ms":0.75,"blocked_ms":0.25})");
  EXPECT_EQ(read_json_lines(run / "results.jsonl").lines.at(0).dump(),
            R"({"attempt":1,"step":2,"epoch":1,"name":"val","metrics":{"clip_val_loss":3.5}})");
  const Json attempt = read_run(run).attempts.at(0);
  EXPECT_EQ(attempt["options"]["batch_size"], 64);
  EXPECT_EQ(attempt["host"], "override");
  const StatusRead status = read_status(run);
  EXPECT_EQ(status.state, "finished");
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_EQ(status.steps_done, 2);
  EXPECT_EQ(status.dropped_lines, 0);
}

TEST(RunRecord, AFullDiskLeavesTheFinalState) {
  const core::TempDir folder;
  RunRecord record(folder.path(), Json::object());
  // No room for a file beside status.json: what stands in the way of the temporary one acts like a full disk.
  std::filesystem::create_directory(folder.path() / fmt::format("status.json.tmp{}-{}", core::host_name(), ::getpid()));
  record.finish({.state = RunState::kFailed, .exit_code = 5, .message = "disk full"});
  const StatusRead status = read_status(folder.path());
  EXPECT_EQ(status.state, "failed");
  EXPECT_EQ(status.exit_code, 5);
  EXPECT_EQ(status.message, "disk full");
}

TEST(RunRecord, OlderRecordsTellTheStepsDoneByTheNumberOfTheLast) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "status.json",
                          R"({"record_version": 1, "state": "stopped", "attempt": 1, "last_step": 15})");
  EXPECT_EQ(read_status(folder.path()).steps_done, 16);
}

TEST(RunRecord, AttemptsAddUpAndTheLastOneOfAStepCounts) {
  const core::TempDir folder;
  {
    RunRecord first(folder.path(), Json::object());
    for (int step = 0; step < 5; ++step) first.append_step(record_of_step(step, 1.0 + step));
    first.finish({.state = RunState::kStopped, .exit_code = 75});
  }
  {
    RunRecord second(folder.path(), Json::object());
    EXPECT_EQ(second.attempt(), 2);
    for (int step = 3; step < 6; ++step) second.append_step(record_of_step(step, 100.0 + step));
    second.finish({});
  }
  const StepsRead read = read_steps(folder.path());
  ASSERT_EQ(read.steps.size(), 6u);
  EXPECT_EQ(read.steps[2].loss, 3.0);
  EXPECT_EQ(read.steps[3].loss, 103.0);
  EXPECT_EQ(read.steps[3].attempt, 2);
  EXPECT_EQ(read.num_superseded, 2);
  EXPECT_EQ(read_run(folder.path()).attempts.size(), 2u);
  EXPECT_EQ(RunRecord(folder.path(), Json::object(), {.attempt = 7}).attempt(), 7);
  EXPECT_EQ(RunRecord(folder.path(), Json::object()).attempt(), 8);
}

TEST(RunRecord, NumbersThatAreNotFiniteStayValidJson) {
  const core::TempDir folder;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  {
    RunRecord record(folder.path(), Json::object());
    StepRecord step = record_of_step(0, nan);
    step.grad_norm = inf, step.lr = -inf, step.losses = {{"a", nan}, {"b", 1}};
    record.append_step(step);
    record.append_rank_times({.step = 0, .step_ms = {nan, 2}});
    record.append_result({.step = 0, .name = "val", .metrics = {{"loss", inf}}});
    record.finish({});
  }
  const Json line = Json::parse(core::read_file(folder.path() / "steps.jsonl"));  // strict: NaN would throw
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_EQ(line["nonfinite"].dump(), R"({"loss":"nan","lr":"-inf","grad_norm":"inf"})");
  const StepRecord step = read_steps(folder.path()).steps.at(0);
  EXPECT_TRUE(std::isnan(step.loss));
  EXPECT_EQ(step.grad_norm, inf);
  EXPECT_EQ(step.lr, -inf);
  ASSERT_EQ(step.losses.size(), 2u);
  EXPECT_TRUE(std::isnan(step.losses[0].second));
  EXPECT_EQ(step.losses[1].second, 1);
}

TEST(RunRecord, ACutLastLineIsCountedAndDoesNotSwallowTheNext) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    record.append_step(record_of_step(0));
    record.finish({});
  }
  append_text(folder.path() / "steps.jsonl", R"({"attempt":1,"step":1,"sam)");
  EXPECT_TRUE(read_steps(folder.path()).is_last_line_cut);
  EXPECT_EQ(read_steps(folder.path()).num_damaged, 1);
  {
    RunRecord record(folder.path(), Json::object());
    record.append_step(record_of_step(1));
    record.finish({});
  }
  const StepsRead read = read_steps(folder.path());
  EXPECT_EQ(read.steps.size(), 2u);
  EXPECT_EQ(read.num_damaged, 1);
  EXPECT_FALSE(read.is_last_line_cut);
}

TEST(RunRecord, ADamagedRunFileIsKeptAsideAndTheAttemptsGoOn) {
  const core::TempDir folder;
  {
    RunRecord first(folder.path(), Json::object()), second(folder.path(), Json::object());
    second.append_step(record_of_step(0));
    second.finish({}), first.finish({});
  }
  core::write_file_atomic(folder.path() / "run.json", "{\"attempts\": [");
  const RunRecord third(folder.path(), Json::object());
  EXPECT_EQ(third.attempt(), 3);
  EXPECT_EQ(core::read_file(folder.path() / "run.json.damaged"), "{\"attempts\": [");
  EXPECT_EQ(read_run(folder.path()).attempts.size(), 1u);
}

TEST(RunRecord, ARunFileThatCannotBeReadIsNotTakenForDamaged) {
  const core::TempDir folder;
  { RunRecord(folder.path(), Json::object()).finish({}); }
  const fs::path file = folder.path() / "run.json", aside = folder.path() / "aside";
  fs::rename(file, aside);
  const auto expect_refused = [&] {
    const auto refused = tests::message_of<CheckpointError>([&] { RunRecord(folder.path(), Json::object()); });
    EXPECT_TRUE(tests::holds(refused, file.string())) << refused;
    EXPECT_FALSE(fs::exists(folder.path() / "run.json.damaged"));
  };
  fs::create_symlink("run.json", file);  // leads to itself: nobody can look at it
  expect_refused();
  fs::remove(file);
  fs::create_directory(file);  // is there, and cannot be read
  expect_refused();
  fs::remove(file);
  fs::rename(aside, file);
  EXPECT_EQ(RunRecord(folder.path(), Json::object()).attempt(), 2);
}

TEST(RunRecord, HowItEndsIsTold) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    record.finish(
        {.state = RunState::kFailed, .exit_code = 4, .message = "data: short shard", .first_failing_rank = 3});
    record.finish({});  // the first counts
  }
  const StatusRead failed = read_status(folder.path());
  EXPECT_EQ(failed.state, "failed");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_EQ(failed.first_failing_rank, 3);
  EXPECT_EQ(failed.message, "data: short shard");
  { const RunRecord forgotten(folder.path(), Json::object()); }
  EXPECT_EQ(read_status(folder.path()).state, "failed");
  EXPECT_EQ(read_status(folder.path()).exit_code, 1);
}

TEST(RunRecord, ALauncherNotesWhoFailedFirst) {
  const core::TempDir folder;
  {
    RunRecord record(folder.path(), Json::object());
    for (const int64_t step : {0, 1, 2}) record.append_step({.step = step});
    record.flush();
    EXPECT_FALSE(read_status(folder.path()).steps_done) << "no heartbeat has come since";
    note_first_failure(folder.path(), {.rank = 1, .exit_code = 137, .text = "signal 9"});
    const StatusRead killed = read_status(folder.path());  // as if rank 0 had died without a word
    EXPECT_EQ(killed.state, "failed");
    EXPECT_EQ(killed.exit_code, 137);
    EXPECT_EQ(killed.first_failing_rank, 1);
    EXPECT_EQ(killed.message, "rank 1 ended with signal 9");
    EXPECT_EQ(killed.steps_done, 3);
    record.finish({.state = RunState::kFailed, .exit_code = 3, .message = "comm: rank 1 is gone"});
  }
  note_first_failure(folder.path(), {.rank = 1, .exit_code = 137, .text = "signal 9"});
  const StatusRead told = read_status(folder.path());
  EXPECT_EQ(told.message, "rank 1 ended with signal 9; then comm: rank 1 is gone") << "rank 0 only noticed it";
  EXPECT_EQ(told.exit_code, 137);
  EXPECT_EQ(told.first_failing_rank, 1);
  note_first_failure(folder.path() / "none", {.rank = 1, .text = "signal 9"});  // no record, nothing to note
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "none"));
}

/// A process with a record of three steps, until it is killed.
pid_t start_writer(const std::filesystem::path& folder) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  RunRecord record(folder, Json::object());
  for (const int64_t step : {0, 1, 2}) record.append_step({.step = step});
  record.flush();
  core::write_file_atomic(folder / "is_ready", "");
  while (true) ::pause();
}

TEST(RunRecord, AWriterThatIsGoneIsKnownAtOnceAndAnotherRankSaysSo) {
  const core::TempDir folder;
  const Error lost(ExitCode::kCommunication, "comm: all_reduce #4 failed");
  const pid_t writer = start_writer(folder.path());
  for (int round = 0; round < 5000 && !std::filesystem::exists(folder.path() / "is_ready"); ++round)
    std::this_thread::sleep_for(2ms);
  EXPECT_FALSE(read_status(folder.path()).is_dead(core::unix_seconds()));
  note_lost_writer(folder.path(), 1, lost);
  EXPECT_EQ(read_status(folder.path()).state, "running") << "it lives";
  EXPECT_EQ(::kill(writer, SIGKILL), 0);
  EXPECT_EQ(::waitpid(writer, nullptr, 0), writer);
  EXPECT_EQ(read_status(folder.path()).state, "running");
  EXPECT_TRUE(read_status(folder.path()).is_dead(core::unix_seconds()));
  const RunData loaded = load_run(folder.path());
  EXPECT_EQ(loaded.state, "died");
  EXPECT_NE(loaded.message.find(fmt::format("its process (pid {} on {}) is gone", writer, core::host_name())),
            std::string::npos)
      << loaded.message;
  note_lost_writer(folder.path(), 1, lost);
  const StatusRead told = read_status(folder.path());
  EXPECT_EQ(told.state, "failed");
  EXPECT_EQ(told.exit_code, 3);
  EXPECT_EQ(told.first_failing_rank, 0);
  EXPECT_EQ(told.steps_done, 3);
  EXPECT_TRUE(told.ended_s);
  EXPECT_EQ(told.message,
            fmt::format("rank 0 (pid {} on {}) is gone without a word; rank 1: comm: all_reduce #4 failed", writer,
                        core::host_name()));
  note_lost_writer(folder.path(), 2, Error(ExitCode::kInternal, "later"));
  EXPECT_EQ(read_status(folder.path()).message, told.message) << "the first counts";
  note_lost_writer(folder.path() / "none", 1, lost);  // no record, nothing to note
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "none"));
}

TEST(RunRecord, ALauncherNeverTellsFewerStepsThanAHeartbeat) {
  const core::TempDir folder;
  RunRecord record(folder.path(), Json::object());
  for (const int64_t step : {0, 1, 2}) record.append_step({.step = step});
  record.flush();
  Json status = Json::parse(core::read_file(folder.path() / "status.json"));
  status["steps_done"] = 42;  // lines of steps that a full disk dropped
  core::write_file_atomic(folder.path() / "status.json", status.dump());
  note_first_failure(folder.path(), {.rank = 1, .exit_code = 137, .text = "signal 9"});
  EXPECT_EQ(read_status(folder.path()).steps_done, 42);
  EXPECT_EQ(Json::parse(core::read_file(folder.path() / "status.json")).at("last_step"), 41);
}

TEST(RunRecord, TheHeartbeatBeatsAndItsEndMeansDeath) {
  const core::TempDir folder;
  RunRecord record(folder.path(), Json::object(), {.flush_every = 2ms, .heartbeat_every = 5ms});
  const double before = read_status(folder.path()).heartbeat_s;
  record.append_step(record_of_step(41));
  StatusRead status = read_status(folder.path());
  for (int round = 0; round < 5000 && (status.heartbeat_s <= before || !status.steps_done); ++round) {
    std::this_thread::sleep_for(2ms);
    status = read_status(folder.path());
  }
  EXPECT_GT(status.heartbeat_s, before);
  EXPECT_EQ(status.steps_done, 42);
  EXPECT_FALSE(status.is_dead(status.heartbeat_s + 5));
  EXPECT_TRUE(status.is_dead(status.heartbeat_s + 7));
  record.finish({});
  EXPECT_FALSE(read_status(folder.path()).is_dead(status.heartbeat_s + 1e6));
}

TEST(RunRecord, AFolderThatCannotBeWrittenIsAnError) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "file", "x");
  EXPECT_THROW(RunRecord(folder.path() / "file" / "run", Json::object()), EnvironmentError);
}

TEST(AppendQueue, AFullDiskDropsAndCountsButNeverThrows) {
  AppendQueue queue({.flush_every = 0ms});  // a pass is always under way
  const int full = queue.open_file("/dev/full", false);
  for (int round = 0; round < 50; ++round) {
    for (int line = 0; line < 10; ++line) queue.append(full, "line\n");
    queue.flush();
    EXPECT_EQ(queue.health().dropped, 10 * round) << "they wait";
    EXPECT_GE(queue.health().write_errors, 1);
    queue.drop_unwritten();
    EXPECT_EQ(queue.health().dropped, 10 * (round + 1));
  }
  EXPECT_NE(queue.health().last_error.find("No space left"), std::string::npos) << queue.health().last_error;
}

/// Bytes that wait in a pipe.
int bytes_in_pipe(int fd) {
  int bytes = 0;
  EXPECT_EQ(::ioctl(fd, FIONREAD, &bytes), 0);
  return bytes;
}

/// True once `condition` holds; gives up after a time that only a hang exceeds.
template <typename Condition> bool comes_true(const Condition& condition) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(RunRecord, AStalledFileSystemNeverDelaysAStep) {
  const core::TempDir folder;
  tests::StalledPipe pipe(folder.path() / "steps.jsonl");
  RunRecord record(folder.path(), Json::object(),
                   {.attempt = 1, .flush_every = 1ms, .max_queued_bytes = size_t{1} << 18});
  const int capacity = ::fcntl(pipe.fd(), F_GETPIPE_SZ);
  ASSERT_GT(capacity, 0);
  constexpr int64_t kSteps = 20'000;  // some megabytes: many times what the pipe and the queue hold
  std::promise<void> all_appended;
  std::jthread trainer([&] {
    for (int64_t step = 0; step < kSteps; ++step) record.append_step(record_of_step(step));
    all_appended.set_value();
  });
  // The trainer gets through all its steps although nothing is written any more; the time only guards against a hang.
  const bool is_through = all_appended.get_future().wait_for(60s) == std::future_status::ready;
  if (is_through) {
    EXPECT_GT(bytes_in_pipe(pipe.fd()), capacity - 4096) << "the writer was not stalled: the test shows nothing";
    EXPECT_GT(record.health().dropped, 0);
    EXPECT_EQ(read_status(folder.path()).state, "running");
  }
  pipe.drain();       // what was queued arrives whole, what was dropped is counted
  if (!is_through) {  // the trainer waits for the file system: it gets it back, so that the test ends instead of
                      // hanging
    trainer.join();
    record.finish({});
    FAIL() << "the trainer did not get through its steps while the file system was stalled";
  }
  record.append_step(record_of_step(kSteps));  // a last line, unless the queue is still full
  record.flush();
  EXPECT_TRUE(comes_true([&] { return bytes_in_pipe(pipe.fd()) == 0; }));
  const StepsRead read = parse_steps(pipe.take(), "pipe");
  EXPECT_EQ(read.num_damaged, 0);
  EXPECT_EQ(static_cast<int64_t>(read.steps.size()), kSteps + 1 - record.health().dropped);
  record.finish({});
  EXPECT_EQ(core::read_json_file(folder.path() / "status.json")["dropped_lines"], record.health().dropped);
}

TEST(AppendQueue, ATickThatThrowsEndsNothing) {
  const core::TempDir folder;
  AppendQueue queue({.flush_every = 1ms});
  const int file = queue.open_file(folder.path() / "lines", true);
  queue.set_tick([] { throw std::bad_alloc(); });
  std::string want;
  for (const char* line : {"one\n", "two\n"}) {
    want += line;
    queue.append(file, line);
    queue.flush();
    EXPECT_EQ(core::read_file(folder.path() / "lines"), want);
  }
  EXPECT_GE(queue.health().write_errors, 1);
  EXPECT_EQ(queue.health().dropped, 0);
}

TEST(AppendQueue, WhatADiskDoesNotTakeIsWrittenWhenItDoes) {
  const core::TempDir folder;
  std::string want;
  AppendQueue queue({.flush_every = 1ms});
  const int file = queue.open_file(folder.path() / "lines", true);
  {
    const tests::FileSizeLimit limit(25);  // in the middle of the third line
    for (int line = 0; line < 6; ++line) {
      const std::string text = fmt::format("line no {}\n", line);
      want += text;
      queue.append(file, text);
    }
    queue.flush();
    EXPECT_EQ(core::read_file(folder.path() / "lines"), want.substr(0, 20)) << "half a line is taken back";
    EXPECT_EQ(queue.health().dropped, 0);
    EXPECT_GE(queue.health().write_errors, 1);
  }
  queue.flush();
  EXPECT_EQ(core::read_file(folder.path() / "lines"), want);
  queue.drop_unwritten();
  EXPECT_EQ(queue.health().dropped, 0);
}

/// The heartbeat can write no new status.json and hangs in open() of the old one, which is a pipe without a reader.
TEST(RunRecord, AStalledHeartbeatNeverDelaysAStep) {
  const core::TempDir folder;
  RunRecord record(folder.path(), Json::object(),
                   {.flush_every = 1ms, .heartbeat_every = 1ms, .max_queued_bytes = 1000});
  const fs::path status = folder.path() / "status.json";
  {
    const tests::FileSizeLimit full(0);
    // The thread is stalled when the queue overflows and stays so: nothing takes the lines. A heartbeat that was under
    // way may put its file in place of the pipe once.
    ASSERT_TRUE(comes_true([&] {
      if (!fs::is_fifo(status)) {
        fs::remove(status);
        ::mkfifo(status.c_str(), 0600);
      }
      record.append_step(record_of_step(0));
      return record.health().dropped > 100;
    }));
    const core::Fd reader(
        ::open(status.c_str(), O_RDONLY | O_CLOEXEC));  // blocks until the heartbeat is in its open(): it was
    ASSERT_TRUE(reader.valid());
    fs::remove(status);
  }
  record.finish({});
  EXPECT_EQ(read_status(folder.path()).state, "finished");
}

TEST(AppendQueue, AFullQueueDropsAndCounts) {
  const core::TempDir folder;
  AppendQueue queue({.flush_every = std::chrono::hours(1), .max_queued_bytes = 100});
  const int file = queue.open_file(folder.path() / "lines", true);
  for (int line = 0; line < 20; ++line) queue.append(file, "123456789\n");
  EXPECT_EQ(queue.health().dropped, 10);
  queue.flush();
  queue.append(file, "123456789\n");  // there is room again
  queue.flush();
  EXPECT_EQ(core::read_file(folder.path() / "lines").size(), 110u);
  EXPECT_EQ(queue.health().dropped, 10);
}

TEST(AppendQueue, ManyThreadsLoseNothing) {
  const core::TempDir folder;
  {
    AppendQueue queue({.flush_every = 1ms});
    const int file = queue.open_file(folder.path() / "lines", true);
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int line = 0; line < 500; ++line)
          queue.append(file, fmt::format("{{\"thread\":{},\"line\":{}}}\n", thread, line));
      });
    }
    threads.clear();
  }
  const LinesRead read = read_json_lines(folder.path() / "lines");
  EXPECT_EQ(read.lines.size(), 2000u);
  EXPECT_EQ(read.num_damaged, 0);
  std::vector<int> next(4);
  for (const Json& line : read.lines) EXPECT_EQ(line["line"], next[line["thread"].get<size_t>()]++);
}

TEST(Reader, NewerLayoutsAndOtherFoldersAreRefused) {
  const core::TempDir folder;
  EXPECT_THROW(read_steps(folder.path()), EnvironmentError);
  core::write_file_atomic(folder.path() / "run.json", R"({"record_version":2,"attempts":[]})");
  EXPECT_THROW(read_run(folder.path()), DataError);
  core::write_file_atomic(folder.path() / "run.json", R"({"attempts":[]})");
  EXPECT_THROW(read_run(folder.path()), DataError);
  core::write_file_atomic(folder.path() / "status.json", R"({"record_version":1})");
  EXPECT_THROW(read_status(folder.path()), DataError);
}

TEST(Reader, DamagedFilesAreReadAsFarAsTheyGo) {
  std::string clean;
  for (int step = 0; step < 4; ++step) {
    StepRecord record = record_of_step(step, step == 2 ? std::nan("") : 1.0);
    record.attempt = 1;
    clean += to_json(record).dump() + "\n";
  }
  core::CounterRng rng(core::stream_key(3, "reader"));
  int64_t damaged = 0, whole = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = clean;
    for (uint64_t edits = 1 + rng.below(6); edits > 0; --edits)
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    if (rng.below(2) == 0) text.resize(rng.below(text.size()));
    const StepsRead read = parse_steps(text, "mutated");  // never throws
    damaged += read.num_damaged;
    whole += static_cast<int64_t>(read.steps.size());
  }
  EXPECT_GT(damaged, 1000);
  EXPECT_GT(whole, 1000);
}

}  // namespace
}  // namespace lockstep::record
