// c10d's own Reducer as a second opinion on GradSync: the only c10d test unit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>

#include "parallel/grad_sync.h"
#include "support/ranks/run_ranks.h"

namespace lockstep::parallel {
namespace {

constexpr int kNumRanks = 3;

at::Tensor wave(at::IntArrayRef shape, double phase) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count, at::kFloat).mul(0.9).add(phase).sin().view(shape);
}

struct Layers {
  at::Tensor first = wave({8, 16}, 0.1).requires_grad_();
  at::Tensor bias = wave({16}, 0.4).requires_grad_();
  at::Tensor second = wave({16, 4}, 0.6).requires_grad_();
  at::Tensor loss(int rank) const {
    return at::addmm(bias, wave({5, 8}, rank + 0.2), first).tanh().matmul(second).square().mean();
  }
};

std::vector<at::Tensor> reducer_gradients(int rank, const c10::intrusive_ptr<c10d::Store>& store) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(std::chrono::seconds(30));
  options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  auto gloo =
      c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store), rank, kNumRanks, options);
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::PrefixStore>("group", store), rank, kNumRanks);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                    c10::intrusive_ptr<c10d::Backend>(gloo));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  Layers layers;
  const std::vector<at::Tensor> parameters = {layers.first, layers.bias, layers.second};
  constexpr size_t kBucketBytes = 256;
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kBucketBytes}));
  std::reverse(buckets.begin(), buckets.end());
  const auto reducer = std::make_shared<c10d::Reducer>(
      parameters, buckets, group, std::vector<bool>(parameters.size(), false), static_cast<int64_t>(kBucketBytes),
      /*find_unused=*/false,
      /*gradient_as_bucket_view=*/true,
      std::unordered_map<size_t, std::string>{{0, "first"}, {1, "bias"}, {2, "second"}},
      static_cast<int64_t>(kBucketBytes), false, false, std::vector<int64_t>{});
  reducer->prepare_for_forward();
  const at::Tensor loss = layers.loss(rank);
  reducer->prepare_for_backward({});
  torch::autograd::backward({loss}, {});
  std::vector<at::Tensor> out;
  for (const auto& parameter : parameters) out.push_back(parameter.grad().clone());
  return out;
}

TEST(DdpOracle, ReducerGivesTheSameGradients) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> num_compared = 0;
  tests::run_ranks(
      kNumRanks,
      [&](comm::Comm& data) {
        const auto want = reducer_gradients(data.rank(), store);
        Layers layers;
        const auto sync = make_grad_sync_ddp(
            {{"first", &layers.first}, {"bias", &layers.bias}, {"second", &layers.second}}, data, 256);
        sync->begin_step();
        sync->begin_micro(true);
        torch::autograd::backward({layers.loss(data.rank())}, {});
        sync->finish();
        const std::vector<at::Tensor> got = {layers.first.grad(), layers.bias.grad(), layers.second.grad()};
        for (size_t i = 0; i < got.size(); ++i) {
          const double largest = want[i].abs().max().item<double>();
          // The Reducer divides before it sums.
          if (!(largest > 1e-3) || (got[i] - want[i]).abs().max().item<double>() > 1e-6 * largest)
            throw std::runtime_error("gradients differ");
          ++num_compared;
        }
      },
      tests::ThreadBackend::kGloo);
  EXPECT_EQ(num_compared, 3 * kNumRanks);
}

}  // namespace
}  // namespace lockstep::parallel
