#include "hw/ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::hw {
namespace {

using Env = std::map<std::string, std::string>;

EnvLookup lookup(const Env& env) {
  return [env](const std::string& name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  };
}

RankInfo discover(const Env& env, const RankFlags& flags = {}) { return discover_ranks(flags, lookup(env)); }

Env merged(Env base, const Env& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Env kTorchrun{{"RANK", "5"},       {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
                    {"GROUP_RANK", "1"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29511"}};
const Env kSlurmStep{{"SLURM_JOB_ID", "77"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "3"},
                     {"SLURM_LOCALID", "1"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_NTASKS", "4"},
                     {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                     {"SLURM_STEP_NODELIST", "node[08-09]"},
                     {"SLURM_JOB_NODELIST", "node[07-09]"}};
const Env kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"PMIX_NAMESPACE", "prterun-1"},     {"MASTER_ADDR", "head"}};
const Env kPmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

struct Case {
  const char* name;
  Env env;
  RankFlags flags;
  int rank, world, local_rank, local_world, node;
  const char* address;
  int port;  // -1: hashed
  const char* source;
};

TEST(Ranks, TableOfLaunchers) {
  const std::vector<Case> cases{
      {"nothing", {}, {}, 0, 1, 0, 1, 0, "127.0.0.1", 0, "single"},
      {"torchrun", kTorchrun, {}, 5, 8, 1, 4, 1, "node1", 29511, "torchrun"},
      {"torchrun under srun", merged(kSlurmStep, kTorchrun), {}, 5, 8, 1, 4, 1, "node1", 29511, "torchrun"},
      {"srun", kSlurmStep, {}, 3, 4, 1, 2, 1, "node08", -1, "slurm"},
      {"srun with address and port of a script",
       merged(kSlurmStep, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "12802"}}),
       {},
       3,
       4,
       1,
       2,
       1,
       "h",
       12802,
       "slurm"},
      {"WORLD_SIZE of a script is not torchrun",
       merged(kSlurmStep, {{"WORLD_SIZE", "99"}}),
       {},
       3,
       4,
       1,
       2,
       1,
       "node08",
       -1,
       "slurm"},
      {"smaller step of a larger job",
       merged(kSlurmStep, {{"SLURM_NTASKS", "16"}, {"SLURM_NTASKS_PER_NODE", "8"}}),
       {},
       3,
       4,
       1,
       2,
       1,
       "node08",
       -1,
       "slurm"},
      {"step on one node",
       merged(kSlurmStep, {{"SLURM_PROCID", "1"},
                           {"SLURM_NODEID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2"}}),
       {},
       1,
       2,
       1,
       2,
       0,
       "127.0.0.1",
       -1,
       "slurm"},
      {"unequal nodes",
       merged(kSlurmStep, {{"SLURM_PROCID", "7"},
                           {"SLURM_NODEID", "3"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "8"},
                           {"SLURM_STEP_TASKS_PER_NODE", "5,1(x3)"}}),
       {},
       7,
       8,
       0,
       1,
       3,
       "node08",
       -1,
       "slurm"},
      {"old SLURM without step variables",
       {{"SLURM_JOB_ID", "7"},
        {"SLURM_STEP_ID", "1"},
        {"SLURM_PROCID", "1"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NTASKS", "4"},
        {"SLURM_GTIDS", "0,1"},
        {"SLURM_JOB_NODELIST", "n[3-4]"}},
       {},
       1,
       4,
       1,
       2,
       -1,
       "n3",
       -1,
       "slurm"},
      {"batch shell",
       {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NODELIST", "n[3-4]"}},
       {},
       0,
       1,
       0,
       1,
       0,
       "127.0.0.1",
       0,
       "single"},
      {"srun and its own PMI agree",
       merged(kSlurmStep, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}),
       {},
       3,
       4,
       1,
       2,
       1,
       "node08",
       -1,
       "slurm"},
      {"mpirun", kOpenMpi, {}, 2, 4, 0, 2, -1, "head", -1, "openmpi"},
      {"mpirun inside an allocation: its daemon's step is not ours",
       merged(merged(kSlurmStep, {{"SLURM_PROCID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "1"},
                                  {"SLURM_LOCALID", "0"},
                                  {"SLURM_NODEID", "0"},
                                  {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                  {"SLURM_STEP_NODELIST", "node08"}}),
              {{"OMPI_COMM_WORLD_RANK", "2"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
       {},
       2,
       4,
       0,
       2,
       -1,
       "node07",
       -1,
       "openmpi"},
      {"Intel MPI, one node", kPmi, {}, 1, 2, 1, 2, 0, "127.0.0.1", -1, "pmi"},
      {"PMIx alone", {{"PMIX_RANK", "0"}, {"PMIX_SIZE", "1"}}, {}, 0, 1, 0, 1, 0, "127.0.0.1", 0, "pmi"},
      {"flags before everything",
       merged(kSlurmStep, kTorchrun),
       {.rank = 1, .world_size = 2, .local_rank = 1, .local_world_size = 2, .master_addr = "x", .master_port = 4000},
       1,
       2,
       1,
       2,
       -1,
       "x",
       4000,
       "flags"},
      {"port flag completes torchrun", kTorchrun, {.master_port = 4000}, 5, 8, 1, 4, 1, "node1", 4000, "torchrun"},
      {"by hand, without LOCAL_RANK",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5000"}},
       {},
       1,
       2,
       0,
       1,
       -1,
       "a",
       5000,
       "torchrun"},
      {"RANK from a script, the rest from SLURM",
       merged(kSlurmStep, {{"RANK", "3"}, {"WORLD_SIZE", "4"}}),
       {},
       3,
       4,
       1,
       2,
       1,
       "node08",
       -1,
       "torchrun"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const RankInfo info = discover(c.env, c.flags);
    EXPECT_EQ(info.rank, c.rank);
    EXPECT_EQ(info.world_size, c.world);
    EXPECT_EQ(info.local_rank, c.local_rank);
    EXPECT_EQ(info.local_world_size, c.local_world);
    EXPECT_EQ(info.node_rank, c.node);
    EXPECT_EQ(info.master_addr, c.address);
    EXPECT_EQ(info.source, c.source);
    if (c.port >= 0)
      EXPECT_EQ(info.master_port, c.port);
    else
      EXPECT_TRUE(info.master_port >= 20000 && info.master_port < 32000) << info.master_port;
  }
}

TEST(Ranks, BatchShellWarnsAndAStepDoesNot) {
  const RankInfo shell = discover({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}});
  ASSERT_EQ(shell.warnings.size(), 1u);
  EXPECT_NE(shell.warnings[0].find("SLURM_NTASKS=4"), std::string::npos);
  EXPECT_TRUE(discover(kSlurmStep).warnings.empty());
  EXPECT_TRUE(discover({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "1"}}).warnings.empty());
}

TEST(Ranks, AgentStoreAndAttempts) {
  EXPECT_FALSE(discover(kTorchrun).store_is_hosted_by_launcher);
  const RankInfo hosted =
      discover(merged(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(hosted.store_is_hosted_by_launcher);
  EXPECT_EQ(hosted.attempt, 2);
  EXPECT_EQ(hosted.slurm_restart_count, 0);
  const RankInfo requeued = discover(merged(kSlurmStep, {{"SLURM_RESTART_COUNT", "1"}}));
  EXPECT_EQ(requeued.attempt, 1);
  EXPECT_EQ(requeued.slurm_restart_count, 1);
  EXPECT_EQ(requeued.job_id, "77");
}

TEST(Ranks, AllRanksOfAStepAgreeOnThePortAndOtherStepsDiffer) {
  std::set<int> ports;
  for (const char* step : {"0", "1", "2", "3"}) {
    std::set<int> of_step;
    for (const char* rank : {"0", "1", "2", "3"})
      of_step.insert(discover(merged(kSlurmStep, {{"SLURM_STEP_ID", step}, {"SLURM_PROCID", rank}})).master_port);
    EXPECT_EQ(of_step.size(), 1u);
    ports.insert(*of_step.begin());
  }
  EXPECT_EQ(ports.size(), 4u);
  EXPECT_NE(discover(kSlurmStep).master_port, discover(merged(kSlurmStep, {{"SLURM_RESTART_COUNT", "1"}})).master_port);
}

TEST(Ranks, MpiRanksInsideAndOutsideADaemonStepAgreeOnThePort) {
  const Env remote = merged(
      kOpenMpi, {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  const Env head = merged(kOpenMpi, {{"SLURM_JOB_ID", "7"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(discover(remote).master_port, discover(head).master_port);
  EXPECT_EQ(discover(remote).rank, 2);
  EXPECT_EQ(discover(remote).warnings.size(), 1u);
}

TEST(Ranks, InconsistentValuesNameVariableAndValue) {
  const std::vector<std::tuple<Env, std::string, std::string>> cases{
      {merged(kTorchrun, {{"RANK", "8"}}), "RANK=8", "WORLD_SIZE=8"},
      {merged(kTorchrun, {{"RANK", "abc"}}), "RANK='abc'", "whole number"},
      {merged(kTorchrun, {{"RANK", "-1"}}), "RANK='-1'", "whole number"},
      {merged(kTorchrun, {{"RANK", "1e3"}}), "RANK='1e3'", "whole number"},
      {merged(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}}), "WORLD_SIZE='99999999999999999999'",
       "whole number"},
      {merged(kTorchrun, {{"WORLD_SIZE", ""}}), "WORLD_SIZE is not set", "RANK=5"},
      {merged(kTorchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4"},
      {merged(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), "LOCAL_WORLD_SIZE=9", "8 ranks"},
      {merged(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT='70000'", "65535"},
      {merged(kTorchrun, {{"MASTER_PORT", ""}}), "MASTER_PORT is not set", "8 ranks"},
      {merged(kTorchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is not set", "8 ranks"},
      {merged(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "x"}}), "TORCHELASTIC_RESTART_COUNT='x'", ""},
      {merged(kSlurmStep, {{"SLURM_PROCID", "4"}}), "SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4"},
      {merged(kSlurmStep, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), "2(x", "task counts"},
      {merged(kSlurmStep, {{"SLURM_STEP_NODELIST", "n[3-1]"}}), "n[3-1]", "descending"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}, "SLURM_PROCID is not set", "SLURM_STEP_ID=0"},
      {merged(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", ""}}), "OMPI_COMM_WORLD_SIZE is not set", ""},
      {merged(kOpenMpi, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is not set", "openmpi"},
      {{{"PMIX_RANK", "1"}}, "PMIX_RANK=1", "PMI_SIZE"},
  };
  for (const auto& [env, first, second] : cases) {
    SCOPED_TRACE(first);
    try {
      discover(env);
      FAIL() << "accepted";
    } catch (const EnvironmentError& error) {
      EXPECT_NE(std::string(error.what()).find(first), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(second), std::string::npos) << error.what();
    }
  }
}

TEST(Ranks, WrongFlagsAreUsageErrors) {
  EXPECT_THROW(discover({}, {.rank = 1}), UsageError);
  EXPECT_THROW(discover({}, {.world_size = 2}), UsageError);
  EXPECT_THROW(discover({}, {.rank = 2, .world_size = 2}), UsageError);
  EXPECT_THROW(discover(kTorchrun, {.master_port = 0}), UsageError);
}

TEST(Ranks, AnyEnvironmentGivesAConsistentIdentityOrAnEnvironmentError) {
  core::CounterRng rng(core::stream_key(5, "ranks"));
  const std::vector<std::string> values{"0",     "1",      "2",  "4",   "",      "x",   "-3",
                                        "2(x2)", "n[1-2]", "n[", "0,1", "65536", "True"};
  const Env all = merged(merged(merged(kTorchrun, kSlurmStep), kOpenMpi), kPmi);
  int identities = 0;
  for (int round = 0; round < 20000; ++round) {
    Env env;
    for (const auto& [name, value] : all) {
      if (rng.below(2) == 0) env[name] = rng.below(3) == 0 ? values[rng.below(values.size())] : value;
    }
    try {
      const RankInfo info = discover(env);
      ++identities;
      ASSERT_TRUE(info.rank >= 0 && info.rank < info.world_size);
      ASSERT_TRUE(info.local_rank >= 0 && info.local_rank < info.local_world_size);
      ASSERT_TRUE(info.world_size == 1 || (info.master_port > 0 && !info.master_addr.empty()));
    } catch (const EnvironmentError&) {
    }
  }
  EXPECT_GT(identities, 1000);
}

}  // namespace
}  // namespace lockstep::hw
