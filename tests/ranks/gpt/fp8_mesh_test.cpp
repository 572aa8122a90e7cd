// A GPT in 8 bits on several kinds of mesh against the same GPT on one rank. No tolerance is left for a number that is
// rounded to another one of 8 bits: sums of products of such numbers are all but exact in fp32, whatever their order,
// so that the layouts round the same numbers. (bf16 activations differ between layouts by themselves:
// tests/commands/train_gpt_test.cpp compares their losses.)
#include <gtest/gtest.h>

#include "support/gpt_mesh.h"

namespace lockstep::tests {
namespace {

class Fp8Mesh : public ::testing::TestWithParam<MeshCase> {};

TEST_P(Fp8Mesh, EqualsOneRank) { EXPECT_EQ(compare_with_one_rank(GetParam()), ""); }

std::vector<MeshCase> meshes() {
  std::vector<MeshCase> all;
  for (const char* recipe : {"delayed", "tensorwise"})
    for (const MeshCase& mesh : {MeshCase{.tp = 2, .micro = 2}, MeshCase{.tp = 2, .micro = 2, .splits_tokens = true},
                                 MeshCase{.tp = 4, .micro = 1, .splits_tokens = true}, MeshCase{.pp = 2, .micro = 3},
                                 MeshCase{.pp = 2, .chunks = 2, .micro = 4}, MeshCase{.dp = 2, .micro = 2},
                                 MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true},
                                 MeshCase{.tp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true}}) {
      all.push_back(mesh);
      all.back().fp8 = recipe;
    }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Some, Fp8Mesh, ::testing::ValuesIn(meshes()),
                         [](const auto& chosen) { return chosen.param.name(); });

TEST(Fp8MeshGloo, EqualsOneRank) {
  for (const char* recipe : {"delayed", "tensorwise"})
    EXPECT_EQ(compare_with_one_rank({.tp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .fp8 = recipe},
                                    ThreadBackend::kGloo),
              "")
        << recipe;
}

}  // namespace
}  // namespace lockstep::tests
