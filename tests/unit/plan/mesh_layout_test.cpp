#include "plan/mesh_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep::plan {
namespace {

constexpr Axis kAxes[] = {Axis::kPipeline, Axis::kData, Axis::kTensor};

/// Every group of an axis, found from its first rank.
std::vector<std::vector<int>> groups_of(const MeshLayout& mesh, Axis axis) {
  std::vector<std::vector<int>> out;
  for (int rank = 0; rank < mesh.world_size(); ++rank)
    if (mesh.point_of(rank).at(axis) == 0) out.push_back(mesh.group_of(rank, axis));
  return out;
}

TEST(MeshLayout, EveryRankHasOnePointAndOneGroupPerAxis) {
  for (const MeshOrder order : {MeshOrder::kPpDpTp, MeshOrder::kDpPpTp})
    for (int pp = 1; pp <= 4; ++pp)
      for (int dp = 1; dp <= 4; ++dp)
        for (int tp = 1; tp <= 4; ++tp) {
          const MeshLayout mesh(pp * dp * tp, {.pp = pp, .dp = dp, .tp = tp}, order);
          for (const Axis axis : kAxes) {
            std::vector<int> seen;
            for (const auto& group : groups_of(mesh, axis)) {
              EXPECT_EQ(static_cast<int>(group.size()), mesh.size(axis));
              for (size_t i = 0; i < group.size(); ++i) {
                EXPECT_EQ(mesh.point_of(group[i]).at(axis), static_cast<int>(i));
                EXPECT_EQ(mesh.group_of(group[i], axis), group);
                for (const Axis other : kAxes) {
                  if (other == axis) continue;
                  EXPECT_EQ(mesh.point_of(group[i]).at(other), mesh.point_of(group[0]).at(other));
                }
                seen.push_back(group[i]);
              }
            }
            std::sort(seen.begin(), seen.end());
            ASSERT_EQ(static_cast<int>(seen.size()), mesh.world_size());
            for (int rank = 0; rank < mesh.world_size(); ++rank) EXPECT_EQ(seen[static_cast<size_t>(rank)], rank);
          }
        }
}

TEST(MeshLayout, OrderIsAsStated) {
  const MeshLayout usual(12, {.pp = 2, .dp = 3, .tp = 2});
  EXPECT_EQ(usual.group_of(0, Axis::kTensor), (std::vector<int>{0, 1}));
  EXPECT_EQ(usual.group_of(0, Axis::kData), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(usual.group_of(0, Axis::kPipeline), (std::vector<int>{0, 6}));
  EXPECT_EQ(usual.point_of(9), (MeshPoint{.pp = 1, .dp = 1, .tp = 1}));
  const MeshLayout swapped(12, {.pp = 2, .dp = 3, .tp = 2}, MeshOrder::kDpPpTp);
  EXPECT_EQ(swapped.group_of(0, Axis::kTensor), (std::vector<int>{0, 1}));
  EXPECT_EQ(swapped.group_of(0, Axis::kPipeline), (std::vector<int>{0, 2}));
  EXPECT_EQ(swapped.group_of(0, Axis::kData), (std::vector<int>{0, 4, 8}));
}

TEST(MeshLayout, MisfitNamesWhatWouldFit) {
  const auto hint = [](const auto& make) {
    try {
      make();
    } catch (const UsageError& error) {
      return error.hint();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(hint([] { MeshLayout(8, {.pp = 2, .dp = 3, .tp = 2}); }), "use dp=2");
  EXPECT_EQ(hint([] { MeshLayout(9, {.pp = 2, .dp = 3, .tp = 2}); }), "start 12 ranks");
  EXPECT_EQ(hint([] { MeshLayout::with_data_axis_filled(10, 2, 2); }), "start 8 or 12 ranks");
  EXPECT_EQ(hint([] { MeshLayout::with_data_axis_filled(3, 2, 2); }), "start 4 ranks");
  EXPECT_EQ(MeshLayout::with_data_axis_filled(8, 2, 2).size(Axis::kData), 2);
  EXPECT_THROW(MeshLayout(0, {.pp = 1, .dp = 1, .tp = 1}), UsageError);
  EXPECT_THROW(MeshLayout(4, {.pp = 0, .dp = 4, .tp = 1}), UsageError);
}

}  // namespace
}  // namespace lockstep::plan
