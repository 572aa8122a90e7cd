// A GPT on every kind of mesh against the same GPT on one rank.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/gpt_mesh.h"

namespace lockstep::tests {
namespace {

class GptMesh : public ::testing::TestWithParam<MeshCase> {};

TEST_P(GptMesh, EqualsOneRank) { EXPECT_EQ(compare_with_one_rank(GetParam()), ""); }

std::vector<MeshCase> cover() { return pairwise_cover(legal_meshes(8)); }
INSTANTIATE_TEST_SUITE_P(Cover, GptMesh, ::testing::ValuesIn(cover()), [](const auto& chosen) { return chosen.param.name(); });

TEST(GptMesh, ManyMeshesAreLegal) {
  const auto all = legal_meshes(8);
  EXPECT_GT(all.size(), 1000u);
  const auto few = cover();
  EXPECT_LT(few.size(), 150u);
  const auto has = [&](auto condition) { return std::any_of(few.begin(), few.end(), condition); };
  EXPECT_TRUE(has([](const MeshCase& m) { return m.tp > 1 && m.pp > 1 && m.dp > 1; }));
  EXPECT_TRUE(has([](const MeshCase& m) { return m.chunks == 3 && m.is_tied; }));
  EXPECT_TRUE(has([](const MeshCase& m) { return m.pp > 1 && m.is_gpipe && m.micro > 1; }));
}

INSTANTIATE_TEST_SUITE_P(Precisions, GptMesh,
                         ::testing::Values(MeshCase{.tp = 2, .micro = 2, .precision = "bf16"}, MeshCase{.pp = 2, .chunks = 2, .micro = 2, .precision = "bf16"},
                                           MeshCase{.dp = 2, .micro = 2, .is_sharded = true, .precision = "bf16"},
                                           MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true, .precision = "bf16"},
                                           MeshCase{.tp = 2, .micro = 2, .precision = "fp16"}, MeshCase{.pp = 2, .micro = 2, .is_gpipe = true, .precision = "fp16"},
                                           MeshCase{.dp = 3, .micro = 2, .is_sharded = true, .precision = "fp16"},
                                           MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true, .precision = "fp16"}),
                         [](const auto& chosen) { return chosen.param.name(); });

class GptMeshGloo : public ::testing::TestWithParam<MeshCase> {};

TEST_P(GptMeshGloo, EqualsOneRank) { EXPECT_EQ(compare_with_one_rank(GetParam(), comm::ThreadBackend::kGloo), ""); }

INSTANTIATE_TEST_SUITE_P(Modes, GptMeshGloo,
                         ::testing::Values(MeshCase{.tp = 2, .micro = 2}, MeshCase{.pp = 2, .micro = 3}, MeshCase{.dp = 2, .micro = 2},
                                           MeshCase{.pp = 2, .chunks = 2, .micro = 4}, MeshCase{.pp = 2, .micro = 3, .is_gpipe = true},
                                           MeshCase{.tp = 2, .pp = 2, .micro = 2, .splits_tokens = true}, MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .is_tied = false, .is_sharded = true}),
                         [](const auto& chosen) { return chosen.param.name(); });

}  // namespace
}  // namespace lockstep::tests
