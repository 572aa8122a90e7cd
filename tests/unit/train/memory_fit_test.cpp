#include "train/memory_fit.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"

namespace lockstep::train {
namespace {

using tests::message_of;

constexpr double kGiB = 1024.0 * 1024 * 1024;

TEST(MemoryFit, PlansFarBeyondTheMemoryAreRefused) {
  const PlannedMemory plan{.model = "gpt2",
                           .bytes_of_ranks = {},
                           .parts_of_fullest = {{"parameters", kGiB}, {"optimizer", 20 * kGiB}, {"logits", 68 * kGiB}},
                           .hint = "share it"};
  const auto error = [&](double planned, double bytes) {
    return message_of<EnvironmentError>([&] { refuse_beyond_memory(plan, planned, bytes, "device 'cuda:1'"); });
  };
  EXPECT_EQ(error(80 * kGiB, 80 * kGiB), "no error");
  EXPECT_EQ(error(87.9 * kGiB, 80 * kGiB), "no error") << "within the margin";
  EXPECT_EQ(
      error(89 * kGiB, 80 * kGiB),
      "plan: model 'gpt2' laid out so takes 89.0 GiB of memory, device 'cuda:1' has 80.0 GiB; most of a rank's is "
      "logits (68.0 GiB), optimizer (20.0 GiB)\n  hint: share it; --dry-run shows what takes how much");
}

}  // namespace
}  // namespace lockstep::train
