// Training steps of a whole CLAP model: several ranks against one with the same global batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "core/error.h"
#include "support/ranks/run_ranks.h"
#include "tasks/contrastive/engine/contrastive_training.h"

namespace lockstep::tasks {
namespace {

using comm::Comm;
using tests::ThreadBackend;

constexpr int64_t kGlobalBatch = 8;
constexpr int kSteps = 3;
constexpr double kLr = 1e-4;

ContrastiveOptions options_of(int num_micro_batches) {
  ContrastiveOptions options;
  options.task = "clap";
  options.model = std::string(LOCKSTEP_SOURCE_DIR) + "/examples/sounds/model.json";  // no random dropping in it
  options.precision = "fp32";
  options.local_loss = options.gather_with_grad = options.use_bn_sync = true;
  options.accum_freq = num_micro_batches;
  options.beta1 = 0.9;
  options.beta2 = 0.98;
  options.eps = 1e-6;
  options.bucket_mib = 0.25;
  return options;
}

/// The same sounds and texts of 3 to 16 tokens whatever the ranks; those of `rank` and micro-batch.
models::Batch make_batch(const config::ClapShape& shape, int step, int64_t first, int64_t count) {
  models::Batch batch;
  batch.num_samples = count;
  batch.audio_BS = at::empty({count, shape.audio.clip_samples});
  batch.text_BT = at::full({count, shape.text.context_length}, shape.text.pad_id, at::kLong);
  for (int64_t row = 0; row < count; ++row) {
    const auto sample = static_cast<double>(step * kGlobalBatch + first + row);
    batch.audio_BS[row].copy_(
        at::arange(shape.audio.clip_samples, at::kFloat).mul(0.02 + 0.013 * sample).sin().mul(0.5));
    const int64_t length = 3 + (static_cast<int64_t>(sample) * 5) % 14;
    batch.text_BT[row]
        .narrow(0, 0, length)
        .copy_(at::arange(length, at::kLong).mul(7).add(static_cast<int64_t>(sample) * 11).remainder(400).add(3));
  }
  return batch;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients, parameters;  ///< Gradients of the first step.
};

Trained run(Comm& data, int num_micro_batches) {
  const auto options = options_of(num_micro_batches);
  const auto shape = tasks::contrastive_shape_of(options);
  auto training = build_contrastive_training(options, shape, data, at::kCPU, num_micro_batches);
  const int64_t per_micro = kGlobalBatch / data.size() / num_micro_batches;
  Trained out;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<models::Batch> batches;
    for (int64_t micro = 0; micro < num_micro_batches; ++micro)
      batches.push_back(
          make_batch(*shape.clap(), step, (data.rank() * num_micro_batches + micro) * per_micro, per_micro));
    const auto outcome = training.runner->run(batches, static_cast<uint64_t>(step));
    for (const auto& [name, value] : outcome.scalars)
      if (name == "loss") out.losses.push_back(value.item<double>());
    if (step == 0)
      for (const auto& [name, tensor] : training.task->network().named_parameters())
        out.gradients[name] = tensor->grad().clone();
    training.update(kLr, 0);
  }
  for (const auto& [name, tensor] : training.task->network().named_parameters())
    out.parameters[name] = tensor->detach().clone();
  return out;
}

/// Sums of thousands of fp32 terms in another order, through two towers: a few 1e-6 of the largest value.
void expect_close(const at::Tensor& got, const at::Tensor& want, const std::string& what, double tolerance,
                  double floor) {
  const double largest = std::max(floor, want.abs().max().item<double>());
  const double error = (got - want).abs().max().item<double>();
  if (!(error <= tolerance * largest))
    throw std::runtime_error(fmt::format("{}: off by {} of {}", what, error, largest));
}

struct Case {
  int num_ranks;
  ThreadBackend backend;
};
class ClapRanks : public ::testing::TestWithParam<Case> {};

TEST_P(ClapRanks, FollowOneRank) {
  Trained want;
  Comm alone;
  want = run(alone, 1);
  ASSERT_EQ(want.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_NE(want.losses.front(), want.losses.back());
  size_t num_moving = 0;
  for (const auto& [name, gradient] : want.gradients) num_moving += gradient.abs().max().item<double>() > 1e-6;
  ASSERT_GT(num_moving, want.gradients.size() * 8 / 10);  // key biases, for one, get none
  std::atomic<int> num_done = 0;
  tests::run_ranks(
      GetParam().num_ranks,
      [&](Comm& data) {
        if (data.size() != GetParam().num_ranks) throw std::runtime_error("wrong world size");
        const Trained got = run(data, 1);
        for (int step = 0; step < kSteps; ++step)
          if (std::abs(got.losses[static_cast<size_t>(step)] - want.losses[static_cast<size_t>(step)]) >
              2e-5 * want.losses[0])
            throw std::runtime_error(fmt::format("step {}: loss {} instead of {}", step,
                                                 got.losses[static_cast<size_t>(step)],
                                                 want.losses[static_cast<size_t>(step)]));
        for (const auto& [name, gradient] : want.gradients)
          expect_close(got.gradients.at(name), gradient, "gradient of " + name, 2e-4, 1e-3);
        // AdamW divides by the root of the second moment: where a gradient is next to nothing its sign is noise, worth
        // a step of lr each time.
        for (const auto& [name, parameter] : want.parameters) {
          const auto difference = (got.parameters.at(name) - parameter).abs();
          if (difference.max().item<double>() > 2.1 * kSteps * kLr) throw std::runtime_error(name + " moved away");
          if (difference.gt(0.02 * kLr).to(at::kDouble).mean().item<double>() > 0.02 &&
              want.gradients.at(name).abs().max().item<double>() > 1e-6)
            throw std::runtime_error(name + ": more than 2 % of its elements differ");
        }
        ++num_done;
      },
      GetParam().backend);
  EXPECT_EQ(num_done, GetParam().num_ranks);
}

INSTANTIATE_TEST_SUITE_P(Train, ClapRanks,
                         ::testing::Values(Case{2, ThreadBackend::kLocal}, Case{4, ThreadBackend::kLocal},
                                           Case{2, ThreadBackend::kGloo}),
                         [](const auto& entry) {
                           return fmt::format("{}{}", entry.param.num_ranks,
                                              entry.param.backend == ThreadBackend::kGloo ? "OverGloo" : "");
                         });

}  // namespace
}  // namespace lockstep::tasks
