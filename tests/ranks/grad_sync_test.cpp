// GradSync against plain autograd on the whole batch, and once against c10d's Reducer.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "comm/recorder.h"
#include "core/error.h"
#include "parallel/grad_sync.h"
#include "parallel/replica_check.h"
#include "support/ranks/run_ranks.h"
#include "support/wave_model.h"

namespace lockstep::parallel {
namespace {

using comm::Comm;
using tests::ThreadBackend;

using Model = tests::WaveModel;
using tests::all_images, tests::backward, tests::kSamples, tests::require, tests::run_micros, tests::wave;

std::map<std::string, at::Tensor> plain_gradients() {
  Model model;
  backward(model.loss(all_images()));
  std::map<std::string, at::Tensor> out;
  for (auto& [name, tensor] : model.all())
    if (tensor->grad().defined()) out[name] = tensor->grad().clone();
  return out;
}

/// fp32 sums of some hundred terms in another order: a few ulp of the largest.
void require_close(const at::Tensor& got, const at::Tensor& want, const std::string& name, double tolerance = 2e-6) {
  const double largest = want.abs().max().item<double>();
  require(largest > 1e-3, name + ": the reference proves nothing");
  const double error = (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>();
  require(error <= tolerance * largest, fmt::format("{}: gradient is off by {} of {}", name, error, largest));
}

struct DdpCase {
  int num_ranks;
  int64_t num_micro_batches;
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
  tests::run_ranks(
      param.num_ranks,
      [&](Comm& data) {
        require(data.size() == param.num_ranks, "wrong world size");
        Model model;
        const auto sync = make_grad_sync_ddp(model.all(), data, param.bucket_bytes);
        if (param.bucket_bytes == 1)
          require(sync->num_buckets() == 6, "one bucket for each parameter");
        else if (param.bucket_bytes > 1 << 20)
          require(sync->num_buckets() == 1, "one bucket");
        for (int step = 0; step < 3; ++step) {  // the same step again and again gives the same gradients
          sync->begin_step();
          run_micros(*sync, model, data, param.num_micro_batches);
          sync->finish();
          sync->publish_params();
          for (auto& [name, tensor] : model.all()) {
            if (name == "unused")
              require(!tensor->grad().any().item<bool>(), "unused: gradient is not zero");
            else if (name == "frozen")
              require(!tensor->grad().defined(), "frozen: has a gradient");
            else
              require_close(tensor->grad(), want.at(name), name);
            if (tensor->grad().defined()) require(tensor->grad().strides() == tensor->strides(), name + ": strides");
          }
          require(data.count("all_reduce") == (step + 1) * sync->num_buckets(),
                  "one all_reduce for each bucket and step");
        }
        std::string& own = bits[static_cast<size_t>(data.rank())];
        for (auto& [name, tensor] : model.all())
          if (tensor->grad().defined()) {
            const at::Tensor dense = tensor->grad().contiguous();
            own.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
          }
        ++num_done;
      },
      param.backend);
  EXPECT_EQ(num_done, param.num_ranks);
  for (const auto& other : bits) EXPECT_TRUE(other == bits[0]) << "ranks hold different bits";
  EXPECT_FALSE(bits[0].empty());
}

std::vector<DdpCase> ddp_cases() {
  std::vector<DdpCase> cases;
  for (const int num_ranks : {1, 2, 3, 4})
    for (const int64_t num_micro_batches : {1, 2, 3})
      for (const int64_t bucket_bytes : {int64_t{1}, int64_t{400}, int64_t{1} << 30})
        if (kSamples / num_ranks % num_micro_batches == 0)
          cases.push_back({num_ranks, num_micro_batches, bucket_bytes});
  for (const int num_ranks : {2, 4}) cases.push_back({num_ranks, 2, 400, ThreadBackend::kGloo});
  return cases;
}

std::string ddp_case_name(const ::testing::TestParamInfo<DdpCase>& info) {
  return fmt::format("{}{}Ranks{}Micros{}Bytes", info.param.backend == ThreadBackend::kLocal ? "Local" : "Gloo",
                     info.param.num_ranks, info.param.num_micro_batches, info.param.bucket_bytes);
}

INSTANTIATE_TEST_SUITE_P(Cases, Ddp, ::testing::ValuesIn(ddp_cases()), ddp_case_name);

TEST(DdpCommunication, OverlapsWithBackwardAndOnlyInTheLastMicroBatch) {
  tests::run_ranks(2, [](Comm& data) {
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
  tests::run_ranks(2, [](Comm& data) {
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
    tests::run_ranks(1, [&](Comm& data) {
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

TEST(DdpPrecision, Fp32GradientsAreAddedAndAveragedInFp32) {
  tests::run_ranks(
      3,
      [](Comm& data) {
        at::Tensor weight = at::zeros({512}, at::kBFloat16).requires_grad_();
        at::Tensor want = at::zeros({512});
        std::vector<at::Tensor> mine;
        for (int rank = 0; rank < 3; ++rank)
          for (int micro = 0; micro < 2; ++micro) {
            const at::Tensor part = wave({512}, rank * 1.7 + micro * 0.9, micro == 0 ? 1.0 : 0.01).to(at::kBFloat16);
            want.add_(part.to(at::kFloat));
            if (rank == data.rank()) mine.push_back(part);
          }
        want.div_(3);
        const auto sync =
            make_grad_sync_ddp({{"weight", &weight}}, data, 1 << 20, {.has_masters = true, .fp32_gradients = true});
        sync->begin_step();
        for (int micro = 0; micro < 2; ++micro) {
          sync->begin_micro(micro == 1);
          backward((weight * mine[static_cast<size_t>(micro)]).sum());
        }
        sync->finish();
        const auto& segments = sync->partition().segments;
        require(segments.size() == 1 && segments[0].parameter.scalar_type() == at::kFloat, "one fp32 master");
        require_close(segments[0].gradient, want, "weight", 3e-7);  // bf16 alone would be off by 4e-3
        require(!weight.grad().defined(), "a 16-bit gradient stays behind");
        require(data.recorder().snapshot().at(0).bytes == 512 * 4, "not sent as fp32");
      },
      ThreadBackend::kGloo);
}

TEST(None, AllocatesNothingAndReleasesGradients) {
  tests::run_ranks(1, [](Comm&) {
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
  tests::run_ranks(3, [](Comm& data) {
    Model model;
    check_replicas(model.all(), data);
    require(data.count("all_reduce") == 0, "strings only");
  });
}

TEST(Replicas, ADifferentBitNamesRankAndParameter) {
  std::atomic<int> num_refused = 0;
  tests::run_ranks(3, [&](Comm& data) {
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
