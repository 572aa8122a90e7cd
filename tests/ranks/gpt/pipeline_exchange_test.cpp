// The messages of a pipeline over a transport whose calls end one after the other, as on a communicator's stream: a
// call begins when the one before it has ended. Exchanges must therefore be started as one, and gradients must have a
// group of their own.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "comm/mesh_groups.h"
#include "comm/recorder.h"
#include "support/gpt_mesh.h"
#include "support/ranks/local_hub.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::tests {
namespace {

/// Whoever starts a call waits for its end; whoever starts several as one waits for all.
class OneByOne final : public comm::Backend {
 public:
  explicit OneByOne(std::unique_ptr<comm::Backend> transport)
      : Backend(transport->rank(), transport->size(), transport->device()), transport_(std::move(transport)) {}
  std::function<void()> start(comm::Call call) override {
    transport_->start(std::move(call))();
    return [] {};
  }
  std::vector<std::function<void()>> start_together(std::vector<comm::Call> calls) override {
    const std::vector<std::function<void()>> done(calls.size(), [] {});
    for (const auto& wait : transport_->start_together(std::move(calls))) wait();
    return done;
  }

 private:
  std::unique_ptr<comm::Backend> transport_;
};

struct StageResult {
  double loss = NAN;
  int64_t sent_forward = 0, sent_back = 0, received_forward = 0, received_back = 0;
};

models::Batch batch_of(int64_t micro, int64_t tokens) {
  const at::Tensor ids = at::arange(2 * (tokens + 1)).add(micro * 5).mul(7).remainder(45).view({2, tokens + 1});
  models::Batch batch;
  batch.text_BT = ids.narrow(1, 0, tokens);
  batch.target_BT = ids.narrow(1, 1, tokens);
  batch.num_samples = 2;
  return batch;
}

StageResult run_stage(const MeshCase& mesh, comm::MeshGroups& groups) {
  const tasks::GptOptions options = options_of(mesh);
  const plan::GptLayout layout = tasks::train_gpt_layout(options, mesh.num_ranks());
  tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
  std::vector<models::Batch> batches;
  for (int64_t micro = 0; micro < mesh.micro; ++micro) batches.push_back(batch_of(micro, layout.shape.sequence));
  const train::StepOutcome outcome = training.runner->run(batches, 3);
  return {.loss = outcome.scalars.at(0).second.item<double>(),
          .sent_forward = groups.mesh.pp().count("send"),
          .sent_back = groups.back.count("send"),
          .received_forward = groups.mesh.pp().count("receive"),
          .received_back = groups.back.count("receive")};
}

/// One step on ranks that are threads; the first error, if any, in `failure`.
std::vector<StageResult> run_one_by_one(const MeshCase& mesh, std::exception_ptr& failure) {
  const plan::GptLayout layout = tasks::train_gpt_layout(options_of(mesh), mesh.num_ranks());
  const auto hub = std::make_shared<LocalHub>(mesh.num_ranks(), std::chrono::seconds(120));
  std::vector<StageResult> results(static_cast<size_t>(mesh.num_ranks()));
  std::vector<std::exception_ptr> errors(results.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank)
    threads.emplace_back([&, rank] {
      at::get_num_threads();
      at::set_num_threads(1);
      try {
        const auto recorder = std::make_shared<comm::Recorder>();
        const auto make = [&](const std::string& name, const std::vector<int>& ranks) {
          return comm::Comm(std::make_unique<OneByOne>(hub->join(fmt::format("{} {}", name, ranks[0]), ranks, rank)),
                            recorder, name.substr(0, name.find('/')), nullptr, ranks);
        };
        std::vector<int> all(results.size());
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
        comm::Comm world = make("world", all);
        comm::MeshGroups groups = comm::make_mesh_groups(layout.mesh, world, make);
        results[static_cast<size_t>(rank)] = run_stage(mesh, groups);
        hub->end_rank(rank);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
        hub->fail(rank, error.what());
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error && !failure) failure = error;
  return results;
}

class PipelineExchanges : public ::testing::TestWithParam<MeshCase> {};

TEST_P(PipelineExchanges, EndWhereCallsAreCarriedOutOneByOne) {
  const MeshCase& mesh = GetParam();
  std::exception_ptr failure;
  const auto results = run_one_by_one(mesh, failure);
  if (failure) std::rethrow_exception(failure);
  const int64_t parts = mesh.pp * mesh.chunks, messages = (parts - 1) * mesh.micro;
  StageResult sum;
  for (const StageResult& result : results) {
    EXPECT_GT(result.loss, 1);
    EXPECT_EQ(result.loss, results[0].loss) << "every rank knows it";
    sum.sent_forward += result.sent_forward, sum.received_forward += result.received_forward;
    sum.sent_back += result.sent_back, sum.received_back += result.received_back;
  }
  EXPECT_EQ(sum.sent_forward, messages) << "activations, between two parts each";
  EXPECT_EQ(sum.received_forward, messages);
  EXPECT_EQ(sum.sent_back, messages) << "gradients, in the other group";
  EXPECT_EQ(sum.received_back, messages);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PipelineExchanges,
                         ::testing::Values(MeshCase{.pp = 2, .micro = 4}, MeshCase{.pp = 3, .micro = 5},
                                           MeshCase{.pp = 4, .micro = 4, .is_gpipe = true},
                                           MeshCase{.pp = 2, .chunks = 2, .micro = 4},
                                           MeshCase{.pp = 3, .chunks = 2, .micro = 6},
                                           MeshCase{.pp = 4, .chunks = 2, .micro = 4, .is_tied = false}),
                         [](const auto& chosen) { return chosen.param.name(); });

}  // namespace
}  // namespace lockstep::tests
