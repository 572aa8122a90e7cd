// Layers that ranks share, against one rank: values, gradients of inputs and of every rank's part of the parameters.
// fp64, so that only a wrong formula can differ: sums over up to 4 ranks in another order are some 1e-15.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>

#include "nn/parallel_linear.h"
#include "nn/tensor_parallel.h"
#include "nn/vocab_cross_entropy.h"
#include "support/ranks/run_ranks.h"

namespace lockstep::nn {
namespace {

constexpr double kTolerance = 1e-12;
constexpr int64_t kTokens = 8, kSamples = 3, kIn = 6, kOut = 8;

at::Tensor wave(at::IntArrayRef shape, double phase) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count, at::kDouble).mul(0.7).add(phase).sin().view(shape);
}

void require_close(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  if (got.sizes() != want.sizes()) throw std::runtime_error(what + ": wrong shape");
  const double largest = want.abs().max().item<double>();
  if (!(largest > 1e-3)) throw std::runtime_error(what + ": the reference proves nothing");
  const double error = (got - want).abs().max().item<double>();
  if (!(error <= kTolerance * largest))
    throw std::runtime_error(fmt::format("{}: off by {} of {}", what, error, largest));
}

struct Case {
  int num_ranks;
  bool splits_tokens;
};

class TensorParallel : public ::testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void(const ShardCtx&)>& body) {
    std::atomic<int> num_run = 0;
    tests::run_ranks(GetParam().num_ranks, [&](comm::Comm& tp) {
      if (tp.size() != GetParam().num_ranks) throw std::runtime_error("wrong world size");
      body({&tp, GetParam().splits_tokens});
      ++num_run;
    });
    EXPECT_EQ(num_run, GetParam().num_ranks);
  }
};

/// What a rank holds of a tensor of all tokens between the shared layers.
at::Tensor outside(const at::Tensor& x, const ShardCtx& shard) {
  return shard.splits_tokens() ? x.chunk(shard.size(), 0)[static_cast<size_t>(shard.rank())] : x;
}
at::Tensor own(const at::Tensor& x, int64_t dim, const ShardCtx& shard) {
  return x.chunk(shard.size(), dim)[static_cast<size_t>(shard.rank())];
}

std::vector<at::Tensor> gradients(const at::Tensor& y, const at::Tensor& upstream,
                                  const std::vector<at::Tensor>& inputs) {
  return torch::autograd::grad({y}, inputs, {upstream});
}

/// Fills a layer with this rank's parts of `wholes`; `dims`: -1 is not split.
void fill(Module& layer, const std::vector<at::Tensor>& wholes, const std::vector<int64_t>& dims,
          const ShardCtx& shard) {
  const c10::NoGradGuard no_grad;
  const auto parameters = layer.named_parameters();
  if (parameters.size() != wholes.size()) throw std::runtime_error("wrong number of parameters");
  for (size_t i = 0; i < wholes.size(); ++i)
    parameters[i].tensor->copy_(dims[i] < 0 ? wholes[i] : own(wholes[i], dims[i], shard));
}

TEST_P(TensorParallel, EndsOfTheSharedPart) {
  run([](const ShardCtx& shard) {
    const at::Tensor whole = wave({kTokens, kSamples}, 0.3);
    at::Tensor x = outside(whole, shard).clone().requires_grad_();
    const at::Tensor entered = enter_shared(x, shard);
    require_close(entered, whole, "enter");
    // Rank r says (r + 1) g about every token; together that is R (R + 1) / 2 of it.
    const double ranks = shard.size(), sum = ranks * (ranks + 1) / 2;
    const at::Tensor upstream = wave({kTokens, kSamples}, 1.3);
    require_close(gradients(entered, upstream * (shard.rank() + 1), {x})[0], outside(upstream, shard) * sum,
                  "gradient of enter");

    at::Tensor partial = (whole * (shard.rank() + 1)).requires_grad_();
    const at::Tensor left = leave_shared(partial, shard);
    require_close(left, outside(whole, shard) * sum, "leave");
    require_close(gradients(left, outside(upstream, shard), {partial})[0], upstream, "gradient of leave");
  });
}

