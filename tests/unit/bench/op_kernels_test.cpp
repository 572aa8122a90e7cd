#include "bench/op_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::bench {
namespace {

TEST(OpKernels, EveryOperatorIsRightInEveryType) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const OpShape& shape : {OpShape{OpKind::kGemm, "", {70, 50, 130}}, OpShape{OpKind::kCopy, "", {1000}},
                                 OpShape{OpKind::kTriad, "", {1000}}, OpShape{OpKind::kAttention, "", {2, 3, 40, 16}},
                                 OpShape{OpKind::kLayerNorm, "", {30, 64}}, OpShape{OpKind::kSumNorm, "", {30, 72}},
                                 OpShape{OpKind::kNormBackward, "", {30, 64}}})
      EXPECT_EQ(make_op_kernel(shape, type, at::kCPU)->count_wrong(), 0)
          << op_name(shape.kind) << " " << c10::toString(type);
}

TEST(OpKernels, WorkOfKnownShapes) {
  EXPECT_EQ((OpShape{OpKind::kGemm, "", {10, 20, 30}}.flops()), 12000);
  EXPECT_EQ((OpShape{OpKind::kAttention, "", {2, 3, 10, 8}}.flops()),
            4 * 2 * 3 * 100 * 8);  // two products of T x T x K a head
  EXPECT_EQ((OpShape{OpKind::kTriad, "", {100}}.bytes(4)), 1200);
  EXPECT_EQ((OpShape{OpKind::kCopy, "", {100}}.bytes(2)), 400);
  EXPECT_EQ((OpShape{OpKind::kLayerNorm, "", {10, 8}}.bytes(4)), 640);
}

TEST(OpKernels, ShapesOfAModelAreThoseOfItsTowersOnce) {
  const auto ops = model_ops(config::resolve_clip_shape("ViT-B-32"), 4);
  std::set<std::string> gemms;
  double flops = 0;
  for (const auto& op : ops)
    if (op.kind == OpKind::kGemm) {
      EXPECT_TRUE(gemms.insert(op.text()).second) << op.text();
      flops += op.flops();
    }
  EXPECT_TRUE(gemms.contains("200x2304x768"));  // 4 x 50 tokens, queries, keys and values
  EXPECT_TRUE(gemms.contains("308x2048x512"));  // 4 x 77 tokens
  EXPECT_EQ(gemms.size(), 8u);
  EXPECT_EQ(flops, 2.0 * 12 * (200.0 * 768 * 768 + 308.0 * 512 * 512));  // 12 W^2 multiply-adds a token and block
}

TEST(OpKernels, SquareSweepEndsAtTheLargest) {
  const auto ops = square_gemms(256, 2048, 2);
  ASSERT_EQ(ops.size(), 4u);
  EXPECT_EQ(ops.back().text(), "2048x2048x2048");
}

}  // namespace
}  // namespace lockstep::bench
