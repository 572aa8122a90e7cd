// Limits and directions of the model's terms, and what calibration recovers of a known truth.
#include "predict/cost_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/rng.h"
#include "predict/forecast.h"
#include "predict/machine.h"
#include "predict/posterior.h"
#include "predict/size_list.h"
#include "predict/work_facts.h"

namespace lockstep::predict {
namespace {

Setting example() {
  return {.devices_per_node = 4,
          .inter_s = 0.05,
          .intra_s = 0.02,
          .latency_s = 0.001,
          .gather_s = 0.0002,
          .gather_hop_s = 1e-6,
          .logits_s = 0.0001};
}

Size at_nodes(double nodes) { return {.nodes = nodes, .devices = 4 * nodes}; }

double step_at(const Setting& setting, double nodes, const Latents& latents = {}) {
  const Size size = at_nodes(nodes);
  const Terms terms = CostModel(setting, 1, std::span(&size, 1)).terms(latents, 0);
  return terms.scaled + terms.constant();
}

TEST(CostModel, ExpectedMaximumFollowsTheTable) {
  EXPECT_EQ(expected_normal_max(1), 0);
  for (const auto& [n, value] : {std::pair{4.0, 1.03}, {16.0, 1.77}, {512.0, 3.04}, {8192.0, 3.80}})
    EXPECT_NEAR(expected_normal_max(n), value, 0.02 * value) << n;
}

TEST(CostModel, OneDeviceHasNoCommunication) {
  const Size one{.nodes = 0.25, .devices = 1};
  const Terms terms = CostModel(example(), 1, std::span(&one, 1)).terms({}, 0);
  EXPECT_EQ(terms.parts[kGradients], 0);
  EXPECT_EQ(terms.parts[kSkew], 0);
  EXPECT_EQ(terms.parts[kUnexplained], 0);
  EXPECT_DOUBLE_EQ(terms.parts[kGather], 0.25 * example().logits_s) << "its own logits";
  EXPECT_EQ(terms.parts[kCompute], 1);
}

TEST(CostModel, MoreBandwidthAndFewerBytesNeverSlow) {
  core::CounterRng rng(5);
  for (int i = 0; i < 2000; ++i) {
    Setting slow = example();
    slow.inter_s = rng.uniform(0, 2), slow.intra_s = slow.inter_s * rng.uniform(),
    slow.latency_s = rng.uniform(0, 0.01);
    Setting fast = slow;
    fast.inter_s *= rng.uniform(), fast.latency_s *= rng.uniform(), fast.gather_s *= rng.uniform();
    Latents latents;
    for (double& value : latents) value = 2 * rng.normal();
    const double nodes = std::exp2(static_cast<double>(rng.below(11)));
    EXPECT_LE(step_at(fast, nodes, latents), step_at(slow, nodes, latents));
    Latents better = latents;
    better[kNetworkEfficiency] += rng.uniform(), better[kGradientBytes] -= rng.uniform();
    EXPECT_LE(step_at(slow, nodes, better), step_at(slow, nodes, latents));
  }
}

TEST(CostModel, WeakScalingNeverSpeedsUp) {
  core::CounterRng rng(6);
  for (int i = 0; i < 500; ++i) {
    Latents latents;
    for (double& value : latents) value = 2 * rng.normal();
    Setting setting = example();
    setting.intra_s = 0.2 * rng.uniform();  // links inside a node may be the slower ones
    for (double nodes = 1; nodes < 2048; nodes *= 2)
      EXPECT_LE(step_at(setting, nodes, latents), step_at(setting, 2 * nodes, latents));
  }
}

TEST(CostModel, WithoutTrafficJitterAndGrowthOnlyComputeIsLeft) {
  Setting ideal{.devices_per_node = 4, .jitter_scale = 0, .growth_per_doubling = 0};
  const Size size = at_nodes(256);
  const Terms terms = CostModel(ideal, 1, std::span(&size, 1)).terms({}, 0);
  EXPECT_EQ(terms.scaled, 1);
  EXPECT_EQ(terms.constant(), terms.parts[kFixed]);
}

// A step of many seconds does not synchronise more often than one of two: jitter averages, the rest grows slower.
TEST(CostModel, LongStepsLoseASmallerShare) {
  const auto lost_share = [](Part part, double seconds) {
    const Size size = at_nodes(64);
    const Terms terms = CostModel(example(), seconds, std::span(&size, 1)).terms({}, 0);
    return part == kSkew ? terms.parts[kSkew] : terms.parts[part] / seconds;
  };
  for (const Part part : {kSkew, kUnexplained}) {
    EXPECT_DOUBLE_EQ(lost_share(part, 0.5), lost_share(part, 2)) << part_name(part);
    EXPECT_NEAR(lost_share(part, 2), 4 * lost_share(part, 32), 1e-12) << part_name(part);
  }
  Setting hours = example();
  hours.clock_s = 3600;  // the same step in another clock
  const Size size = at_nodes(64);
  const double of_hours = CostModel(hours, 32.0 / 3600, std::span(&size, 1)).terms({}, 0).parts[kUnexplained];
  EXPECT_NEAR(of_hours * 3600, 32 * lost_share(kUnexplained, 32), 1e-12);
}

TEST(CostModel, RingsOfShardedParametersStayBounded) {
  Setting setting{.devices_per_node = 4, .ring_latency_s = 1e-4, .growth_per_doubling = 0};
  const auto ring = [&](double devices) {
    const Size size{.nodes = devices / 4, .devices = devices};
    return CostModel(setting, 100, std::span(&size, 1)).terms({}, 0).parts[kGradients];
  };
  EXPECT_NEAR(ring(9) / ring(5), 2, 0.02) << "nearly a line while the ring is short";
  EXPECT_LT(ring(1 << 20), 513 * ring(2));
  EXPECT_GT(ring(4096), ring(2048));
}

TEST(WorkFacts, GroupsThatShardKeepTheirGathers) {
  const auto setting = [](std::optional<int64_t> group_ranks, bool is_in_groups) {
    WorkFacts work{.parameters = 7e9, .are_parameters_certain = true, .sharding = Sharding::kFull};
    work.is_sharded_in_groups = is_in_groups;
    work.group_ranks = group_ranks;
    std::vector<KnownFact> facts;
    return make_setting(work, usual_machine_in("DGX H100"), 8, 10, true, facts);
  };
  const auto gradients_s = [](const Setting& of, double nodes) {
    const std::array sizes{Size{.nodes = nodes, .devices = 8 * nodes}};
    Latents latents{};
    latents[kHiddenShare] = -20;  // nothing is hidden
    return CostModel(of, 10, sizes).terms(latents, 0).parts[kGradients];
  };
  const Setting full = setting({}, false), of_node = setting({}, true), of_two_nodes = setting(16, true);
  EXPECT_EQ(gradients_s(of_node, 64), gradients_s(setting(8, true), 64)) << "a node has eight";
  EXPECT_EQ(gradients_s(of_two_nodes, 2), gradients_s(full, 2)) << "one group";
  EXPECT_EQ(gradients_s(setting(512, true), 64), gradients_s(full, 64)) << "one group";
  // An all-reduce leaves the node instead of three passes and a ring of all ranks.
  EXPECT_LT(gradients_s(of_node, 64), 0.8 * gradients_s(full, 64));
  EXPECT_EQ(of_node.ring_latency_s, 0);
  // Between groups of two nodes half of the gradients of each device's node are reduced twice over.
  EXPECT_NEAR(of_two_nodes.between_rings_s, full.inter_s / 3, 1e-12);
  const double grown = gradients_s(of_two_nodes, 1024) - gradients_s(of_two_nodes, 64);
  EXPECT_LT(grown, 0.1 * (gradients_s(full, 1024) - gradients_s(full, 64))) << "rings end at their group";
}

TEST(CostModel, DevicesOfANodeSlowOneAnotherUntilItIsFull) {
  Setting setting{.devices_per_node = 4, .growth_per_doubling = 0, .contention = 0.1};
  const auto shared = [&](double devices) {
    const Size size{.nodes = devices / 4, .devices = devices};
    return CostModel(setting, 1, std::span(&size, 1)).terms({}, 0).parts[kUnexplained];
  };
  EXPECT_EQ(shared(1), 0);
  EXPECT_NEAR(shared(2), 0.1 * (1 - 1.0 / 2) / (1 - 1.0 / 4), 1e-12);
  EXPECT_NEAR(shared(4), 0.1, 1e-12);
  EXPECT_NEAR(shared(64), 0.1, 1e-12);
  setting.contention = 0;
  EXPECT_EQ(shared(4), 0);
}

TEST(CostModel, UntoldVirtualStagesOnlyShrinkTheBubble) {
  Setting setting = example();
  const Size size{.nodes = 1, .devices = 4, .bubble = 0.5};
  const auto bubble = [&](double latent) {
    Latents latents{};
    latents[kVirtualStages] = latent;
    return CostModel(setting, 1, std::span(&size, 1)).terms(latents, 0).parts[kBubble];
  };
  EXPECT_EQ(bubble(2), 0.5);
  setting.are_virtual_stages_known = false;
  EXPECT_EQ(bubble(0), 0.5);
  EXPECT_LT(bubble(2), 0.1);
  EXPECT_EQ(bubble(-2), bubble(2));
}

// Curves drawn from the model itself: intervals must hold what they promise.
TEST(Posterior, IntervalsCoverCurvesOfTheModel) {
  core::CounterRng rng(7);
  const std::vector<Size> sizes = {at_nodes(1), at_nodes(2), at_nodes(4), at_nodes(8), at_nodes(32), at_nodes(64)};
  const CostModel model(example(), 1, sizes);
  int in90 = 0, in50 = 0, num = 0;
  for (int curve = 0; curve < 100; ++curve) {
    Latents latents;
    for (double& value : latents) value = rng.normal();
    std::vector<double> steps;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Terms terms = model.terms(latents, i);
      steps.push_back((terms.scaled + terms.constant()) * (1 + model.noise(latents) * rng.normal()));
    }
    std::vector<Measured> measured;
    for (size_t i = 0; i < 4; ++i) measured.push_back({sizes[i], steps[i]});
    const auto draws = sample_posterior(example(), steps[0], measured);
    const Forecast result = forecast(example(), steps[0], draws, std::span(sizes).subspan(4), 8);
    for (size_t i = 0; i < result.steps.size(); ++i) {
      ++num;
      in90 += result.steps[i].step_s.covers90(steps[i + 4]);
      in50 += result.steps[i].step_s.covers50(steps[i + 4]);
    }
  }
  EXPECT_GE(in90, num * 85 / 100);
  EXPECT_LE(in90, num * 99 / 100);
  EXPECT_GE(in50, num * 40 / 100);
  EXPECT_LE(in50, num * 68 / 100);
}

TEST(Posterior, TheSameInputGivesTheSameDraws) {
  const std::vector<Measured> measured = {{at_nodes(1), 1.0}, {at_nodes(2), 1.01}};
  const auto a = sample_posterior(example(), 1, measured), b = sample_posterior(example(), 1, measured);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].compute_s, b[i].compute_s);
}

