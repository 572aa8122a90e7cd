// One part on one stage: the pipeline's step is the plain step, to the last bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "parallel/grad_sync.h"
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

/// Two stages: x = (micro-batch + 1) w, in rows or with its columns in a row of memory, and the loss, the sum of x
/// times numbers.
class TwoStages final : public models::StagedTask {
 public:
  TwoStages(int stage, bool makes_rows) : stage_(stage), makes_rows_(makes_rows) {
    const c10::NoGradGuard no_grad;
    if (stage == 0) network_.weight.add_(factors_CB);
  }

  nn::Module& network() override { return network_; }
  models::Outputs forward(const models::Batch&) override { throw std::logic_error("stages run chunks"); }
  models::LossReport loss(const models::Outputs& outputs) override { return {.loss = outputs.loss_sum, .parts = {}}; }
  models::Outputs forward_chunk(int64_t, const at::Tensor& x_BC, const models::Batch& batch) override {
    std::erase_if(boundaries_, [](const auto& memory) { return memory.expired(); });
    most_boundaries = std::max(most_boundaries, boundaries_.size());
    models::Outputs out;
    if (stage_ == 1) {
      out.loss_sum = x_BC.t().mul(factors_CB).mul(network_.weight).sum();
      return out;
    }
    const auto number = static_cast<double>(batch.label_B.item<int64_t>() + 1);
    const at::Tensor columns_BC = network_.weight.mul(number).t();
    out.boundary_TBD = makes_rows_ ? columns_BC.contiguous() : columns_BC;
    boundaries_.push_back(out.boundary_TBD.storage().getWeakStorageImpl());
    return out;
  }
  std::vector<int64_t> boundary_shape(int64_t) const override { return {3, 2}; }
  void finish_step() override {}

  struct Network final : nn::Module {
    Network() { register_parameter("weight", weight); }
    at::Tensor weight = at::ones({2, 3}).set_requires_grad(true);
  };

  const at::Tensor factors_CB = at::arange(6, at::kFloat).view({2, 3});
  size_t most_boundaries = 0;  ///< That had not been given back when another one was made.

 private:
  int stage_;
  bool makes_rows_;
  Network network_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> boundaries_;
};

/// One step with all forward passes first, in numbers that tell rows from columns. The most boundaries of stage 0.
size_t run_two_stages(bool makes_rows) {
  constexpr int64_t kNumMicro = 12;
  constexpr double kMeanNumber = (kNumMicro + 1) / 2.0;
  const plan::MeshLayout layout(2, {.pp = 2, .dp = 1, .tp = 1});
  size_t most_boundaries = 0;
  std::mutex mutex;
  run_mesh_groups(
      layout,
      [&](comm::MeshGroups& groups) {
        TwoStages stage(groups.mesh.point().pp, makes_rows);
        const auto sync = parallel::make_grad_sync_none(stage.network().named_parameters());
        const train::Precision precision("fp32", at::kCPU);
        const auto runner = train::make_pipeline_step(
            {.task = stage, .sync = *sync, .precision = precision},
            {.stage = stage,
             .stages = groups.mesh.pp(),
             .back = groups.back,
             .schedule = plan::make_pipe_schedule(
                 {.kind = plan::ScheduleKind::kGpipe, .num_stages = 2, .num_micro_batches = kNumMicro}),
             .boundary = at::TensorOptions().dtype(at::kFloat),
             .data_axis = groups.mesh.dp(),
             .world = groups.world});
        std::vector<models::Batch> batches(kNumMicro);
        for (int64_t micro = 0; micro < kNumMicro; ++micro) {
          batches[static_cast<size_t>(micro)].label_B = at::full({1}, micro, at::kLong);
          batches[static_cast<size_t>(micro)].num_samples = 1;
        }
        const auto outcome = runner->run(batches, 1);
        const std::lock_guard lock(mutex);
        EXPECT_NEAR(outcome.scalars.at(0).second.item<double>(), kMeanNumber * 70, 1e-3);
        const at::Tensor gradient = stage.network().named_parameters().at(0).tensor->grad();
        const at::Tensor of_first_CB = stage.factors_CB * kMeanNumber;
        const bool is_first = groups.mesh.point().pp == 0;
        EXPECT_TRUE(at::allclose(gradient, is_first ? of_first_CB : of_first_CB * (stage.factors_CB + 1))) << gradient;
        most_boundaries = std::max(most_boundaries, stage.most_boundaries);
      },
      ThreadBackend::kGloo);
  return most_boundaries;
}

TEST(PipelineStep, SendsRowsWhateverAStageMakes) { run_two_stages(/*makes_rows=*/false); }

/// A stage waits for what it has sent before it keeps much of it.
TEST(PipelineStep, KeepsFewOfTheBoundariesThatItHasSent) {
  const size_t most = run_two_stages(/*makes_rows=*/true);
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, 6u) << "of 12: 4 on their way, one to be sent, one of an exchange under way";
}

}  // namespace
}  // namespace lockstep::tests
