// Gradients of linear layers that are added to the sums of a GradSync where they are made: they are those of plain
// autograd, and autograd sees none of them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "nn/layers.h"
#include "nn/parallel_linear.h"
#include "nn/recompute.h"
#include "parallel/grad_sync.h"
#include "support/ranks/run_ranks.h"
#include "support/wave_model.h"

namespace lockstep::parallel {
namespace {

using tests::backward, tests::float_wave, tests::require;

/// One of its layers is used twice, one lies in a recomputed block, one has a weight of three parts.
struct Net : nn::Module {
  explicit Net(at::ScalarType type)
      : first(8, 16, at::TensorOptions().dtype(type)), twice(16, 16, at::TensorOptions().dtype(type)),
        again(16, 12, at::TensorOptions().dtype(type)),
        parts(12, 9, nn::ShardCtx{}, at::TensorOptions().dtype(type), /*with_bias=*/true, 3),
        last(9, 4, at::TensorOptions().dtype(type)) {
    register_child("first", first);
    register_child("twice", twice);
    register_child("again", again);
    register_child("parts", parts);
    register_child("last", last);
    const at::NoGradGuard no_grad;
    double phase = 0;
    for (const auto& [name, tensor] : named_parameters()) tensor->copy_(float_wave(tensor->sizes(), phase += 0.3, 0.5));
  }
  at::Tensor loss(const at::Tensor& x) {
    const at::Tensor middle = twice.forward(twice.forward(first.forward(x).tanh()).tanh()).tanh();
    const at::Tensor block =
        nn::recomputed(again, middle, [this](const at::Tensor& input) { return again.forward(input).tanh(); });
    return last.forward(parts.forward(block)).to(at::kFloat).square().sum(1).mean();
  }
  nn::Linear first, twice, again;
  nn::ColumnParallelLinear parts;
  nn::Linear last;
};

at::Tensor samples(int64_t micro, at::ScalarType type) {
  return float_wave({6, 8}, 0.9 + static_cast<double>(micro), 1.0).to(type);
}

/// Sums over the micro-batches, in fp32.
std::map<std::string, at::Tensor> plain_gradients(at::ScalarType type, int64_t num_micros) {
  Net net(type);
  std::map<std::string, at::Tensor> sums;
  for (int64_t micro = 0; micro < num_micros; ++micro) {
    backward(net.loss(samples(micro, type)));
    for (const auto& [name, tensor] : net.named_parameters()) {
      at::Tensor& sum = sums[name];
      sum = sum.defined() ? sum.add(tensor->grad()) : tensor->grad().to(at::kFloat);
      tensor->mutable_grad() = at::Tensor();
    }
  }
  return sums;
}

struct Kind {
  const char* name;
  at::ScalarType type;
  MasterOptions masters = {};
  double tolerance = 1e-6;  // another order of summing
};

std::unique_ptr<GradSync> make_sync(const Kind& kind, const std::vector<comm::NamedTensor>& parameters,
                                    comm::Comm& data) {
  if (std::string(kind.name) == "none") return make_grad_sync_none(parameters);
  const auto make = std::string(kind.name).starts_with("zero1") ? make_grad_sync_zero1 : make_grad_sync_ddp;
  return make(parameters, data, /*bucket_bytes=*/1, kind.masters);
}

/// What was left for autograd to add up: gradients by parameter.
std::map<std::string, int> count_for_autograd(const std::vector<comm::NamedTensor>& parameters,
                                              const std::function<void()>& step) {
  std::map<std::string, int> counts;
  std::vector<unsigned> hooks;
  for (const auto& [name, tensor] : parameters)
    hooks.push_back(tensor->register_hook(
        [&counts, name = name](const at::Tensor& gradient) { counts[name] += gradient.defined() ? 1 : 0; }));
  step();
  for (size_t i = 0; i < hooks.size(); ++i) parameters[i].tensor->remove_hook(hooks[i]);
  return counts;
}

class Sinks : public ::testing::TestWithParam<Kind> {};

TEST_P(Sinks, ProductsGoIntoTheSumsWithTheGradientsOfPlainAutograd) {
  const Kind& kind = GetParam();
  const bool is_none = std::string(kind.name) == "none";
  for (const int64_t num_micros : {1, 3}) {
    const auto want = plain_gradients(kind.type, num_micros);
    tests::run_ranks(2, [&](comm::Comm& data) {
      Net net(kind.type);
      const auto parameters = net.named_parameters();
      const auto sync = make_sync(kind, parameters, data);
      for (int step = 0; step < 2; ++step) {  // of equal samples on both ranks: the mean is each one's
        const int64_t sent = data.count("all_reduce") + data.count("reduce_scatter");
        sync->begin_step();
        const auto counts = count_for_autograd(parameters, [&] {
          for (int64_t micro = 0; micro < num_micros; ++micro) {
            sync->begin_micro(micro + 1 == num_micros);
            backward(net.loss(samples(micro, kind.type)));
          }
        });
        if (!is_none)
          require(data.count("all_reduce") + data.count("reduce_scatter") - sent == sync->num_buckets(),
                  "buckets leave during backward");
        sync->finish();
        for (const auto& [name, count] : counts) {
          const bool is_weight = name.ends_with("weight");
          const int64_t num_calls = name.starts_with("again") ? 2 : 1;  // of the recomputed graph's own backward, too
          const int64_t expected = num_calls * (!is_weight ? num_micros : is_none ? 1 : 0);
          require(count == expected, fmt::format("{}: {} gradients for autograd, not {}", name, count, expected));
        }
        require(counts.size() == 10, "of all parameters");
        if (std::string(kind.name).starts_with("zero1"))
          continue;  // parts of flat memory: compared by their norm below
        for (const optim::Segment& segment : sync->partition().segments) {
          const at::Tensor got =
              (segment.gradient.defined() ? segment.gradient : segment.parameter.grad()).to(at::kFloat).flatten();
          const at::Tensor& whole = want.at(segment.name);
          const double off = (got - whole.flatten()).abs().max().item<double>(),
                       most = whole.abs().max().item<double>();
          require(most > 1e-3 && off <= kind.tolerance * most,
                  fmt::format("{}: off by {} of {}", segment.name, off, most));
        }
      }
      if (!std::string(kind.name).starts_with("zero1")) return;
      double own = 0, all = 0;
      for (const optim::Segment& segment : sync->partition().segments)
        own += segment.gradient.to(at::kDouble).square().sum().item<double>();
      for (const auto& [name, gradient] : want) all += gradient.to(at::kDouble).square().sum().item<double>();
      const at::Tensor both = at::full({1}, own, at::kDouble);
      data.all_reduce(both).wait();
      require(std::abs(both.item<double>() - all) <= 2 * kind.tolerance * all, "zero1: norm of the shards");
    });
  }
}

// 16 bits: a gradient is rounded before it is added, and that of `twice` once more by autograd.
INSTANTIATE_TEST_SUITE_P(
    Kinds, Sinks,
    ::testing::Values(Kind{"none", at::kFloat}, Kind{"ddp", at::kFloat}, Kind{"zero1", at::kFloat},
                      Kind{"ddp_fp32_sums", at::kBFloat16, {.has_masters = true, .fp32_gradients = true}, 4e-3},
                      Kind{"zero1_fp32_sums", at::kBFloat16, {.has_masters = true, .fp32_gradients = true}, 4e-3},
                      Kind{"ddp_16_bits", at::kBFloat16, {.has_masters = true}, 2e-2}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

/// A graph that nobody goes back through holds up no bucket beyond its own life.
TEST(Sink, AnUnusedForwardPassIsForgotten) {
  tests::run_ranks(2, [](comm::Comm& data) {
    Net net(at::kFloat);
    const auto sync = make_grad_sync_ddp(net.named_parameters(), data, /*bucket_bytes=*/1);
    sync->begin_step();
    sync->begin_micro(true);
    { const at::Tensor unused = net.loss(samples(5, at::kFloat)); }
    at::Tensor kept = net.loss(samples(6, at::kFloat));
    backward(net.loss(samples(0, at::kFloat)));
    require(data.count("all_reduce") < sync->num_buckets(), "a use that is still expected");
    kept = at::Tensor();
    sync->finish();
    require(data.count("all_reduce") == sync->num_buckets(), "all of them in the end");
  });
}

}  // namespace
}  // namespace lockstep::parallel
