// Several ranks, each with a simulated device and with collectives as NCCL's: every way to divide the work gives the
// numbers of the CPU, without a race.
#include <gtest/gtest.h>

#include "accelerator/accelerator_fixture.h"
#include "accelerator/divisions.h"

namespace lockstep::tests {
namespace {

/// Of losses; norms of gradients: ten times that. The formulas of a device round in another order than the CPU's.
constexpr double kFp32 = 1e-5, kNarrowClip = 2e-2;

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

}  // namespace
}  // namespace lockstep::tests