TEST(Posterior, TrafficThatCannotBeIsRefused) {
  Setting setting = example();
  setting.inter_s = 1e6;
  const std::vector<Measured> measured = {{at_nodes(4), 1.0}};
  EXPECT_THROW(sample_posterior(setting, 1, measured), DataError);
}

TEST(Forecast, WidensBeyondTheFirstGroupOfTheNetwork) {
  const std::vector<Measured> measured = {{at_nodes(1), 1.0}, {at_nodes(2), 1.01}, {at_nodes(4), 1.02}};
  Setting grouped = example();
  grouped.group_nodes = 8;
  const auto width = [&](const Setting& setting, double nodes) {
    const Size size = at_nodes(nodes);
    return forecast(setting, 1, sample_posterior(setting, 1, measured), std::span(&size, 1), 4)
        .steps[0]
        .step_s.relative_half_width();
  };
  EXPECT_EQ(width(grouped, 8), width(example(), 8));
  EXPECT_GT(width(grouped, 16), width(example(), 16));
}

TEST(WorkFacts, NamesInTexts) {
  WorkFacts facts;
  read_work_facts("a 13B model, TP=4, PP 2, mbs=1, ZeRO-3", "here", facts);
  EXPECT_EQ(facts.parameters, 13e9);
  EXPECT_EQ(facts.tp, 4);
  EXPECT_EQ(facts.pp, 2);
  EXPECT_EQ(facts.micro_batch, 1);
  EXPECT_EQ(facts.sharding, Sharding::kFull);
  ASSERT_NE(find_system_in("measured on LUMI"), nullptr);
  EXPECT_EQ(find_system_in("measured on LUMI")->name, "LUMI-G");
  EXPECT_EQ(find_system_in("measured on a laptop"), nullptr);
}

TEST(SizeList, Forms) {
  EXPECT_EQ(parse_sizes("1-16*2"), (std::vector<int64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(parse_sizes("8-24+8,2"), (std::vector<int64_t>{2, 8, 16, 24}));
  EXPECT_EQ(parse_sizes("3-5"), (std::vector<int64_t>{3, 4, 5}));
  for (const char* wrong : {"", "0", "8-4", "1-8*1", "a", "1-8*", "1-1000000", "-4", "1-8*2*2"})
    EXPECT_THROW(parse_sizes(wrong), UsageError) << wrong;
}

}  // namespace
}  // namespace lockstep::predict
