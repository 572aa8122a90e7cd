// GradSync against plain autograd on the whole batch, and once against c10d's Reducer.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <map>

#include "comm/recorder.h"
#include "comm/run_ranks.h"
#include "core/error.h"
#include "parallel/grad_sync.h"
#include "parallel/replica_check.h"

namespace lockstep::parallel {
namespace {

using comm::Comm;
using comm::NamedTensor;
using comm::ThreadBackend;

at::Tensor wave(at::IntArrayRef shape, double phase, double scale) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count, at::kFloat).mul(0.7).add(phase).sin().mul(scale).view(shape);
}

/// A small network of plain operators: a convolution with channels_last weights, a matrix used twice, biases, a scalar, and a
/// parameter that no sample uses.
struct Model {
  at::Tensor kernel = wave({6, 3, 3, 3}, 0.1, 0.4).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor kernel_bias = wave({6}, 0.2, 0.1);
  at::Tensor unused = wave({5, 7}, 0.3, 1.0);
  at::Tensor twice = wave({6, 6}, 0.5, 0.5);
  at::Tensor head = wave({6, 4}, 0.7, 0.5);
  at::Tensor frozen = wave({4}, 0.8, 0.3);
  at::Tensor scale = at::full({}, 1.3);

  explicit Model(at::ScalarType type = at::kFloat) {
    for (auto& [name, tensor] : all()) *tensor = tensor->to(type).requires_grad_(name != "frozen");
  }
  std::vector<NamedTensor> all() {
    return {{"kernel", &kernel}, {"kernel_bias", &kernel_bias}, {"unused", &unused}, {"twice", &twice},
            {"head", &head},     {"frozen", &frozen},           {"scale", &scale}};
  }
  /// Mean over the samples.
  at::Tensor loss(const at::Tensor& images) const {
    const at::Tensor features = at::conv2d(images, kernel, kernel_bias, 1, 1).tanh().mean({2, 3});
    const at::Tensor mixed = features.matmul(twice).tanh().matmul(twice.t());
    return (mixed.matmul(head).add(frozen) * scale).square().sum(1).mean();
  }
};

constexpr int64_t kSamples = 24;  // divides by 1, 2, 3, 4 ranks x 1, 2, 3 micro-batches (with 2 samples at least)

at::Tensor all_images() { return wave({kSamples, 3, 5, 5}, 1.1, 1.0); }

void backward(const at::Tensor& loss) { torch::autograd::backward({loss}, {}); }

std::map<std::string, at::Tensor> plain_gradients() {
  Model model;
  backward(model.loss(all_images()));
  std::map<std::string, at::Tensor> out;
  for (auto& [name, tensor] : model.all())
    if (tensor->grad().defined()) out[name] = tensor->grad().clone();
  return out;
}

void require(bool is_true, const std::string& what) {
  if (!is_true) throw std::runtime_error(what);
}

