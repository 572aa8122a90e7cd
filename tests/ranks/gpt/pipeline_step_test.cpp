// One part on one stage: the pipeline's step is the plain step, to the last bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "support/gpt_mesh.h"
#include "support/ranks/run_ranks.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::tests {
namespace {

/// Micro-batches of two samples of 8 tokens.
std::vector<models::Batch> make_batches(int64_t count) {
  std::vector<models::Batch> batches(static_cast<size_t>(count));
  for (int64_t micro = 0; micro < count; ++micro) {
    const at::Tensor ids = at::arange(18).add(micro * 5).mul(7).remainder(45).view({2, 9});
    models::Batch& batch = batches[static_cast<size_t>(micro)];
    batch.text_BT = ids.narrow(1, 0, 8);
    batch.target_BT = ids.narrow(1, 1, 8);
    batch.num_samples = 2;
  }
  return batches;
}

TEST(PipelineStep, IsThePlainStepOnOneStage) {
  const MeshCase alone{.micro = 3};
  const tasks::GptOptions options = options_of(alone);
  const plan::GptLayout layout = tasks::train_gpt_layout(options, 1);
  std::map<std::string, std::vector<at::Tensor>> found;
  std::vector<double> losses;
  for (const bool is_plain : {false, true})
    run_mesh_groups(layout.mesh, [&](comm::MeshGroups& groups) {
      tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
      if (is_plain)
        training.runner =
            train::make_plain_step({.task = *training.task, .sync = *training.sync, .precision = *training.precision});
      std::vector<models::Batch> batches = make_batches(3);
      const train::StepOutcome outcome = training.runner->run(batches, 11);
      EXPECT_EQ(outcome.num_samples, 6);
      for (const auto& [name, value] : outcome.scalars)
        if (name == "loss") losses.push_back(value.item<double>());
      for (const auto& [name, tensor] : training.task->network().named_parameters())
        found[name].push_back(tensor->grad().clone());
    });
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_GT(losses[0], 1);
  ASSERT_FALSE(found.empty());
  for (const auto& [name, gradients] : found) {
    EXPECT_TRUE(at::equal(gradients.at(0), gradients.at(1))) << name;
    EXPECT_GT(gradients[0].abs().max().item<double>(), 0) << name;
  }
}

TEST(PipelineStep, ForwardPassesAloneGiveTheSameLossOnTwoStages) {
  std::vector<double> losses;
  for (const int pp : {1, 2}) {
    MeshCase mesh{.pp = pp, .chunks = pp == 1 ? 4 : 2, .micro = 4};
    const tasks::GptOptions options = options_of(mesh);
    const plan::GptLayout layout = tasks::train_gpt_layout(options, pp);
    run_mesh_groups(layout.mesh, [&](comm::MeshGroups& groups) {
      tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
      training.task->network().set_training(false);
      std::vector<models::Batch> batches = make_batches(4);
      const auto pipeline = tasks::gpt_pipeline_parts(*training.stage, layout, groups, {at::kCPU, at::kFloat});
      const double loss = train::pipeline_loss(pipeline, *training.precision, batches).mean();
      if (groups.world.rank() == 0) losses.push_back(loss);
    });
  }
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_GT(losses[0], 1);
  EXPECT_NEAR(losses[0], losses[1], 1e-6 * losses[0]);
}

}  // namespace
}  // namespace lockstep::tests
