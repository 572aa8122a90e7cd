// What a step computes on every kind of mesh is what one rank computes that sees the whole batch at once: with
// --calculate-per-token-loss loss and gradients under masks that leave every micro-batch another number of tokens; the
// norm of the parameters; the number of zeros in the gradient.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "support/gpt_mesh.h"
#include "support/ranks/run_ranks.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::tests {
namespace {

constexpr int64_t kTokens = 8, kSamples = 2;  // of a sequence, of a micro-batch

/// Sequences [begin, begin + count) of the global batch, the first without a token that counts.
models::Batch sequences(int64_t begin, int64_t count, bool is_masked) {
  const at::Tensor number_B1 = at::arange(begin, begin + count).view({count, 1});
  const at::Tensor ids = number_B1.mul(7).add(at::arange(kTokens + 1)).mul(29).add(3).mul(11).remainder(45);
  models::Batch batch;
  batch.num_samples = count;
  batch.text_BT = ids.narrow(1, 0, kTokens);
  batch.target_BT = ids.narrow(1, 1, kTokens);
  if (is_masked)
    batch.loss_weight_BT = at::arange(kTokens).view({1, kTokens}).lt(number_B1.mul(5).remainder(9)).to(at::kFloat);
  return batch;
}

/// What one step finds out; parameters and their norm after the update.
struct Found {
  double loss = NAN, evaluated = NAN, num_zeros = NAN, params_norm = NAN;
  std::map<std::string, at::Tensor> gradients, parameters;
};

Found run_step(const tasks::GptOptions& options, comm::MeshGroups& groups, bool is_masked) {
  const plan::GptLayout layout = tasks::train_gpt_layout(options, groups.world.size());
  tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
  std::vector<models::Batch> batches;
  for (int64_t micro = 0; micro < layout.batch.num_micro_batches; ++micro)
    batches.push_back(sequences((micro * layout.dp() + groups.mesh.point().dp) * options.micro_batch_size,
                                options.micro_batch_size, is_masked));
  Found found;
  found.loss = training.runner->run(batches, 7).scalars.at(0).second.item<double>();
  found.gradients = whole_gradients(training);
  const auto pipeline = tasks::gpt_pipeline_parts(*training.stage, layout, groups, {at::kCPU, at::kFloat},
                                                  options.calculate_per_token_loss);
  found.evaluated = train::pipeline_loss(pipeline, *training.precision, batches).mean();
  found.num_zeros = train::num_zeros_in_gradient(*training.optimizer, training.norm).item<double>();
  training.update(1e-2, 0.5);
  found.params_norm = train::params_norm(*training.optimizer, training.norm).item<double>();
  found.parameters = whole_parameters(training);
  return found;
}

tasks::GptOptions options_for(const MeshCase& mesh, bool is_per_token) {
  tasks::GptOptions options = options_of(mesh);
  options.hidden_dropout = options.attention_dropout = 0;  // drawn by micro-batch
  options.disable_bias_linear = true;                      // gradients of the biases of keys are all rounding
  options.max_position_embeddings = kTokens + 4;           // gradients of the last 4 are 0
  options.calculate_per_token_loss = is_per_token;
  return options;
}

/// One rank that has all sequences of `mesh` in one micro-batch.
Found one_micro_batch(const MeshCase& mesh) {
  MeshCase alone{.is_tied = mesh.is_tied};
  alone.chunks = mesh.pp * mesh.chunks;  // as many layers
  tasks::GptOptions options = options_for(alone, false);
  options.micro_batch_size = options.global_batch_size.emplace(kSamples * mesh.micro * mesh.dp);
  Found found;
  run_mesh_groups(plan::MeshLayout(1, {1, 1, 1}),
                  [&](comm::MeshGroups& groups) { found = run_step(options, groups, true); });
  return found;
}

void on_every_rank(const MeshCase& mesh, bool is_per_token, bool is_masked,
                   const std::function<void(const Found&)>& look) {
  const tasks::GptOptions options = options_for(mesh, is_per_token);
  std::mutex mutex;
  int num_ranks = 0;
  run_mesh_groups(tasks::train_gpt_layout(options, mesh.num_ranks()).mesh, [&](comm::MeshGroups& groups) {
    const Found found = run_step(options, groups, is_masked);
    const std::lock_guard lock(mutex);
    num_ranks += groups.world.size() == mesh.num_ranks() ? 1 : 0;
    look(found);
  });
  EXPECT_EQ(num_ranks, mesh.num_ranks());
}

class StepNumbers : public ::testing::TestWithParam<MeshCase> {};

TEST_P(StepNumbers, LossPerTokenIsThatOfTheWholeBatchAtOnce) {
  const Found want = one_micro_batch(GetParam());
  ASSERT_GT(want.loss, 1);
  size_t num_gradients = 0;
  on_every_rank(GetParam(), true, true, [&](const Found& found) {
    EXPECT_NEAR(found.loss, want.loss, 1e-5 * want.loss);
    EXPECT_NEAR(found.evaluated, want.loss, 1e-5 * want.loss);
    EXPECT_EQ(compare_tensors(found.gradients, want.gradients, "gradient", 1e-4), "");
    num_gradients = std::max(num_gradients, found.gradients.size());
  });
  EXPECT_GT(num_gradients, 4u);
  on_every_rank(GetParam(), false, true, [&](const Found& found) {
    EXPECT_GT(std::abs(found.loss - want.loss), 5e-5 * want.loss) << "the masks tell nothing";
    EXPECT_GT(std::abs(found.evaluated - want.loss), 5e-5 * want.loss);
    EXPECT_NE(compare_tensors(found.gradients, want.gradients, "gradient", 1e-2), "");
  });
}

/// Numbers of tokens are powers of 2, so that both ways to divide are exact.
TEST_P(StepNumbers, LossPerTokenIsTheMeanOfMeansWithoutAMask) {
  std::vector<Found> usual;
  on_every_rank(GetParam(), false, false, [&](const Found& found) { usual.push_back(found); });
  on_every_rank(GetParam(), true, false, [&](const Found& found) {
    EXPECT_NEAR(found.loss, usual.at(0).loss, 1e-6 * usual.at(0).loss);
    EXPECT_NEAR(found.evaluated, usual.at(0).evaluated, 1e-6 * usual.at(0).evaluated);
    for (const Found& other : usual) {
      const bool is_of_stage = other.gradients.begin()->first == found.gradients.begin()->first &&
                               other.gradients.size() == found.gradients.size();
      EXPECT_EQ(is_of_stage ? compare_tensors(found.gradients, other.gradients, "gradient", 1e-6) : "", "");
    }
  });
}

/// Padding, of which every tensor-parallel size has another amount, is no part of them.
TEST_P(StepNumbers, ZerosAndNormAreThoseOfTheModel) {
  const Found want = one_micro_batch(GetParam());
  double num_zeros = 0, squared = 0;
  for (const auto& [name, gradient] : want.gradients) num_zeros += gradient.eq(0).sum().item<double>();
  for (const auto& [name, parameter] : want.parameters)
    squared += parameter.to(at::kDouble).square().sum().item<double>();
  ASSERT_GE(num_zeros, 4 * 16);
  EXPECT_EQ(want.num_zeros, num_zeros);
  EXPECT_NEAR(want.params_norm, std::sqrt(squared), 1e-6 * std::sqrt(squared));
  on_every_rank(GetParam(), true, true, [&](const Found& found) {
    EXPECT_EQ(found.num_zeros, num_zeros);
    EXPECT_NEAR(found.params_norm, want.params_norm, 1e-5 * want.params_norm);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, StepNumbers,
    ::testing::Values(MeshCase{.micro = 4}, MeshCase{.dp = 2, .micro = 1}, MeshCase{.dp = 2, .micro = 2},
                      MeshCase{.dp = 2, .micro = 4, .is_sharded = true}, MeshCase{.tp = 2, .micro = 2},
                      MeshCase{.tp = 8, .micro = 2, .is_tied = false}, MeshCase{.pp = 2, .micro = 4},
                      MeshCase{.pp = 2, .micro = 2, .is_gpipe = true}, MeshCase{.pp = 2, .chunks = 2, .micro = 4},
                      MeshCase{.tp = 2, .pp = 2, .dp = 2, .micro = 2, .splits_tokens = true, .is_sharded = true},
                      MeshCase{.tp = 2, .dp = 2, .micro = 2, .is_tied = false}),
    [](const auto& chosen) { return chosen.param.name(); });

}  // namespace
}  // namespace lockstep::tests