/// fp32 sums of some hundred terms in another order: a few ulp of the largest.
void require_close(const at::Tensor& got, const at::Tensor& want, const std::string& name, double tolerance = 2e-6) {
  const double largest = want.abs().max().item<double>();
  require(largest > 1e-3, name + ": the reference proves nothing");
  const double error = (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>();
  require(error <= tolerance * largest, fmt::format("{}: gradient is off by {} of {}", name, error, largest));
}

/// Micro-batches of this rank's share, their losses scaled so that their gradients add up to the rank's mean.
void run_micros(GradSync& sync, const Model& model, const Comm& data, int64_t num_micro) {
  const at::Tensor mine = all_images().narrow(0, data.rank() * (kSamples / data.size()), kSamples / data.size());
  const int64_t size = mine.size(0) / num_micro;
  for (int64_t micro = 0; micro < num_micro; ++micro) {
    sync.begin_micro(micro + 1 == num_micro);
    backward(model.loss(mine.narrow(0, micro * size, size)) / static_cast<double>(num_micro));
  }
}

struct DdpCase {
  int num_ranks;
  int64_t num_micro;
  int64_t bucket_bytes;
  ThreadBackend backend = ThreadBackend::kLocal;
};

class Ddp : public ::testing::TestWithParam<DdpCase> {};

TEST_P(Ddp, EqualsPlainAutogradOnTheWholeBatch) {
  const DdpCase& param = GetParam();
  const auto want = plain_gradients();
  ASSERT_EQ(want.size(), 5u);  // neither unused nor frozen
  std::vector<std::string> bits(static_cast<size_t>(param.num_ranks));
  std::atomic<int> num_done = 0;
  comm::run_ranks(param.num_ranks, [&](Comm& data) {
    require(data.size() == param.num_ranks, "wrong world size");
    Model model;
    const auto sync = make_grad_sync_ddp(model.all(), data, param.bucket_bytes);
    if (param.bucket_bytes == 1) require(sync->num_buckets() == 6, "one bucket for each parameter");
    else if (param.bucket_bytes > 1 << 20) require(sync->num_buckets() == 1, "one bucket");
    for (int step = 0; step < 3; ++step) {  // the same step again and again gives the same gradients
      sync->begin_step();
      run_micros(*sync, model, data, param.num_micro);
      sync->finish();
      sync->publish_params();
      for (auto& [name, tensor] : model.all()) {
        if (name == "unused") require(!tensor->grad().any().item<bool>(), "unused: gradient is not zero");
        else if (name == "frozen") require(!tensor->grad().defined(), "frozen: has a gradient");
        else require_close(tensor->grad(), want.at(name), name);
        if (tensor->grad().defined()) require(tensor->grad().strides() == tensor->strides(), name + ": strides");
      }
      require(data.count("all_reduce") == (step + 1) * sync->num_buckets(), "one all_reduce for each bucket and step");
    }
    std::string& own = bits[static_cast<size_t>(data.rank())];
    for (auto& [name, tensor] : model.all())
      if (tensor->grad().defined()) {
        const at::Tensor dense = tensor->grad().contiguous();
        own.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
      }
    ++num_done;
  }, param.backend);
  EXPECT_EQ(num_done, param.num_ranks);
  for (const auto& other : bits) EXPECT_TRUE(other == bits[0]) << "ranks hold different bits";
  EXPECT_FALSE(bits[0].empty());
}

std::vector<DdpCase> ddp_cases() {
  std::vector<DdpCase> cases;
  for (const int num_ranks : {1, 2, 3, 4})
    for (const int64_t num_micro : {1, 2, 3})
      for (const int64_t bucket_bytes : {int64_t{1}, int64_t{400}, int64_t{1} << 30})
        if (kSamples / num_ranks % num_micro == 0) cases.push_back({num_ranks, num_micro, bucket_bytes});
  for (const int num_ranks : {2, 4}) cases.push_back({num_ranks, 2, 400, ThreadBackend::kGloo});
  return cases;
}

std::string ddp_case_name(const ::testing::TestParamInfo<DdpCase>& info) {
  return fmt::format("{}{}Ranks{}Micros{}Bytes", info.param.backend == ThreadBackend::kLocal ? "Local" : "Gloo",
                     info.param.num_ranks, info.param.num_micro, info.param.bucket_bytes);
}

INSTANTIATE_TEST_SUITE_P(Cases, Ddp, ::testing::ValuesIn(ddp_cases()), ddp_case_name);

TEST(DdpCommunication, OverlapsWithBackwardAndOnlyInTheLastMicroBatch) {
  comm::run_ranks(2, [](Comm& data) {
    Model model;
    const auto sync = make_grad_sync_ddp(model.all(), data, 1);
    sync->begin_step();
    const at::Tensor images = all_images();
    sync->begin_micro(false);
    backward(model.loss(images));
    require(data.count("all_reduce") == 0, "an early micro-batch communicated");
    sync->begin_micro(true);
    backward(model.loss(images));
    // scale, head and twice are final before the unused parameter holds up those behind it
    require(data.count("all_reduce") == 3, fmt::format("{} buckets left during backward", data.count("all_reduce")));
    sync->finish();
    require(data.count("all_reduce") == 6, "all buckets");
  });
}

TEST(DdpCommunication, HooksEndWithTheObject) {
  comm::run_ranks(2, [](Comm& data) {
    Model model;
    auto sync = make_grad_sync_ddp(model.all(), data, 1);
    sync->begin_step();
    sync->begin_micro(true);
    sync.reset();
    backward(model.loss(all_images()));
    require(data.count("all_reduce") == 0, "a hook outlived its owner");
  });
}

TEST(DdpCommunication, ReplacedAndRepeatedGradientsAreRefused) {
  const auto message = [](const std::function<void(GradSync&, Model&)>& body) {
    std::string text;
    comm::run_ranks(1, [&](Comm& data) {
      Model model;
      const auto sync = make_grad_sync_ddp(model.all(), data, 1);
      sync->begin_step();
      sync->begin_micro(true);
      try {
        body(*sync, model);
      } catch (const std::exception& error) {
        text = error.what();
      }
    });
    return text;
  };
  const std::string replaced = message([](GradSync& sync, Model& model) {
    backward(model.loss(all_images()));
    model.head.mutable_grad() = at::zeros_like(model.head);
    sync.finish();
  });
  EXPECT_NE(replaced.find("gradient of 'head' has left its bucket"), std::string::npos) << replaced;
  const std::string repeated = message([](GradSync&, Model& model) {
    backward(model.loss(all_images()));
    backward(model.loss(all_images()));
  });
  EXPECT_NE(repeated.find("received a second gradient"), std::string::npos) << repeated;
  const std::string early = message([](GradSync& sync, Model&) {
    sync.begin_step();
    sync.finish();
  });
  EXPECT_NE(early.find("before the last micro-batch"), std::string::npos) << early;
}

TEST(DdpPrecision, Fp32ReductionRoundsOnce) {
  comm::run_ranks(3, [](Comm& data) {
    at::Tensor weight = at::zeros({512}, at::kBFloat16).requires_grad_();
    at::Tensor want = at::zeros({512});
    at::Tensor mine;
    for (int rank = 0; rank < 3; ++rank) {
      const at::Tensor part = wave({512}, rank * 1.7, 1.0).to(at::kBFloat16);
      want.add_(part.to(at::kFloat));
      if (rank == data.rank()) mine = part;
    }
    want.div_(3);
    const auto sync = make_grad_sync_ddp({{"weight", &weight}}, data, 1 << 20, /*reduce_in_fp32=*/true);
    sync->begin_step();
    sync->begin_micro(true);
    backward((weight * mine).sum());
    sync->finish();
    require(weight.grad().scalar_type() == at::kBFloat16, "type of the gradient");
    require(at::equal(weight.grad(), want.to(at::kBFloat16)), "not the fp32 mean, rounded once");
    require(data.recorder().snapshot().at(0).bytes == 512 * 4, "not sent as fp32");
  }, ThreadBackend::kGloo);
}

TEST(None, AllocatesNothingAndReleasesGradients) {
  comm::run_ranks(1, [](Comm&) {
    Model model;
    const auto want = plain_gradients();
    const auto sync = make_grad_sync_none(model.all());
    for (int step = 0; step < 2; ++step) {
      sync->begin_step();
      for (auto& [name, tensor] : model.all()) require(!tensor->grad().defined(), name + ": gradient was kept");
      sync->begin_micro(true);
      backward(model.loss(all_images()));
      sync->finish();
      for (const auto& [name, gradient] : want)
        for (auto& [other, tensor] : model.all())
          if (other == name) require_close(tensor->grad(), gradient, name);
    }
    require(sync->num_buckets() == 0, "none has buckets");
  });
}

TEST(Replicas, EqualCopiesPass) {
  comm::run_ranks(3, [](Comm& data) {
    Model model;
    check_replicas(model.all(), data);
    require(data.count("all_reduce") == 0, "strings only");
  });
}

TEST(Replicas, ADifferentBitNamesRankAndParameter) {
  std::atomic<int> num_refused = 0;
  comm::run_ranks(3, [&](Comm& data) {
    Model model;
    if (data.rank() == 1) {
      const c10::NoGradGuard no_grad;
      auto* first = reinterpret_cast<uint32_t*>(model.head.data_ptr<float>());
      first[5] ^= 1u;
    }
    try {
      check_replicas(model.all(), data);
    } catch (const CommError& error) {
      const std::string text = error.what();
      require(text.find("rank 1 is not like the other 2 in 'head'") != std::string::npos, text);
      ++num_refused;
    }
  });
  EXPECT_EQ(num_refused, 3);
}

}  // namespace
}  // namespace lockstep::parallel
