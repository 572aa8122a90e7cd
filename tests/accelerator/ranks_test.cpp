// Several ranks, each with a simulated device and with collectives as NCCL's: every way to divide the work gives the
// numbers of the CPU, without a race.
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"
#include "accelerator/divisions.h"

namespace lockstep::tests {
namespace {

/// Of losses; norms of gradients: ten times that. The formulas of a device round in another order than the CPU's.
constexpr double kFp32 = 1e-5, kNarrowClip = 2e-2, kNorms = 1e-3;

class GptRanksOnAccelerator : public AcceleratorFixture, public ::testing::WithParamInterface<Division> {};

TEST_P(GptRanksOnAccelerator, AreAsOnTheCpu) {
  expect_as_on_the_cpu(
      GetParam().num_ranks, [&](const std::string& name) { return gpt_args(name, GetParam().flags); },
      GetParam().is_narrow ? kNarrowGpt : kFp32);
}

INSTANTIATE_TEST_SUITE_P(Divisions, GptRanksOnAccelerator, ::testing::ValuesIn(gpt_divisions()), kDivisionName);

class ClipRanksOnAccelerator : public AcceleratorFixture, public ::testing::WithParamInterface<Division> {};

TEST_P(ClipRanksOnAccelerator, AreAsOnTheCpu) {
  expect_as_on_the_cpu(
      GetParam().num_ranks, [&](const std::string& name) { return clip_args(name, GetParam().flags); },
      GetParam().is_narrow ? kNarrowClip : kFp32);
}

INSTANTIATE_TEST_SUITE_P(Divisions, ClipRanksOnAccelerator, ::testing::ValuesIn(clip_divisions()), kDivisionName);

class OtherRanksOnAccelerator : public AcceleratorFixture {};

TEST_F(OtherRanksOnAccelerator, SynchronisedNormsAreAsOnTheCpu) {
  expect_as_on_the_cpu(
      2,
      [&](const std::string& name) {
        return imagenet_args(name, {"--sync-bn", "--batch-size", "4"});
      },
      kNorms);
}

TEST_F(OtherRanksOnAccelerator, DistillationIsAsOnTheCpu) {
  ASSERT_EQ(run(on_any_device(train_args("teacher", {"--max-steps", "1"})), 0).exit_code, 0);
  const std::string teacher = (newest_checkpoint("teacher") / "model.safetensors").string();
  expect_as_on_the_cpu(
      2,
      [&](const std::string& name) {
        return clip_args(
            name, {"--distill-model", (shared_->path() / "tiny.json").string(), "--distill-pretrained", teacher});
      },
      kFp32);
}

}  // namespace
}  // namespace lockstep::tests