TEST_P(TensorParallel, ColumnThenRowIsTwoLinearLayers) {
  for (const int64_t parts : {1, 2})
    run([&](const ShardCtx& shard) {
      const at::Tensor x_whole = wave({kTokens, kSamples, kIn}, 0.1), upstream = wave({kTokens, kSamples, kIn}, 4.1);
      std::vector<at::Tensor> wholes{wave({parts, kOut / parts, kIn}, 1.1), wave({parts, kOut / parts}, 2.1),
                                     wave({kIn, kOut / parts}, 3.1), wave({kIn}, 5.1)};
      if (parts == 1) wholes[0] = wholes[0].squeeze(0), wholes[1] = wholes[1].squeeze(0);
      const int64_t row_dim = parts == 1 ? 0 : 1;
      // A product of two halves lies between, where there are two, so that their order matters.
      const auto middle = [&](const at::Tensor& y) {
        return parts == 1 ? y : y.chunk(2, -1)[0].sin() * y.chunk(2, -1)[1];
      };

      ColumnParallelLinear column(kIn, kOut, shard, at::kDouble, true, parts);
      RowParallelLinear row(kOut / parts, kIn, shard, at::kDouble, true);
      fill(column, {wholes[0], wholes[1]}, {row_dim, row_dim}, shard);
      fill(row, {wholes[2], wholes[3]}, {1, -1}, shard);
      at::Tensor x = outside(x_whole, shard).clone().requires_grad_();
      const at::Tensor y = row.forward(middle(column.forward(x)));

      std::vector<at::Tensor> inputs{x_whole.clone()};
      for (const at::Tensor& whole : wholes) inputs.push_back(whole.clone());
      for (at::Tensor& input : inputs) input.requires_grad_();
      const at::Tensor want = at::linear(middle(at::linear(inputs[0], inputs[1].flatten(0, -2), inputs[2].flatten())),
                                         inputs[3], inputs[4]);
      require_close(y, outside(want, shard), "value");

      const auto wanted = gradients(want, upstream, inputs);
      std::vector<at::Tensor> own_inputs{x};
      for (const auto& [name, tensor] : column.named_parameters()) own_inputs.push_back(*tensor);
      for (const auto& [name, tensor] : row.named_parameters()) own_inputs.push_back(*tensor);
      const auto got = gradients(y, outside(upstream, shard), own_inputs);
      require_close(got[0], outside(wanted[0], shard), "gradient of x");
      require_close(got[1], own(wanted[1], row_dim, shard), "gradient of the first weight");
      require_close(got[2], own(wanted[2], row_dim, shard), "gradient of the first bias");
      require_close(got[3], own(wanted[3], 1, shard), "gradient of the second weight");
      const at::Tensor bias_gradient = got[4].clone();
      if (shard.splits_tokens()) shard.tp->all_reduce(bias_gradient).wait();
      require_close(bias_gradient, wanted[4], "gradient of the second bias, which is partial over tokens");
    });
}

TEST_P(TensorParallel, EmbeddingFindsRowsWhereverTheyAre) {
  constexpr int64_t kRows = 16;
  run([](const ShardCtx& shard) {
    const at::Tensor table = wave({kRows, kIn}, 0.5).requires_grad_();
    const at::Tensor ids =
        at::arange(kTokens * kSamples).mul(5).remainder(kRows).view({kTokens, kSamples});  // all rows, borders too
    VocabParallelEmbedding embedding(kRows, kIn, shard, at::kDouble);
    fill(embedding, {table}, {0}, shard);
    const at::Tensor want = at::embedding(table, ids), got = embedding.forward(ids), upstream = wave(want.sizes(), 1.5);
    require_close(got, outside(want, shard), "rows");
    require_close(gradients(got, outside(upstream, shard), {embedding.weight()})[0],
                  own(gradients(want, upstream, {table})[0], 0, shard), "gradient");
  });
}

TEST_P(TensorParallel, CrossEntropyOverSharedRows) {
  constexpr int64_t kRows = 16, kNumTokens = 24;
  for (const int64_t vocab : {16, 13, 5})  // without padding, with some, and with ranks that hold nothing else
    for (const bool early : {true, false})
      run([&](const ShardCtx& shard) {
        at::Tensor x_whole = wave({kTokens, kSamples, kIn}, 0.2).mul(3).requires_grad_(),
                   table = wave({kRows, kIn}, 1.2).mul(3).requires_grad_();
        const at::Tensor target = at::arange(kNumTokens).mul(7).remainder(vocab),
                         weight = wave({kNumTokens}, 0.9).abs();
        const at::Tensor logits = x_whole.view({kNumTokens, kIn}).mm(table.narrow(0, 0, vocab).t());
        const at::Tensor want = at::cross_entropy_loss(logits, target, {}, at::Reduction::None).mul(weight).sum();

        at::Tensor x = outside(x_whole.detach(), shard).clone().requires_grad_();
        at::Tensor part = own(table.detach(), 0, shard).clone().requires_grad_();
        const VocabLoss loss = vocab_cross_entropy(enter_shared(x, shard).flatten(0, 1), part, target, weight,
                                                   {vocab, /*chunk_tokens=*/7, early}, shard);
        require_close(loss.sum.view({1}), want.view({1}), "loss");
        const auto wanted = torch::autograd::grad({want}, {x_whole, table}),
                   got = torch::autograd::grad({loss.sum}, {x, part});
        require_close(got[0], outside(wanted[0], shard), "gradient of x");
        const at::Tensor want_rows = own(wanted[1], 0, shard);
        if (want_rows.abs().max().item<double>() > 0)
          require_close(got[1], want_rows, "gradient of the rows");
        else if (got[1].abs().max().item<double>() > 0)
          throw std::runtime_error("rows of padding have a gradient");
      });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallel,
                         ::testing::Values(Case{1, false}, Case{2, false}, Case{2, true}, Case{4, false},
                                           Case{4, true}),
                         [](const auto& test) {
                           return fmt::format("{}Ranks{}", test.param.num_ranks,
                                              test.param.splits_tokens ? "SplitTokens" : "");
                         });

}  // namespace
}  // namespace lockstep::nn
