// ZeRO-1 and fp32 master copies against plain data parallel and one rank.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "comm/backend.h"
#include "comm/recorder.h"
#include "optim/grad_norm.h"
#include "plan/bucket_plan.h"
#include "support/ranks/run_ranks.h"
#include "support/wave_training.h"

namespace lockstep::parallel {
namespace {

using comm::Comm;
using tests::require;
using tests::ThreadBackend;
using Zero1Model = tests::WaveModel;
using Setting = tests::WaveSetting;

constexpr int kZero1Steps = 3;

/// What a run of kZero1Steps leaves behind.
struct Outcome {
  tests::WaveState state;
  std::map<std::string, at::Tensor> starts;
  std::vector<double> losses, norms;
  std::vector<int64_t> state_elements;                       // of each rank
  std::vector<std::set<std::string>> names;                  // of each rank
  std::map<std::string, std::pair<int64_t, int64_t>> calls;  // kind -> count, bytes; of rank 0
};

Outcome train(const Setting& setting) {
  Outcome out;
  out.state_elements.resize(static_cast<size_t>(setting.num_ranks));
  out.names.resize(static_cast<size_t>(setting.num_ranks));
  std::mutex mutex;
  tests::run_ranks(
      setting.num_ranks,
      [&](Comm& data) {
        std::map<std::string, at::Tensor> starts;
        tests::WaveRun run(setting, data);
        for (const auto& [name, tensor] : run.model.all()) starts[name] = tensor->detach().clone();
        std::vector<double> losses, norms;
        for (int step = 0; step < kZero1Steps; ++step) {
          losses.push_back(run.mean_loss());
          if (step == 0) data.recorder().clear();
          norms.push_back(run.step());
        }
        const std::lock_guard lock(mutex);
        const auto rank = static_cast<size_t>(data.rank());
        run.collect(out.state);
        out.starts = starts;
        out.losses = losses;
        out.norms = norms;
        for (const auto& state : run.optimizer->state()) {
          out.state_elements[rank] += state.at("exp_avg").numel();
          out.names[rank].insert(state.name);
          require(state.at("step").item<double>() == kZero1Steps, state.name + ": steps");
        }
        if (data.rank() == 0)
          for (const auto& entry : data.recorder().snapshot()) {
            out.calls[entry.kind].first += entry.count;
            out.calls[entry.kind].second += entry.count * entry.bytes;
          }
      },
      setting.backend);
  return out;
}

/// Every value of `got` against `want`, relative to the largest change that training made.
void expect_same_training(const Outcome& got, const Outcome& want, double tolerance) {
  ASSERT_EQ(got.state.parameters.size(), want.state.parameters.size());
  for (const auto& [name, parameter] : want.state.parameters) {
    if (name == "frozen") continue;
    const double change = (parameter - want.starts.at(name)).abs().max().item<double>();
    ASSERT_GT(change, 1e-3) << name << ": the reference proves nothing";
    EXPECT_LE((got.state.parameters.at(name) - parameter).abs().max().item<double>(), tolerance * change) << name;
    EXPECT_FALSE(got.state.exp_avgs.at(name).isnan().any().item<bool>()) << name << ": some element belongs to nobody";
  }
  for (int step = 0; step < kZero1Steps; ++step) {
    EXPECT_NEAR(got.losses[static_cast<size_t>(step)], want.losses[static_cast<size_t>(step)],
                tolerance * want.losses[0]);
    EXPECT_NEAR(got.norms[static_cast<size_t>(step)], want.norms[static_cast<size_t>(step)], tolerance * want.norms[0]);
    EXPECT_GT(want.norms[static_cast<size_t>(step)], 2 * tests::WaveRun::kClip) << "clipping is not active";
  }
  EXPECT_LT(want.losses[kZero1Steps - 1], want.losses[0]);
}

class Zero1 : public ::testing::TestWithParam<Setting> {};

/// fp32: sums in another order differ by some ulp of the gradient; AdamW's first steps divide each element by its own
/// size, which carries the relative error of small elements into steps of full length: 1e-3 of the largest change.
TEST_P(Zero1, EqualsDdpAndOneRank) {
  const Outcome got = train(GetParam());
  Setting ddp = GetParam(), alone = GetParam();
  ddp.is_sharded = alone.is_sharded = false;
  alone.num_ranks = 1;
  alone.num_micro_batches = 1;
  alone.backend = ThreadBackend::kLocal;
  expect_same_training(got, train(ddp), 1e-5);
  expect_same_training(got, train(alone), 1e-3);
  EXPECT_NEAR(got.state.parameters.at("scale").item<double>(), 1.29, 1e-6) << "bounds";
}

TEST_P(Zero1, HoldsItsShareAndCallsByTheFormula) {
  const Setting& setting = GetParam();
  const Outcome got = train(setting);
  Zero1Model model;
  std::vector<plan::BucketItem> items;
  for (const auto& [name, tensor] : model.all())
    if (tensor->requires_grad())
      items.push_back({.name = name, .num_elements = tensor->numel(), .dtype = "fp32", .element_bytes = 4});
  const auto buckets = plan::plan_buckets(items, setting.bucket_bytes, setting.num_ranks);
  int64_t all = 0, sum = 0, bytes = 0;
  for (const auto& item : items) all += item.num_elements;
  for (const auto& bucket : buckets) bytes += bucket.num_elements * 4;
  for (int rank = 0; rank < setting.num_ranks; ++rank) {
    int64_t want = 0;
    for (const auto& bucket : buckets)
      for (const auto& part : plan::shard_segments(bucket, setting.num_ranks, rank)) want += part.num_elements;
    EXPECT_EQ(got.state_elements[static_cast<size_t>(rank)], want) << rank;
    EXPECT_LE(want, bytes / 4 / setting.num_ranks);
    sum += want;
  }
  EXPECT_EQ(sum, all);
  const auto num_buckets = static_cast<int64_t>(buckets.size());
  const auto calls = [&](const char* kind) {
    return got.calls.contains(kind) ? got.calls.at(kind) : std::pair<int64_t, int64_t>{};
  };
  if (setting.num_ranks == 1) {
    EXPECT_TRUE(got.calls.empty());
    return;
  }
  EXPECT_EQ(calls("reduce_scatter"), std::pair(kZero1Steps * num_buckets, kZero1Steps * bytes));
  EXPECT_EQ(calls("all_gather"), std::pair(kZero1Steps * num_buckets, kZero1Steps * bytes));
  EXPECT_EQ(calls("all_reduce"),
            std::pair(int64_t{kZero1Steps + kZero1Steps - 1}, int64_t{8 * (kZero1Steps + kZero1Steps - 1)}))
      << "the norm's, and the test's mean loss";
}

std::vector<Setting> settings() {
  std::vector<Setting> out;
  for (const int num_ranks : {1, 2, 3, 4})
    for (const int64_t num_micro_batches : {1, 3})
      for (const int64_t bucket_bytes : {int64_t{1}, int64_t{400}, int64_t{1} << 30})
        if (tests::kSamples / num_ranks % num_micro_batches == 0)
          out.push_back({.num_ranks = num_ranks, .num_micro_batches = num_micro_batches, .bucket_bytes = bucket_bytes});
  for (const int num_ranks : {2, 3})
    out.push_back({.num_ranks = num_ranks, .num_micro_batches = 2, .backend = ThreadBackend::kGloo});
  return out;
}

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  return fmt::format("{}{}Ranks{}Micros{}Bytes", info.param.backend == ThreadBackend::kLocal ? "Local" : "Gloo",
                     info.param.num_ranks, info.param.num_micro_batches, info.param.bucket_bytes);
}

INSTANTIATE_TEST_SUITE_P(Settings, Zero1, ::testing::ValuesIn(settings()), setting_name);

TEST(Zero1Shards, MayBeEmpty) {
  const Outcome got = train({.num_ranks = 4, .bucket_bytes = 1});
  int num_owners = 0;
  for (const auto& names : got.names) num_owners += names.contains("scale") ? 1 : 0;
  EXPECT_EQ(num_owners, 1) << "one element lies on one rank";
  EXPECT_EQ(got.names[0].count("twice") + got.names[1].count("twice") + got.names[2].count("twice") +
                got.names[3].count("twice"),
            3u)
      << "36 elements in shards of 16";
}

TEST(Zero1Shards, ReductionOverlapsWithBackward) {
  tests::run_ranks(2, [](Comm& data) {
    Zero1Model model;
    const auto sync = make_grad_sync_zero1(model.all(), data, 1);
    sync->begin_step();
    sync->begin_micro(false);
    tests::backward(model.loss(tests::all_images()));
    require(data.count("reduce_scatter") == 0, "an early micro-batch communicated");
    sync->begin_micro(true);
    tests::backward(model.loss(tests::all_images()));
    require(data.count("reduce_scatter") == 3,
            "no bucket left during backward");  // scale, head, twice: see DdpCommunication
    sync->finish();
    require(data.count("reduce_scatter") == 6 && data.count("all_reduce") == 0, "all buckets");
  });
}

/// Rank 1 begins to gather only once rank 0 is past begin_step().
TEST(Zero1Shards, ParametersAreWaitedForWhereTheyAreUsed) {
  std::promise<void> has_begun;
  const std::shared_future<void> begun = has_begun.get_future().share();
  tests::run_ranks(2, [&](Comm& data) {
    Zero1Model model;
    const auto sync = make_grad_sync_zero1(model.all(), data, 1);
    const auto use_head = sync->wait_where_used({{"head", &model.head}});
    const auto use_others = sync->wait_where_used(model.all());
    const c10::NoGradGuard no_grad;
    for (const optim::Segment& segment : sync->partition().segments) segment.parameter.fill_(7.0);
    if (data.rank() == 1)
      require(begun.wait_for(std::chrono::seconds(20)) == std::future_status::ready,
              "begin_step waited for the parameters");
    sync->publish_params();
    sync->begin_step();
    if (data.rank() == 0) has_begun.set_value();
    use_head();
    require(model.head.eq(7.0).all().item<bool>(), "the head was used before all of it was there");
    sync->begin_micro(true);
    sync->finish();
    for (const auto& [name, tensor] : model.all())
      require(name == "frozen" || tensor->eq(7.0).all().item<bool>(), name + ", which nobody used, was not waited for");
    use_others();
  });
}

/// Parameters that nobody waits for later, alone or with others in one bucket, are there when begin_step() returns.
TEST(Zero1Shards, BeginStepWaitsForTheRest) {
  for (const int64_t bucket_bytes : {int64_t{1}, int64_t{1} << 20})
    tests::run_ranks(2, [&](Comm& data) {
      Zero1Model model;
      const auto sync = make_grad_sync_zero1(model.all(), data, bucket_bytes);
      const auto use_head = sync->wait_where_used({{"head", &model.head}});
      const c10::NoGradGuard no_grad;
      for (const optim::Segment& segment : sync->partition().segments) segment.parameter.fill_(7.0);
      if (data.rank() == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // without the wait rank 0 is long past its checks
      sync->publish_params();
      sync->begin_step();
      for (const auto& [name, tensor] : model.all())
        require(name == "frozen" || name == "head" || tensor->eq(7.0).all().item<bool>(), name + " was not waited for");
      use_head();
      require(model.head.eq(7.0).all().item<bool>(), "the head was not waited for");
      sync->begin_micro(true);
      sync->finish();
    });
}

/// Rank 0 of two that have the same. As Gloo's threads may have it, what a call gives is there when somebody has waited
/// for that call, and not for a later one.
class LateGroup final : public comm::Backend {
 public:
  LateGroup() : Backend(0, 2, at::Device(at::kCPU)) {}
  std::function<void()> start(comm::Call call) override {
    return [call = std::move(call)] {
      const int64_t half = call.tensor.numel() / 2;
      if (call.kind == comm::OpKind::kAllGather) call.tensor.narrow(0, half, half).copy_(call.input);
    };
  }
};

TEST(Zero1Shards, FinishWaitsForWhatNobodyUsed) {
  Comm data(std::make_shared<LateGroup>(), nullptr, "dp");
  Zero1Model model;
  const auto sync = make_grad_sync_zero1(model.all(), data, 1);
  const auto use_all = sync->wait_where_used(model.all());
  const c10::NoGradGuard no_grad;
  for (const optim::Segment& segment : sync->partition().segments) segment.parameter.fill_(7.0);
  sync->publish_params();
  sync->begin_step();
  EXPECT_FALSE(model.head.eq(7.0).all().item<bool>()) << "waited for too early";
  sync->begin_micro(true);
  sync->finish();
  for (const auto& [name, tensor] : model.all())
    EXPECT_TRUE(name == "frozen" || tensor->eq(7.0).all().item<bool>()) << name;
}

struct MasterCase {
  at::ScalarType type;
  bool fp32_gradients;
};

class Masters : public ::testing::TestWithParam<MasterCase> {};

TEST_P(Masters, ShardedEqualsWholeBitForBit) {
  const auto [type, fp32_gradients] = GetParam();
  for (const auto backend : {ThreadBackend::kLocal, ThreadBackend::kGloo}) {
    Setting setting{.num_ranks = 3,
                    .num_micro_batches = 2,
                    .type = type,
                    .masters = {.has_masters = true, .fp32_gradients = fp32_gradients},
                    .backend = backend};
    const Outcome got = train(setting);
    setting.is_sharded = false;
    const Outcome want = train(setting);
    const bool is_exact =
        fp32_gradients || backend == ThreadBackend::kLocal;  // Gloo rounds 16-bit sums at each hop, in another order
    for (const auto& [name, parameter] : want.state.parameters) {
      EXPECT_EQ(parameter.scalar_type(), type);
      if (name == "frozen") continue;
      const auto& master = got.state.masters.at(name);
      const auto flat = got.state.parameters.at(name).as_strided({parameter.numel()}, {1});
      EXPECT_TRUE(flat.equal(master.to(type))) << name << " is not its master, rounded";
      EXPECT_FALSE(flat.to(at::kFloat).equal(master)) << name << ": the master holds no more than the parameter";
      if (!is_exact) continue;
      EXPECT_TRUE(got.state.parameters.at(name).equal(parameter)) << name;
      EXPECT_TRUE(master.equal(want.state.masters.at(name))) << name;
      EXPECT_TRUE(got.state.exp_avgs.at(name).equal(want.state.exp_avgs.at(name))) << name;
    }
    for (size_t step = 0; step < kZero1Steps; ++step)
      EXPECT_NEAR(got.losses[step], want.losses[step], is_exact ? 0 : 1e-2 * want.losses[0]);
    EXPECT_GT(want.norms[0], 2 * tests::WaveRun::kClip);
    int64_t all = 0, most = 0;
    for (const int64_t elements : got.state_elements) all += elements, most = std::max(most, elements);
    EXPECT_EQ(all, want.state_elements[0]);
    EXPECT_LT(most, all / 2);
    const int64_t element_bytes = fp32_gradients ? 4 : 2;
    EXPECT_EQ(got.calls.at("reduce_scatter").second, got.calls.at("all_gather").second * element_bytes / 2)
        << "parameters travel in 16 bits";
  }
}

/// Against fp32 training on one rank. The forward and backward passes round to 8 (bf16) or 11 bits, so that AdamW's
/// steps differ by some per cent of their length.
TEST_P(Masters, FollowFp32Training) {
  const auto [type, fp32_gradients] = GetParam();
  const Outcome want = train({.is_sharded = false});
  const Outcome got =
      train({.num_ranks = 2, .type = type, .masters = {.has_masters = true, .fp32_gradients = fp32_gradients}});
  for (int step = 0; step < kZero1Steps; ++step)
    EXPECT_NEAR(got.losses[static_cast<size_t>(step)], want.losses[static_cast<size_t>(step)], 0.02 * want.losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Types, Masters,
                         ::testing::Values(MasterCase{at::kBFloat16, false}, MasterCase{at::kBFloat16, true},
                                           MasterCase{at::kHalf, false}, MasterCase{at::kHalf, true}),
                         [](const auto& entry) {
                           return fmt::format("{}{}", entry.param.type == at::kHalf ? "Fp16" : "Bf16",
                                              entry.param.fp32_gradients ? "Fp32Gradients" : "");
                         });

/// Updates of a 1000th of a bf16 step each: without a master copy the parameter never moves.
TEST(MasterCopies, KeepWhatSixteenBitsWouldLose) {
  const auto run = [](bool has_masters) {
    Comm alone;
    at::Tensor weight = at::ones({4}, at::kBFloat16).requires_grad_();
    const auto sync = make_grad_sync_zero1({{"weight", &weight}}, alone, 1 << 20, {.has_masters = has_masters});
    const auto optimizer = std::make_unique<optim::AdamW>(
        train::optimizer_segments(sync->partition(), {{.name = "weight", .shape = {4}, .init = {}}}),
        optim::AdamWConfig{});
    for (int step = 0; step < 600; ++step) {
      sync->begin_step();
      sync->begin_micro(true);
      tests::backward(weight.sum());
      sync->finish();
      train::update_parameters(*sync, *optimizer, nullptr, 1e-5, 0);
    }
    return weight.detach().to(at::kFloat).max().item<double>();
  };
  EXPECT_EQ(run(false), 1.0);
  EXPECT_EQ(run(true), 1.0 - 2.0 / 256);  // 600 steps of 1e-5 are 1.54 / 256
}

TEST(Overflow, OfOneRankIsSkippedByAll) {
  for (const bool is_sharded : {false, true}) {
    std::atomic<int> num_skipped = 0;
    tests::run_ranks(3, [&](Comm& data) {
      tests::WaveRun run(
          {.num_ranks = 3, .is_sharded = is_sharded, .type = at::kHalf, .masters = {.has_masters = true}}, data);
      optim::LossScaler scaler(at::kCPU, {.initial_scale = 1024.0});
      const auto before = run.model.head.detach().clone();
      run.sync->begin_step();
      run.sync->begin_micro(true);
      tests::backward(run.model.loss(tests::all_images()) *
                      (data.rank() == 1 ? std::numeric_limits<double>::infinity() : 1.0));
      run.sync->finish();
      const auto gradients = train::update_parameters(*run.sync, *run.optimizer, &scaler, 1e-2, 1.0);
      run.sync->wait_params();
      require(gradients.found_inf.item<float>() == 1.0f, "nobody noticed");
      require(run.model.head.equal(before), "the update was not skipped");
      require(scaler.state().scale == 512.0, "the scale did not shrink");
      ++num_skipped;
    });
    EXPECT_EQ(num_skipped, 3);
  }
}

}  // namespace
}  // namespace lockstep::parallel
