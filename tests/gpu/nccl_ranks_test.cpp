// Several ranks connected by NCCL, each on a GPU of its own where there are enough. Else they share one: each names it
// by another prefix of its UUID and says that it is a node of its own (NCCL_HOSTID), so that neither lockstep nor NCCL
// refuses the second. Their collectives then go by sockets; everything else is as between GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "accelerator/divisions.h"
#include "gpu/gpu_fixture.h"

namespace lockstep::tests {
namespace {

class NcclRanks : public GpuFixture {
 protected:
  /// One process for each rank. In the order of the ranks.
  static std::vector<ProgramResult> run_over_nccl(int num_ranks, std::vector<std::string> args,
                                                  const EnvChanges& more = {}) {
    if (is_trial()) return run_ranks(num_ranks, args, num_ranks, more);
    args.insert(args.begin(), LOCKSTEP_BUILD_DIR "/lockstep-engine");
    const auto gpus = hw::ask_driver().gpus;
    const bool is_shared = hw::num_visible_gpus(hw::visible_devices(), hw::ask_driver()) < num_ranks;
    const std::string port = std::to_string(free_port()), world = std::to_string(num_ranks);
    std::vector<std::future<ProgramResult>> ranks;
    for (int rank = 0; rank < num_ranks; ++rank) {
      constexpr size_t kUniquePrefix = 20;  // GPU-01234567-89ab-cd
      EnvChanges changes{{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", world},
                         {"LOCAL_RANK", is_shared ? "0" : std::to_string(rank)},
                         {"LOCAL_WORLD_SIZE", is_shared ? "1" : world},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", port}};
      if (is_shared)
        changes.insert({{"CUDA_VISIBLE_DEVICES", gpus.at(0).uuid.substr(0, kUniquePrefix + static_cast<size_t>(rank))},
                        {"NCCL_HOSTID", fmt::format("node-{}", rank)},
                        {"NCCL_SOCKET_IFNAME", "lo"}});
      changes.insert(more.begin(), more.end());
      ranks.push_back(std::async(std::launch::async, [=] { return run_program(args, changes); }));
    }
    std::vector<ProgramResult> results;
    for (auto& rank : ranks) results.push_back(rank.get());
    return results;
  }
  /// Losses and norms of gradients over NCCL are those of as many ranks on the CPU over Gloo. `args(name)`: a command
  /// line.
  template <typename Args> void expect_as_over_gloo(int num_ranks, double relative, const Args& args) const {
    const auto ranks = run_over_nccl(num_ranks, in_full_fp32(args("gpu")));
    for (const auto& rank : ranks) ASSERT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_NE(ranks[0].err.find(is_trial() ? "simulated:0" : "cuda:0"), std::string::npos) << ranks[0].err;
    for (const auto& rank : run_ranks(num_ranks, args("cpu"), 0)) ASSERT_EQ(rank.exit_code, 0) << rank.err;
    expect_close_runs("gpu", "cpu", relative);
  }
};

/// Each activation is rounded to 8 bits, and summed in another order before.
constexpr double kNarrowClip = 2e-2;

class GptNcclRanks : public NcclRanks, public ::testing::WithParamInterface<Division> {};

TEST_P(GptNcclRanks, AreAsOverGloo) {
  expect_as_over_gloo(GetParam().num_ranks, GetParam().is_narrow ? kNarrowGpt : kFp32,
                      [&](const std::string& name) { return gpt_args(name, GetParam().flags); });
}

INSTANTIATE_TEST_SUITE_P(Divisions, GptNcclRanks, ::testing::ValuesIn(gpt_divisions()), kDivisionName);

class ClipNcclRanks : public NcclRanks, public ::testing::WithParamInterface<Division> {};

TEST_P(ClipNcclRanks, AreAsOverGloo) {
  expect_as_over_gloo(GetParam().num_ranks, GetParam().is_narrow ? kNarrowClip : kFp32,
                      [&](const std::string& name) { return clip_args(name, GetParam().flags); });
}

INSTANTIATE_TEST_SUITE_P(Divisions, ClipNcclRanks, ::testing::ValuesIn(clip_divisions()), kDivisionName);

TEST_F(NcclRanks, ClapIsAsOverGloo) {
  expect_as_over_gloo(2, kFp32, [&](const std::string& name) { return clap_args(name, {}); });
}

TEST_F(NcclRanks, ImagenetIsAsOverGloo) {
  constexpr double kNormsOfSmallBatches = 5e-3;
  expect_as_over_gloo(2, kNormsOfSmallBatches, [&](const std::string& name) {
    return imagenet_args(name, {"--val-data", labelled_shapes()});
  });
}

TEST_F(NcclRanks, ShardedStateResumesBitForBit) {
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> flags{"--use-distributed-optimizer", "--precision", "bf16", "--deterministic"};
    flags.insert(flags.end(), more.begin(), more.end());
    for (const auto& rank : run_over_nccl(2, gpt_args(name, flags))) ASSERT_EQ(rank.exit_code, 0) << rank.err;
  };
  train("whole", {});
  train("parts", {"--exit-interval", "3"});
  train("parts", {"--resume", "latest"});
  EXPECT_EQ(losses("whole"), losses("parts"));
  expect_same_files("parts", "whole");
}

/// A rank has the fault in its third step, while the other waits in NCCL's kernels, which have no end of their own.
class NcclFaults : public NcclRanks {
 protected:
  std::vector<ProgramResult> run_with(const std::string& kind, int rank, const std::string& timeout_s) const {
    return run_over_nccl(
        2, clip_args("fault", {"--local-loss", "--gather-with-grad", "--dist-timeout", timeout_s}),
        {{"LOCKSTEP_FAULT", fmt::format("{} rank={} from=2", kind, rank)}, {"LOCKSTEP_RUN_FOLDER_FILE", {}}});
  }
};

TEST_F(NcclFaults, RankThatThrows) {
  const auto ranks = run_with("throw", 1, "1800");
  EXPECT_EQ(ranks[1].exit_code, 1) << ranks[1].err;
  expect_noticed(ranks[0], "rank 1 (pid ");
}

TEST_F(NcclFaults, RankThatDiesWithoutAWord) {
  const auto ranks = run_with("die", 1, "1800");
  EXPECT_EQ(ranks[1].exit_code, 128 + SIGKILL);
  expect_noticed(ranks[0], "rank 1 (pid ");
}

TEST_F(NcclFaults, RankZeroThatDiesWithoutAWord) {
  const auto ranks = run_with("die", 0, "1800");
  EXPECT_EQ(ranks[0].exit_code, 128 + SIGKILL);
  expect_noticed(ranks[1], "served by rank 0 ");  // its connection is lost, or it does not answer
}

TEST_F(NcclFaults, RankThatStandsStill) {
  if (is_trial()) GTEST_SKIP() << "NCCL's watchdog is not simulated";
  const auto ranks = run_with("hang", 1, "10");
  expect_noticed(ranks[0], "rank 1 (pid ");
  EXPECT_EQ(ranks[1].exit_code, 3) << ranks[1].err;
}

}  // namespace
}  // namespace lockstep::tests
