#include "train/device.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"

namespace lockstep::train {
namespace {

/// Tensors of a GPU would reach Gloo, and the first collective would end as a broken invariant.
TEST(Backend, GlooConnectsNoRanksOnGpus) {
  const at::Device cpu(at::kCPU), gpu(at::kCUDA, 1);
  EXPECT_EQ(choose_backend("auto", cpu, 4), "gloo");
  EXPECT_EQ(choose_backend("auto", gpu, 4), "nccl");
  EXPECT_EQ(choose_backend("nccl", gpu, 4), "nccl");
  EXPECT_EQ(choose_backend("gloo", cpu, 4), "gloo");
  EXPECT_EQ(choose_backend("gloo", gpu, 1), "gloo") << "one rank sends nothing";
  const std::string refused = tests::message_of<UsageError>([&] { choose_backend("gloo", gpu, 4); });
  EXPECT_TRUE(tests::holds(refused, "these 4 compute on GPUs (cuda:1)")) << refused;
  EXPECT_TRUE(tests::holds(refused, "hint: leave it out")) << refused;
}

}  // namespace
}  // namespace lockstep::train
