#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>

#include "nn/conv.h"
#include "nn/init.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using ::lockstep::tests::expect_close;

constexpr int64_t kChannels = 5;

at::Tensor named_noise(at::IntArrayRef shape, const std::string& name, double mean) {
  at::Tensor tensor = at::empty(shape);
  initialize(tensor, {.name = name, .shape = shape.vec(), .init = {config::InitLaw::Kind::kNormal, mean, 1.0}}, 1);
  return tensor;
}

struct Result {
  at::Tensor y, dx, dweight, dbias, running_mean, running_var;
};

/// Loss: sum of y * probe, so that every element has its own gradient.
Result run_norm(BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& probe) {
  const auto parameters = norm.named_parameters();
  parameters[0].tensor->detach().copy_(named_noise({kChannels}, "weight", 1.0));
  parameters[1].tensor->detach().copy_(named_noise({kChannels}, "bias", 0.0));
  norm.named_buffers()[0].tensor->zero_();
  norm.named_buffers()[1].tensor->fill_(1.0);
  const at::Tensor leaf = x.clone().set_requires_grad(true);
  const at::Tensor y = norm.forward(leaf);
  (y * probe).sum().backward();
  return {y.detach(),
          leaf.grad(),
          parameters[0].tensor->grad(),
          parameters[1].tensor->grad(),
          *norm.named_buffers()[0].tensor,
          *norm.named_buffers()[1].tensor};
}

TEST(SyncBatchNorm, EqualsOneRankOnTheJoinedBatch) {
  for (const int num_ranks : {2, 3}) {
    // A mean far from zero shows cancellation; the ranks hold 2, 3, 4 samples.
    const std::vector<int64_t> sizes{2, 3, 4}, offsets{0, 2, 5, 9};
    const int64_t total = offsets[static_cast<size_t>(num_ranks)];
    const at::Tensor x = named_noise({total, kChannels, 3, 4}, "x", 50.0),
                     probe = named_noise({total, kChannels, 3, 4}, "probe", 0.0);
    BatchNorm2d whole(kChannels, {});
    const Result expected = run_norm(whole, x, probe);
    std::vector<Result> results(static_cast<size_t>(num_ranks));
    tests::run_ranks(num_ranks, [&](comm::Comm& comm) {
      ASSERT_EQ(comm.size(), num_ranks);
      const auto rank = static_cast<size_t>(comm.rank());
      BatchNorm2d norm(kChannels, {});
      norm.synchronize(&comm);
      results[rank] =
          run_norm(norm, x.narrow(0, offsets[rank], sizes[rank]), probe.narrow(0, offsets[rank], sizes[rank]));
      EXPECT_EQ(comm.count("all_gather"), 1);
      EXPECT_EQ(comm.count("all_reduce"), 1);
    });
    std::vector<at::Tensor> y, dx, dweight, dbias;
    for (const Result& result : results) {
      y.push_back(result.y);
      dx.push_back(result.dx);
      dweight.push_back(result.dweight);
      dbias.push_back(result.dbias);
      expect_close(result.running_mean, expected.running_mean, 1e-6, "running mean");
      expect_close(result.running_var, expected.running_var, 1e-5, "running variance");
    }
    expect_close(at::cat(y), expected.y, 2e-5, "y");
    expect_close(at::cat(dx), expected.dx, 2e-5, "dx");
    expect_close(at::stack(dweight).sum(0), expected.dweight, 2e-5, "dweight");
    expect_close(at::stack(dbias).sum(0), expected.dbias, 2e-5, "dbias");
  }
}

TEST(SyncBatchNorm, FrozenStatisticsAndEvaluation) {
  tests::run_ranks(2, [&](comm::Comm& comm) {
    BatchNorm2d norm(kChannels, {});
    norm.synchronize(&comm);
    norm.set_updates_statistics(false);
    const Result result =
        run_norm(norm, named_noise({2, kChannels, 3, 3}, "x", 4.0), named_noise({2, kChannels, 3, 3}, "probe", 0.0));
    EXPECT_TRUE(result.running_mean.equal(at::zeros({kChannels})));
    EXPECT_EQ(norm.named_buffers()[2].tensor->item<int64_t>(), 0);
    norm.set_training(false);
    const int64_t before = comm.count("all_gather");
    norm.forward(named_noise({2, kChannels, 3, 3}, "x", 4.0));
    EXPECT_EQ(comm.count("all_gather"), before);
  });
}

}  // namespace
}  // namespace lockstep::nn
