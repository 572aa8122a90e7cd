// A GPT on every kind of mesh against the same GPT on one rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "support/gpt_mesh.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::tests {
namespace {

class GptMesh : public ::testing::TestWithParam<MeshCase> {};

TEST_P(GptMesh, EqualsOneRank) { EXPECT_EQ(compare_with_one_rank(GetParam()), ""); }

std::vector<MeshCase> cover() { return pairwise_cover(legal_meshes(8)); }
INSTANTIATE_TEST_SUITE_P(Cover, GptMesh, ::testing::ValuesIn(cover()),
                         [](const auto& chosen) { return chosen.param.name(); });

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

INSTANTIATE_TEST_SUITE_P(
    Precisions, GptMesh,
    ::testing::Values(
        MeshCase{.tp = 2, .micro = 2, .precision = "bf16"},
        MeshCase{.pp = 2, .chunks = 2, .micro = 2, .precision = "bf16"},
        MeshCase{.dp = 2, .micro = 2, .is_sharded = true, .precision = "bf16"},
        MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true, .precision = "bf16"},
        MeshCase{.tp = 2, .micro = 2, .precision = "fp16"},
        MeshCase{.pp = 2, .micro = 2, .is_gpipe = true, .precision = "fp16"},
        MeshCase{.dp = 3, .micro = 2, .is_sharded = true, .precision = "fp16"},
        MeshCase{
            .tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true, .precision = "fp16"}),
    [](const auto& chosen) { return chosen.param.name(); });

INSTANTIATE_TEST_SUITE_P(
    Models, GptMesh,
    ::testing::Values(MeshCase{.tp = 2,
                               .pp = 2,
                               .dp = 2,
                               .micro = 2,
                               .splits_tokens = true,
                               .is_tied = false,
                               .is_sharded = true,
                               .model = "llama"},
                      MeshCase{.tp = 4, .pp = 2, .micro = 3, .is_tied = false, .model = "llama"},
                      MeshCase{.pp = 2, .dp = 2, .chunks = 2, .micro = 4, .model = "llama"},
                      MeshCase{.tp = 2,
                               .pp = 2,
                               .dp = 2,
                               .micro = 2,
                               .splits_tokens = true,
                               .is_tied = false,
                               .is_sharded = true,
                               .model = "nemotron"},
                      MeshCase{.tp = 4, .dp = 2, .micro = 2, .is_tied = false, .model = "nemotron"},
                      MeshCase{.pp = 2, .chunks = 3, .micro = 2, .is_tied = false, .model = "nemotron"}),
    [](const auto& chosen) { return chosen.param.name(); });

std::vector<MeshCase> recomputing() {
  std::vector<MeshCase> all;
  for (const char* how : {"selective", "uniform", "block"})
    for (const MeshCase& mesh :
         {MeshCase{.tp = 2, .pp = 2, .chunks = 2, .micro = 2, .splits_tokens = true},
          MeshCase{.pp = 2, .dp = 2, .chunks = 3, .micro = 4, .is_sharded = true},
          MeshCase{.pp = 3, .micro = 3, .is_gpipe = true, .is_tied = false, .stages = "Ett|tt|ttL"},
          MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .is_sharded = true, .model = "llama"}}) {
      all.push_back(mesh);
      all.back().recompute = how;
    }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Recomputing, GptMesh, ::testing::ValuesIn(recomputing()),
                         [](const auto& chosen) { return chosen.param.name(); });

INSTANTIATE_TEST_SUITE_P(
    Stages, GptMesh,
    ::testing::Values(
        MeshCase{.pp = 2, .micro = 2, .stages = "Et|ttL"}, MeshCase{.tp = 2, .pp = 3, .micro = 4, .stages = "E|ttt|tL"},
        MeshCase{.pp = 2, .dp = 2, .micro = 4, .is_sharded = true, .stages = "Et|t|tt|tL"},
        MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true, .is_tp_pp_dp = true},
        MeshCase{.pp = 2, .dp = 4, .chunks = 2, .micro = 2, .is_tied = false, .is_tp_pp_dp = true},
        MeshCase{
            .tp = 2, .pp = 2, .dp = 2, .micro = 3, .splits_tokens = true, .is_sharded = true, .is_per_token = true}),
    [](const auto& chosen) { return chosen.param.name(); });

/// Infinity in one gradient that one rank alone holds.
TEST(GptMesh, OverflowOfOneRankIsSkippedByAll) {
  for (const bool is_sharded : {false, true}) {
    tasks::GptOptions options =
        options_of({.tp = 2, .pp = 2, .dp = 2, .micro = 2, .is_sharded = is_sharded, .precision = "fp16"});
    options.hysteresis = 1;
    const plan::GptLayout layout = tasks::train_gpt_layout(options, 8);
    std::atomic<int> num_skipped = 0, num_updated = 0;
    run_mesh_groups(layout.mesh, [&](comm::MeshGroups& groups) {
      train::Training training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
      const auto parameters = training.task->network().named_parameters();
      const auto update = [&](bool overflows) {
        std::vector<at::Tensor> before;
        training.sync->wait_params();
        for (const auto& [name, tensor] : parameters) before.push_back(tensor->detach().clone());
        std::vector<models::Batch> batches(2);
        for (models::Batch& batch : batches) {
          batch.text_BT = at::arange(16).mul(7).remainder(45).view({2, 8});
          batch.target_BT = at::arange(16).mul(5).remainder(45).view({2, 8});
          batch.num_samples = 2;
        }
        training.runner->run(batches, 5);
        const plan::MeshPoint point = groups.mesh.point();
        if (overflows && point.pp == 1 && point.tp == 1 && point.dp == 0) {
          const auto& counted = training.norm.counted;
          const auto first = std::find_if(counted.begin(), counted.end(), [](int64_t count) { return count > 0; });
          training.optimizer->gradients()
              .at(static_cast<size_t>(first - counted.begin()))
              .view({-1})
              .select(0, 0)
              .fill_(std::numeric_limits<float>::infinity());
        }
        training.update(1e-2, 0.5);
        training.sync->wait_params();
        size_t num_equal = 0;
        for (size_t i = 0; i < parameters.size(); ++i) num_equal += parameters[i].tensor->equal(before[i]) ? 1 : 0;
        return num_equal;
      };
      if (update(true) == parameters.size() && training.scaler->state().scale == 512) ++num_skipped;
      if (update(false) == 0 && training.scaler->state().scale == 512) ++num_updated;
    });
    EXPECT_EQ(num_skipped, 8) << is_sharded;
    EXPECT_EQ(num_updated, 8) << is_sharded;
  }
}

class GptMeshGloo : public ::testing::TestWithParam<MeshCase> {};

TEST_P(GptMeshGloo, EqualsOneRank) { EXPECT_EQ(compare_with_one_rank(GetParam(), ThreadBackend::kGloo), ""); }

INSTANTIATE_TEST_SUITE_P(
    Modes, GptMeshGloo,
    ::testing::Values(MeshCase{.tp = 2, .micro = 2}, MeshCase{.pp = 2, .micro = 3}, MeshCase{.dp = 2, .micro = 2},
                      MeshCase{.pp = 2, .chunks = 2, .micro = 4}, MeshCase{.pp = 2, .micro = 3, .is_gpipe = true},
                      MeshCase{.tp = 2, .pp = 2, .micro = 2, .splits_tokens = true},
                      MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .is_tied = false, .is_sharded = true}),
    [](const auto& chosen) { return chosen.param.name(); });

}  // namespace
}  // namespace lockstep::tests
