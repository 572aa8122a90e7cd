// Ranks of plain srun on a real SLURM of two nodes that lives as long as the test: one is killed, and nobody but the
// other ranks, some of them on another node, can say it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "record/reader.h"
#include "slurm/cluster.h"
#include "support/error_text.h"

namespace lockstep::tests {
namespace {

constexpr int kNumRanks = 4, kKilledCode = 137, kLostPeerCode = 3;

constexpr const char* kModel = R"({"embed_dim": 32,
  "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
  "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}})";

/// $0: lockstep, $1: the rank to be lost. Of rank N: what it says in N.err, its exit code in N.code.
constexpr const char* kScript = R"(export LOCKSTEP=$0 LOCKSTEP_FAULT="die rank=$1 from=3"
srun --nodes=2 --ntasks-per-node=2 sh -c '"$LOCKSTEP" "$@" 2>$SLURM_PROCID.err; code=$?; echo $code >$SLURM_PROCID.code
  exit $code' sh train clip --dataset-type synthetic --train-num-samples 64 --epochs 1 --model model.json \
  --batch-size 2 --workers 1 --threads 1 --precision fp32 --device cpu --lr 1e-3 --log-every-n-steps 1 \
  --logs . --name lost)";

/// Rank GetParam() is killed by SIGKILL in its fourth step.
class LostRanksOnSlurm : public ::testing::TestWithParam<int> {
 protected:
  std::string read(int rank, const char* kind) const {
    return core::read_file(folder_.path() / fmt::format("{}.{}", rank, kind));
  }

  core::TempDir folder_{"lockstep_slurm_lost"};
};

TEST_P(LostRanksOnSlurm, TheOthersEndAndNameIt) {
  if (const std::string reason = reason_against_cluster(); !reason.empty()) GTEST_SKIP() << reason;
  const int lost = GetParam();
  core::write_file_atomic(folder_.path() / "model.json", kModel);
  const auto run = run_program(
      {kCluster, "--nodes", "2", "--", "/bin/sh", "-c", fmt::format("cd '{}'\n{}", folder_.path().string(), kScript),
       lockstep_program(), std::to_string(lost)},
      {{"SLURM_CONF", {}}, {"MASTER_ADDR", {}}, {"MASTER_PORT", {}}});
  EXPECT_FALSE(run.timed_out);
  EXPECT_EQ(run.exit_code, kKilledCode) << "srun's: the largest of its tasks\n" << run.err;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    const std::string err = read(rank, "err");
    EXPECT_EQ(read(rank, "code"), fmt::format("{}\n", rank == lost ? kKilledCode : kLostPeerCode)) << err;
    if (rank == lost) continue;
    EXPECT_TRUE(holds(err, fmt::format("rank {} (pid ", lost)) ||
                holds(err, fmt::format("served by rank {} does not answer", lost)))
        << "rank " << rank << ": " << err;
  }
  const auto status = record::read_status(folder_.path() / "lost");
  EXPECT_EQ(status.state, "failed");
  EXPECT_EQ(status.exit_code, kLostPeerCode);
  EXPECT_EQ(status.first_failing_rank, lost);
  EXPECT_TRUE(holds(status.message, fmt::format("rank {} (pid ", lost))) << status.message;
}

INSTANTIATE_TEST_SUITE_P(Of, LostRanksOnSlurm, ::testing::Values(0, 3));  // rank 0 serves the store

}  // namespace
}  // namespace lockstep::tests
