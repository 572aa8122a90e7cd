// Several ranks, each with a simulated device and with collectives as NCCL's: every way to divide the work gives the
// numbers of the CPU, without a race.
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"

namespace lockstep::tests {
namespace {

struct Division {
  const char* name;
  int num_ranks;
  std::vector<std::string> flags;
  double relative;  ///< Of losses; norms of gradients: ten times that.
};

std::ostream& operator<<(std::ostream& out, const Division& division) { return out << division.name; }

constexpr double kFp32 = 1e-5;
/// Roundings of activations in another order, through two layers and six steps.
constexpr double kNarrow = 2e-2;

class GptRanksOnAccelerator : public AcceleratorFixture, public ::testing::WithParamInterface<Division> {};

TEST_P(GptRanksOnAccelerator, AreAsOnTheCpu) {
  expect_as_on_the_cpu(
      GetParam().num_ranks, [&](const std::string& name) { return gpt_args(name, GetParam().flags); },
      GetParam().relative);
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, GptRanksOnAccelerator,
    ::testing::Values(
        Division{"accumulation_alone", 1, {"--accumulate-allreduce-grads-in-fp32", "--precision", "bf16"}, kNarrow},
        Division{"data", 2, {"--ddp-bucket-size", "4000", "--check-replicas", "2"}, kFp32},
        Division{"sharded_optimizer",
                 2,
                 {"--use-distributed-optimizer", "--overlap-param-gather", "--ddp-bucket-size", "4000",
                  "--save-every-n-steps", "3", "--eval-interval", "3", "--eval-iters", "1"},
                 kFp32},
        Division{"sharded_masters",
                 2,
                 {"--use-distributed-optimizer", "--precision", "bf16", "--save-every-n-steps", "3"},
                 kNarrow},
        Division{"scaled_loss", 2, {"--precision", "fp16", "--initial-loss-scale", "1024"}, kNarrow},
        Division{
            "tensors", 2, {"--tensor-model-parallel-size", "2", "--log-params-norm", "--log-num-zeros-in-grad"}, kFp32},
        Division{"tensors_and_tokens", 2, {"--tensor-model-parallel-size", "2", "--sequence-parallel"}, kFp32},
        Division{"fp8",
                 2,
                 {"--tensor-model-parallel-size", "2", "--sequence-parallel", "--precision", "bf16", "--fp8-format",
                  "hybrid"},
                 kNarrow},
        Division{"stages", 2, {"--pipeline-model-parallel-size", "2", "--global-batch-size", "8"}, kFp32},
        Division{
            "virtual_stages",
            2,
            {"--pipeline-model-parallel-size", "2", "--num-layers", "4", "--num-virtual-stages-per-pipeline-rank", "2",
             "--global-batch-size", "8", "--calculate-per-token-loss", "--eval-interval", "3", "--eval-iters", "1"},
            kFp32},
        Division{"recomputed_stages",
                 4,
                 {"--pipeline-model-parallel-size", "2", "--use-distributed-optimizer", "--recompute-granularity",
                  "full", "--recompute-method", "uniform", "--recompute-num-layers", "1", "--global-batch-size", "8",
                  "--calculate-per-token-loss"},
                 kFp32}),
    [](const auto& division) { return std::string(division.param.name); });

class ClipRanksOnAccelerator : public AcceleratorFixture, public ::testing::WithParamInterface<Division> {};

TEST_P(ClipRanksOnAccelerator, AreAsOnTheCpu) {
  expect_as_on_the_cpu(
      GetParam().num_ranks,
      [&](const std::string& name) {
        auto args = on_any_device(train_args(name, {"--max-steps", "5"}));
        args.insert(args.end(), GetParam().flags.begin(), GetParam().flags.end());
        return args;
      },
      GetParam().relative);
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, ClipRanksOnAccelerator,
    ::testing::Values(
        Division{"data", 2, {"--check-replicas", "2"}, kFp32},
        Division{"local_loss", 2, {"--local-loss", "--gather-with-grad"}, kFp32},
        Division{"cached_features", 2, {"--accum-freq", "2", "--local-loss", "--gather-with-grad"}, kFp32},
        Division{"autocast", 2, {"--precision", "amp_bf16", "--local-loss", "--gather-with-grad"}, kNarrow},
        Division{"sharded_masters", 2, {"--precision", "bf16_master", "--grad-sync", "zero1"}, kNarrow}),
    [](const auto& division) { return std::string(division.param.name); });

}  // namespace
}  // namespace lockstep::tests
