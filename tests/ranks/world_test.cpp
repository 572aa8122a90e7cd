// Real processes over Gloo: they meet, work, and end in time with a clear message when one of them does not.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "comm/store.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/files.h"
#include "ranks/fault_process.h"
#include "support/ranks/store_stranger.h"
#include "support/ranks/world_mesh.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::seconds kStoreTimeout{20};
constexpr std::chrono::seconds kGiveUp{60};  // a test that has not ended by then has found a hang

struct JobSpec {
  std::string scenario;
  int num_ranks = 3;
  bool launcher_serves = true;
  int timeout_ms = 60000;
  int join_timeout_ms = 30000;
  std::vector<int> start{};      ///< Ranks to start; empty: all.
  std::vector<int> never_end{};  ///< Ranks that hang on purpose and are killed when the others have ended.
  bool wakes{};                  ///< They stopped, and are continued instead.
};

struct RankEnd {
  int exit_code = -1;  ///< 128 + signal for a killed process.
  std::string output;
};

/// A port that was free a moment ago, for the rank that serves the store itself.
uint16_t free_port() { return Store::serve(0, kStoreTimeout).port(); }

pid_t start_rank(const JobSpec& job, int rank, uint16_t port, int attempt, const std::filesystem::path& output) {
  return tests::spawn_rank({job.scenario, std::to_string(rank), std::to_string(job.num_ranks), std::to_string(port),
                            job.launcher_serves ? "launcher" : "rank0", std::to_string(attempt),
                            std::to_string(job.timeout_ms), std::to_string(job.join_timeout_ms)},
                           output);
}

/// Runs the ranks of a job to their end.
std::map<int, RankEnd> run_job(const JobSpec& job, uint16_t port, int attempt = 0) {
  const core::TempDir folder("world");
  const auto output_of = [&](size_t i) { return folder.path() / fmt::format("{}.txt", i); };
  std::vector<int> ranks = job.start;
  for (int rank = 0; job.start.empty() && rank < job.num_ranks; ++rank) ranks.push_back(rank);
  std::vector<pid_t> pids;
  for (size_t i = 0; i < ranks.size(); ++i) pids.push_back(start_rank(job, ranks[i], port, attempt, output_of(i)));
  const auto hangs_on_purpose = [&](int rank) {
    return std::find(job.never_end.begin(), job.never_end.end(), rank) != job.never_end.end();
  };
  std::map<int, RankEnd> ends;
  const auto deadline = std::chrono::steady_clock::now() + kGiveUp;
  const auto reap = [&](size_t i, bool kill_it) {
    int status = 0;
    pid_t ended = 0;
    while (!kill_it && (ended = waitpid(pids[i], &status, WNOHANG)) == 0) {
      if (std::chrono::steady_clock::now() > deadline)
        kill_it = true;
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (kill_it) {
      kill(pids[i], SIGKILL);
      ended = waitpid(pids[i], &status, 0);
    }
    ASSERT_EQ(ended, pids[i]);
    ends[ranks[i]] = {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                      .output = core::read_file(output_of(i))};
  };
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!hangs_on_purpose(ranks[i])) reap(i, false);
  for (size_t i = 0; i < ranks.size(); ++i)
    if (hangs_on_purpose(ranks[i])) {
      if (job.wakes) kill(pids[i], SIGCONT);
      reap(i, !job.wakes);
    }
  return ends;
}

std::map<int, RankEnd> run_job(const JobSpec& job) {
  if (!job.launcher_serves) return run_job(job, free_port());
  const Store store = Store::serve(0, kStoreTimeout);  // as torchrun's agent does
  return run_job(job, store.port());
}

void expect_end(const std::map<int, RankEnd>& ends, int rank, ExitCode code, const std::vector<std::string>& texts) {
  const RankEnd& end = ends.at(rank);
  EXPECT_EQ(end.exit_code, static_cast<int>(code)) << "rank " << rank << ": " << end.output;
  for (const auto& text : texts)
    EXPECT_NE(end.output.find(text), std::string::npos)
        << "rank " << rank << " misses '" << text << "': " << end.output;
}

