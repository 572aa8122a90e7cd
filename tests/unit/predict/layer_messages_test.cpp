// Messages of experts and of context ranks against formulas computed by hand, and what they may never do.
#include "predict/layer_messages.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "predict/machine_file.h"

namespace lockstep::predict {
namespace {

constexpr LayerShape kShape{.layers = 2, .hidden = 8, .key_width = 4};

WorkFacts work_of(int64_t ep, int64_t cp) {
  return {.parameters = 56e9,
          .tp = 2,
          .cp = cp,
          .ep = ep,
          .has_experts = true,
          .num_experts = 16,
          .top_k = 2,
          .layers = 32,
          .hidden = 4096,
          .key_width = 1024};
}

double total_s(const LayerMessages& messages) { return messages.link_s + messages.wire_s; }

TEST(LayerMessages, BytesAreThoseOfTheFormulas) {
  // 100 tokens of 8 numbers of 2 bytes to 2 experts, 3 of 4 of them elsewhere; there and back, in both passes.
  EXPECT_DOUBLE_EQ(expert_bytes(kShape, 2, 100, 4), 4 * (2 * 100) * 2 * 8 * 2 * 3 / 4.0);
  EXPECT_EQ(expert_bytes(kShape, 2, 100, 1), 0);
  // Keys and values of 100 tokens, 4 numbers of 2 bytes each in 2 layers, pass 3 hops: forward, backward, gradients.
  EXPECT_DOUBLE_EQ(context_bytes(kShape, 100, 4), 3 * (2 * 100 * 4 * 2 * 2) * 3);
  EXPECT_EQ(context_bytes(kShape, 100, 1), 0);
}

TEST(LayerMessages, TravelWhereTheirRanksLie) {
  const Machine machine = find_machine("dgx-h100");
  const DeviceTokens step{.tokens = 8192, .sequence = 4096, .num_micro = 4};
  // Four expert ranks beside two tensor ranks fill a node; of eight, four are elsewhere.
  EXPECT_EQ(layer_messages(work_of(4, 1), machine, 8, step).wire_s, 0);
  const double bytes = 4 * 2 * 8192.0 * 32 * 4096 * 2 * 7 / 8;
  const LayerMessages eight = layer_messages(work_of(8, 1), machine, 8, step);
  EXPECT_NEAR(eight.wire_s, bytes * 4 / 7 / (400e9 / 8), 1e-9);
  EXPECT_NEAR(eight.link_s, bytes * 3 / 7 / (0.8 * 450e9) + 4 * 32 * 4 * 27e-6, 1e-9);
  // Two rings of eight context ranks leave a node. Short sequences hide nothing to speak of.
  const DeviceTokens short_step{.tokens = 8192, .sequence = 1, .num_micro = 1};
  const LayerMessages ring = layer_messages(work_of(1, 8), machine, 8, short_step);
  EXPECT_NEAR(ring.wire_s, 3 * 2 * 8192.0 * 32 * 1024 * 2 * 7 * 2 / 400e9, 2e-3 * ring.wire_s);
  EXPECT_EQ(layer_messages(work_of(1, 4), machine, 8, short_step).wire_s, 0);
  EXPECT_EQ(total_s(layer_messages(work_of(1, 1), machine, 8, step)), 0);
}

TEST(LayerMessages, LongSequencesHideTheRing) {
  const Machine machine = find_machine("dgx-h100");
  double before = INFINITY;
  for (double sequence = 1024; sequence <= 1 << 20; sequence *= 2) {
    const double now = total_s(layer_messages(work_of(1, 4), machine, 8, {.tokens = 8192, .sequence = sequence}));
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_EQ(before, 0);
}

TEST(LayerMessages, MoreBandwidthNeverSlows) {
  const Machine machine = find_machine("dgx-h100");
  for (const int64_t ep : {1, 4, 16})
    for (const int64_t cp : {1, 2, 8})
      for (const double sequence : {1024.0, 8192.0, 65536.0}) {
        Machine fast_links = machine, fast_wires = machine;
        fast_links.link_gbytes_per_s.value *= 1.5;
        fast_wires.node_gbytes_per_s.value *= 1.5;
        const auto seconds = [&, step = DeviceTokens{.tokens = 8192, .sequence = sequence}](const Machine& of) {
          return total_s(layer_messages(work_of(ep, cp), of, 8, step));
        };
        EXPECT_LE(seconds(fast_links), seconds(machine)) << ep << " x " << cp;
        EXPECT_LE(seconds(fast_wires), seconds(machine)) << ep << " x " << cp;
      }
}

// Gradients of experts travel between their copies alone.
TEST(LayerMessages, GradientsOfExpertsTravelBetweenTheirCopies) {
  const Machine machine = find_machine("dgx-h100");
  const auto setting = [&](int64_t ep) {
    std::vector<KnownFact> facts;
    return make_setting(work_of(ep, 1), machine, 8, 10, true, facts);
  };
  // 48 of 49 parts of the parameters are experts'. 16-bit gradients of half of the parameters, four ranks of a node.
  EXPECT_NEAR(setting(8).expert_s, 2 * 56e9 / 2 * 2 * 48 / 49 / (400e9 * 4 / 8), 1e-9);
  EXPECT_NEAR(setting(8).inter_s, 2 * 56e9 / 2 * 2 / 49 / (400e9 * 4 / 8), 1e-9);
  EXPECT_NEAR(setting(8).inter_s + setting(8).expert_s, setting(1).inter_s, 1e-9) << "one rank holds all";
  EXPECT_EQ(setting(1).expert_s, 0);
  const auto gradients_s = [](const Setting& of, double nodes, double expert_ranks) {
    const std::array sizes{Size{.nodes = nodes, .devices = 8 * nodes, .expert_ranks = expert_ranks}};
    Latents latents{};
    latents[kHiddenShare] = -20;  // nothing is hidden
    return CostModel(of, 10, sizes).terms(latents, 0).parts[kGradients];
  };
  const double nobody_elses = gradients_s(setting(16), 4, 16), copied = gradients_s(setting(16), 8, 16);
  EXPECT_LT(nobody_elses, 0.2 * copied) << "16 data ranks on 4 nodes: no expert has a copy";
  EXPECT_LT(copied, gradients_s(setting(1), 8, 1)) << "than if every rank held all of them";
}

}  // namespace
}  // namespace lockstep::predict