TEST(World, ProcessesMeetAndWorkWhoeverServesTheStore) {
  for (const bool launcher_serves : {true, false})
    for (const auto& [rank, end] : run_job({.scenario = "good", .launcher_serves = launcher_serves}))
      EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(World, ARestartedJobMeetsAgainInTheSameStore) {
  const Store store = Store::serve(0, kStoreTimeout);
  for (int attempt = 0; attempt < 2; ++attempt)
    for (const auto& [rank, end] : run_job({.scenario = "good", .num_ranks = 2}, store.port(), attempt))
      EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(World, NamesInTheStoreAreBehindTheSecretOfTheJob) {
  Store store = Store::serve(0, kStoreTimeout);
  const auto ends = run_job({.scenario = "secret", .num_ranks = 2}, store.port());
  for (const auto& [rank, end] : ends) EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(store.sealed_by("swordfish").under("attempt_0").get("world_size", kStoreTimeout), "2");
  EXPECT_FALSE(store.has("attempt_0/world_size"));
  const std::vector<std::string> listed = tests::keys_for_a_stranger(store.port());
  EXPECT_GT(listed.size(), 5u);
  for (const std::string& key : listed)
    EXPECT_EQ(key.find_first_not_of("0123456789abcdef", 1), std::string::npos) << key;
}

TEST(World, AStoreOfSeveralNodesListensOnTheAddressInNumbersThatIsGiven) {
  const uint16_t port = free_port();
  const core::TempDir folder("world");
  const JobSpec job{.scenario = "nodes", .num_ranks = 4, .launcher_serves = false};
  const pid_t pid = start_rank(job, 0, port, 0, folder.path() / "0.txt");  // the others never come
  std::vector<std::string> keys;
  for (int round = 0; round < 500 && keys.empty(); ++round) {
    try {
      keys = tests::keys_for_a_stranger(port);
    } catch (const std::runtime_error&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(keys.empty()) << core::read_file(folder.path() / "0.txt");
  EXPECT_THROW(Store::connect({.host = "127.0.0.2", .port = port}, std::chrono::milliseconds(500)), std::exception);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

/// They come before the job's own rank 1 and claim its place: one without the secret, one with a wrong one.
TEST(WorldFaults, StrangersWithoutTheSecretAreRefusedAndHarmNoRank) {
  Store store = Store::serve(0, kStoreTimeout);
  const auto start_stranger = [&](const char* scenario, Store names) {
    auto end = std::async(std::launch::async, [=, port = store.port()] {
      return run_job({.scenario = scenario, .num_ranks = 2, .join_timeout_ms = 3000, .start = {1}}, port);
    });
    while (names.add("attempt_0/claims/1", 0) == 0 &&
           end.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    }
    return end;
  };
  auto nameless = start_stranger("good", store.another_connection());
  auto guessing = start_stranger("wrong_secret", store.sealed_by("sword"));
  for (const auto& [rank, end] : run_job({.scenario = "secret", .num_ranks = 2}, store.port()))
    EXPECT_EQ(end.exit_code, 0) << "rank " << rank << ": " << end.output;
  for (auto* refused : {&nameless, &guessing})
    expect_end(refused->get(), 1, ExitCode::kCommunication,
               {"not all 2 ranks came within 3 s: missing rank 0", "LOCKSTEP_STORE_SECRET"});
  EXPECT_EQ(store.sealed_by("swordfish").add("attempt_0/claims/1", 0), 1)
      << "a stranger was counted as the job's rank 1";
}

TEST(World, MeshGroupsSumOverTheirOwnRanksOnly) {
  const auto ends = run_job({.scenario = "mesh", .num_ranks = 4, .launcher_serves = false});
  ASSERT_EQ(ends.size(), 4u);
  for (const auto& [rank, end] : ends) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(World, LongWorkOfRankZeroOutlastsTheTimeLimitOfCollectives) {
  const auto ends = run_job({.scenario = "wait", .timeout_ms = 500});
  ASSERT_EQ(ends.size(), 3u);
  for (const auto& [rank, end] : ends) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(World, OneRankMeetsNobody) {
  World world = World::join({}, {});
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.comm().gather_strings("x"), std::vector<std::string>{"x"});
  world.wait_for_rank_zero("nothing");
  world.wait_for_all("nothing");
  Mesh mesh = tests::mesh_of(world, plan::MeshLayout(1, {.pp = 1, .dp = 1, .tp = 1}));
  EXPECT_EQ(mesh.dp().axis(), "dp");
  EXPECT_THROW(World::join({}, {.backend = "mpi"}), UsageError);
  EXPECT_THROW(World::join({}, {.backend = "nccl"}), UsageError);
}

TEST(WorldFaults, SurvivorsOfAKilledRankNameIt) {
  const auto ends = run_job({.scenario = "kill"});
  EXPECT_EQ(ends.at(1).exit_code, 128 + SIGKILL);
  for (const int rank : {0, 2})
    expect_end(ends, rank, ExitCode::kCommunication,
               {"all_reduce #4", "axis 'world' (ranks 0,1,2)", "rank 1 (pid", "does not answer any more"});
}

/// Long before the time limit of the collective, which is as long as the test's.
TEST(WorldFaults, ARankThatStandsStillIsNamed) {
  const auto ends = run_job({.scenario = "stop", .never_end = {1}});
  for (const int rank : {0, 2})
    expect_end(ends, rank, ExitCode::kCommunication, {"all_reduce #4", "rank 1 (pid", "does not answer any more"});
}

TEST(WorldFaults, ALivingRankThatDoesNotComeIsNamed) {
  const auto ends = run_job({.scenario = "absent", .timeout_ms = 3000, .never_end = {1}});
  for (const int rank : {0, 2})
    expect_end(ends, rank, ExitCode::kCommunication,
               {"all_reduce #4", "rank 1 (pid", "did not come (its last call on this axis: all_reduce #"});
}

TEST(WorldFaults, TheErrorOfARankIsPassedOn) {
  for (const auto* scenario : {"throw", "throw0"}) {
    const auto ends = run_job({.scenario = scenario, .launcher_serves = false});
    const int odd = scenario == std::string("throw") ? 1 : 0;
    expect_end(ends, odd, ExitCode::kData, {"data: shard 7 is short"});
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == odd) continue;
      expect_end(ends, rank, ExitCode::kCommunication,
                 {fmt::format("rank {} (pid", odd), "failed: data: shard 7 is short"});
    }
  }
}

TEST(WorldFaults, ARankWithWorkUnderWayEndsAtOnceWithItsOwnError) {
  const auto ends = run_job({.scenario = "throw_pending", .never_end = {0, 2}});  // nobody comes to its all_reduce
  expect_end(ends, 1, ExitCode::kData, {"data: shard 7 is short"});
}

TEST(WorldFaults, AnErrorReachesRanksThatWaitInOtherGroups) {
  const auto ends = run_job({.scenario = "chain", .num_ranks = 4, .launcher_serves = false});
  expect_end(ends, 3, ExitCode::kData, {"data: shard 7 is short"});
  for (const int rank : {0, 1, 2})
    expect_end(ends, rank, ExitCode::kCommunication, {"rank 3 (pid", "data: shard 7 is short"});
}

TEST(WorldFaults, ARankThatCannotConnectTellsTheOthers) {
  const Store store = Store::serve(0, kStoreTimeout);
  const auto ends = run_job({.scenario = "no_interface", .num_ranks = 2, .timeout_ms = 3000}, store.port());
  expect_end(ends, 1, ExitCode::kCommunication, {"rank 1 cannot connect", "interface lockstep-none"});
  const std::string told = store.under("attempt_0").get("first_failure", kStoreTimeout);
  EXPECT_NE(told.find("failed: comm: rank 1 cannot connect"), std::string::npos) << told;
  EXPECT_EQ(ends.at(0).exit_code, static_cast<int>(ExitCode::kCommunication)) << ends.at(0).output;
}

TEST(WorldFaults, ARankThatNothingCallsOffEndsSomeTimeAfterTheFailure) {
  const auto ends = run_job({.scenario = "uninterruptible", .timeout_ms = 1000});
  expect_end(ends, 1, ExitCode::kData, {"data: shard 7 is short"});
  for (const int rank : {0, 2})
    expect_end(ends, rank, ExitCode::kCommunication, {fmt::format("rank {} has not come out of", rank), "within 1 s"});
}

TEST(WorldFaults, AFailedRankThatDoesNotComeToItsEndIsEnded) {
  const auto ends = run_job({.scenario = "endless_end"});
  expect_end(ends, 1, ExitCode::kData, {"rank 1 has failed and not come to its end within 1 s"});
  for (const int rank : {0, 2})
    expect_end(ends, rank, ExitCode::kCommunication, {fmt::format("rank {} has failed and not come to its end", rank)});
}

TEST(WorldFaults, WhoWaitsForRankZeroLearnsOfItsEnd) {
  const auto thrown = run_job({.scenario = "wait_throw"});
  expect_end(thrown, 0, ExitCode::kData, {"data: shard 7 is short"});
  for (const int rank : {1, 2})
    expect_end(thrown, rank, ExitCode::kCommunication,
               {"waited for rank 0 (it reads)", "rank 0 (pid", "data: shard 7 is short"});
  const auto stopped = run_job({.scenario = "wait_stop", .num_ranks = 2, .never_end = {0}});
  expect_end(stopped, 1, ExitCode::kCommunication,
             {"rank 1 waited for rank 0 (it reads): rank 0 (pid", "does not answer any more"});
  const auto with_store =
      run_job({.scenario = "wait_stop", .num_ranks = 2, .launcher_serves = false, .never_end = {0}});
  expect_end(with_store, 1, ExitCode::kCommunication,
             {"rank 1 waited for rank 0 (it reads): the job's store at ", "served by rank 0 does not answer"});
}

TEST(WorldFaults, ALostStoreEndsEveryRankThoughAllLive) {
  auto store = std::make_optional(Store::serve(0, kStoreTimeout));
  const uint16_t port = store->port();
  std::thread loss([&] {
    Store ranks = store->under("attempt_0");
    ranks.get("long_wait/0", kGiveUp);
    store.reset();
  });
  const auto ends = run_job({.scenario = "endless"}, port);
  loss.join();
  for (const int rank : {0, 1, 2})
    expect_end(ends, rank, ExitCode::kCommunication, {"the job's store at ", "served by the launcher is lost ("});
}

TEST(WorldFaults, ARankThatLeavesEarlyIsNamed) {
  const auto ends = run_job({.scenario = "leave"});
  EXPECT_EQ(ends.at(1).exit_code, 0);
  for (const int rank : {0, 2})
    expect_end(ends, rank, ExitCode::kCommunication, {"all_reduce #4", "rank 1 (pid", "has left the job"});
}

TEST(WorldFaults, SurvivorsOfTheStoresProcessSaySo) {
  const auto killed = run_job({.scenario = "kill0", .launcher_serves = false});
  for (const int rank : {1, 2})
    expect_end(killed, rank, ExitCode::kCommunication, {"all_reduce #4", "served by rank 0 does not answer"});
  const auto stopped = run_job({.scenario = "stop0", .launcher_serves = false, .never_end = {0}});
  for (const int rank : {1, 2})
    expect_end(stopped, rank, ExitCode::kCommunication, {"all_reduce #4", "served by rank 0 does not answer"});
}

/// It served the store, so that the others could not tell why they left: it seems to itself the last one that lives.
TEST(WorldFaults, WhoStoodStillSaysSoOfItselfWhenItIsWoken) {
  for (const char* scenario : {"stop0", "stop0_beside_devices"}) {
    const auto ends = run_job({.scenario = scenario, .launcher_serves = false, .never_end = {0}, .wakes = true});
    for (const int rank : {1, 2})
      expect_end(ends, rank, ExitCode::kCommunication, {"served by rank 0 does not answer"});
    expect_end(ends, 0, ExitCode::kCommunication, {"rank 0 (pid", "stood still for ", "rank 1 (pid"});
    EXPECT_LT(ends.at(0).output.find("stood still for "), ends.at(0).output.find("rank 1 (pid")) << scenario;
  }
}

TEST(WorldFaults, CheckedCollectivesRefuseAMismatch) {
  for (const auto& [rank, end] : run_job({.scenario = "mismatch"}))
    EXPECT_NE(end.output.find("all_reduce #1"), std::string::npos) << end.output;
  const auto ends = run_job({.scenario = "mismatch", .num_ranks = 2});
  for (const int rank : {0, 1})
    expect_end(ends, rank, ExitCode::kCommunication, {"Detected mismatch between collectives on ranks"});
}

TEST(WorldFaults, MissingRanksAreNamed) {
  for (const bool launcher_serves : {true, false}) {
    const auto ends = run_job({.scenario = "good",
                               .num_ranks = 4,
                               .launcher_serves = launcher_serves,
                               .join_timeout_ms = 1500,
                               .start = {0, 2}});
    for (const int rank : {0, 2})
      expect_end(ends, rank, ExitCode::kCommunication, {"not all 4 ranks came within 1 s: missing rank 1,3"});
  }
}

/// How often `text` stands in `all`.
int count_of(const std::string& all, const std::string& text) {
  int count = 0;
  for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++count;
  return count;
}

TEST(World, WhoIsWaitedForIsToldNowAndThenByOneRankOfANode) {
  const JobSpec half{.scenario = "nodes", .num_ranks = 4, .join_timeout_ms = 2500, .start = {0, 1}};
  for (const bool launcher_serves : {true, false}) {
    JobSpec job = half;
    job.launcher_serves = launcher_serves;
    const auto ends = run_job(job);
    const std::string& output = ends.at(0).output;
    EXPECT_GE(count_of(output, "comm: 2 of 4 ranks are here, waiting for ranks 2-3 (node 1) at 127.0.0.1:"), 2)
        << output;
    EXPECT_NE(output.find("(up to 2 s in all)"), std::string::npos) << output;
    EXPECT_EQ(count_of(ends.at(1).output, "waiting for"), 0) << ends.at(1).output;
  }
  JobSpec other{.scenario = "nodes", .num_ranks = 4, .launcher_serves = false, .join_timeout_ms = 1500, .start = {2}};
  const std::string output = run_job(other).at(2).output;
  EXPECT_GE(count_of(output, "comm: rank 2 waits for the job's store at 127.0.0.1:"), 2) << output;
}

TEST(WorldFaults, APortInUseNamesItsOwner) {
  const Store other = Store::serve(0, kStoreTimeout);
  const auto ends = run_job({.scenario = "good", .launcher_serves = false, .start = {0}}, other.port());
  expect_end(ends, 0, ExitCode::kEnvironment,
             {fmt::format("cannot open port {}", other.port()), fmt::format("in use by pid {}", getpid()), "hint: "});
}

TEST(WorldFaults, AStoreThatIsNotThereIsNamed) {
  const auto ends =
      run_job({.scenario = "good", .launcher_serves = false, .join_timeout_ms = 1000, .start = {1}}, free_port());
  expect_end(ends, 1, ExitCode::kCommunication,
             {"rank 1 cannot reach the job's store at 127.0.0.1:", "served by rank 0"});
}

TEST(WorldFaults, TwoProcessesOfOneRankAreRefused) {
  const Store store = Store::serve(0, kStoreTimeout);
  Store claims = store.under("attempt_0");
  claims.add("claims/1", 1);
  const auto ends = run_job({.scenario = "good", .num_ranks = 2, .start = {1}}, store.port());
  expect_end(ends, 1, ExitCode::kCommunication, {"two processes say that they are rank 1 of 2"});
}

/// The rank that serves the store stays until the others have read there what is wrong.
TEST(WorldFaults, TwoRanksOnOneGpuAreRefusedByEveryRank) {
  for (const bool launcher_serves : {true, false}) {
    const auto ends = run_job({.scenario = "one_gpu", .num_ranks = 3, .launcher_serves = launcher_serves});
    for (const int rank : {0, 1, 2})
      expect_end(ends, rank, ExitCode::kEnvironment,
                 {"ranks 0 and 2 have the same GPU (", "GPU-aaaa 0)", "NCCL", "hint: ", "--nproc-per-node"});
  }
}

TEST(WorldFaults, ARankOnTheCpuBesideOthersOnGpusIsRefusedByEveryRank) {
  const auto ends = run_job({.scenario = "one_cpu", .num_ranks = 3});
  for (const int rank : {0, 1, 2})
    expect_end(ends, rank, ExitCode::kEnvironment,
               {"rank 0 computes on cuda over gloo (", "rank 1 on cpu over gloo (", "hint: ", "nvidia-smi"});
}

TEST(WorldFaults, AnotherWorldSizeThanRankZeroIsRefused) {
  const Store store = Store::serve(0, kStoreTimeout);
  Store keys = store.under("attempt_0");
  keys.set("world_size", "8");
  const auto ends = run_job({.scenario = "good", .num_ranks = 2, .start = {1}}, store.port());
  expect_end(ends, 1, ExitCode::kCommunication, {"rank 1 was told of 2 ranks, rank 0 of 8"});
}

}  // namespace
}  // namespace lockstep::comm
