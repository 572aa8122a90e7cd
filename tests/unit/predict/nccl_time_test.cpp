// NCCL's model of its collectives, against values made from the constants of its source.
#include "predict/nccl_time.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <string>

#include "predict/machine_file.h"
#include "predict/plan_step.h"

namespace lockstep::predict {
namespace {

/// The fastest, which NCCL takes; no time for one device.
NcclChoice nccl_choice(const NcclNodes& nodes, Collective collective, double num_nodes, double bytes) {
  const std::vector<NcclChoice> choices = nccl_choices(nodes, collective, num_nodes, bytes);
  const auto fastest = std::min_element(choices.begin(), choices.end(),
                                        [](const NcclChoice& a, const NcclChoice& b) { return a.seconds < b.seconds; });
  return fastest == choices.end() ? NcclChoice{} : *fastest;
}

constexpr double kMiB = 1024.0 * 1024;

struct BusRates {
  NcclNodes nodes;
  double num_nodes;
  double bus_gbytes_per_s[4];  ///< Of 1, 25, 256 and 1024 MiB.
};

const NcclNodes kDgxA100{.family = NcclNodes::kAmpere, .has_amd_host = true};
const NcclNodes kDgxH100{.family = NcclNodes::kHopper, .channel_gbytes_per_s = 48};
const NcclNodes kQuadA100{.family = NcclNodes::kAmpere, .has_amd_host = true, .devices_per_node = 4, .num_channels = 4};
const NcclNodes kLeonardo{
    .family = NcclNodes::kAmpere, .devices_per_node = 4, .num_channels = 4, .channel_gbytes_per_s = 12};
const NcclNodes kQuadGh200{.family = NcclNodes::kHopper, .devices_per_node = 4, .num_channels = 4};

TEST(NcclTime, BusRatesOfAllReduce) {
  const BusRates rows[] = {{kDgxA100, 2, {27.9, 127.6, 173.1, 186.9}},   {kDgxA100, 32, {14.6, 94.5, 129.2, 147.2}},
                           {kDgxA100, 128, {11.9, 89.3, 128.6, 139.8}},  {kDgxH100, 8, {21.2, 154.7, 253.7, 334.3}},
                           {kDgxH100, 128, {12.7, 130.4, 230.0, 278.0}}, {kDgxH100, 512, {10.5, 120.3, 224.8, 276.2}},
                           {kQuadA100, 8, {16.3, 63.4, 85.2, 93.0}},     {kQuadA100, 128, {10.9, 51.6, 65.5, 73.0}},
                           {kLeonardo, 128, {9.3, 33.8, 40.9, 43.9}},    {kQuadGh200, 8, {17.7, 69.0, 87.7, 93.8}},
                           {kQuadGh200, 128, {11.5, 62.0, 80.9, 87.3}},  {kQuadGh200, 1024, {9.0, 58.6, 80.4, 87.2}}};
  for (const BusRates& row : rows) {
    const double n = row.nodes.devices_per_node * row.num_nodes, sizes[] = {1, 25, 256, 1024};
    for (size_t i = 0; i < 4; ++i) {
      const double bytes = sizes[i] * kMiB,
                   seconds = nccl_choice(row.nodes, Collective::kAllReduce, row.num_nodes, bytes).seconds;
      EXPECT_NEAR(2 * (n - 1) / n * bytes / seconds / 1e9, row.bus_gbytes_per_s[i], 0.01 * row.bus_gbytes_per_s[i])
          << row.num_nodes << " nodes, " << sizes[i] << " MiB";
    }
  }
}

TEST(NcclTime, TakesTreesForManyRanksAndRingsForManyBytes) {
  const auto choice = [](double num_nodes, double mib) {
    const NcclChoice one = nccl_choice(kDgxA100, Collective::kAllReduce, num_nodes, mib * kMiB);
    return std::string(one.algorithm) + " " + std::string(one.protocol);
  };
  EXPECT_EQ(choice(2, 1), "tree LL128");
  EXPECT_EQ(choice(2, 25), "ring LL128");
  EXPECT_EQ(choice(2, 1024), "ring Simple");
  EXPECT_EQ(choice(32, 25), "tree LL128");
  EXPECT_EQ(choice(128, 1024), "tree Simple");
  EXPECT_EQ(nccl_choice(kDgxA100, Collective::kAllGather, 128, 25 * kMiB).algorithm, "ring");
}

TEST(NcclTime, MoreBandwidthNeverSlowsAndOneDeviceSendsNothing) {
  for (double nodes = 1; nodes <= 1024; nodes *= 2)
    for (double bytes = 64; bytes < 1e10; bytes *= 3)
      for (const Collective kind : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
        NcclNodes fast = kDgxH100;
        fast.channel_gbytes_per_s *= 1.5;
        EXPECT_LE(nccl_choice(fast, kind, nodes, bytes).seconds, nccl_choice(kDgxH100, kind, nodes, bytes).seconds);
        EXPECT_LE(nccl_choice(kDgxH100, kind, nodes, bytes).seconds,
                  nccl_choice(kDgxH100, kind, 2 * nodes, bytes).seconds * (1 + 1e-12))
            << nodes << " nodes, " << bytes;
      }
  const NcclNodes one{.devices_per_node = 1};
  EXPECT_EQ(nccl_choice(one, Collective::kAllReduce, 1, 1e6).seconds, 0);
}

// Fewer bytes take no longer, though a tree's share of its rate jumps at powers of two.
TEST(NcclTime, FewerBytesNeverSlow) {
  for (const NcclNodes& nodes : {kDgxA100, kDgxH100, kLeonardo})
    for (const double num_nodes : {1, 2, 3, 64, 512})
      for (const Collective kind : {Collective::kAllReduce, Collective::kReduceScatter}) {
        double before = 0;
        for (double bytes = 1; bytes < 1e10; bytes *= 1.07) {
          const double seconds = nccl_choice(nodes, kind, num_nodes, bytes).seconds;
          EXPECT_GE(seconds, before) << num_nodes << " nodes, " << bytes << " bytes";
          before = seconds;
        }
      }
}

// Each bucket of a plan costs what NCCL's choice takes: of sharded gradients that of a reduce-scatter and an
// all-gather, whose rings are slower at scale than the trees of an all-reduce.
TEST(NcclTime, BucketsOfAPlanCostTheirOwnCalls) {
  const Machine machine = find_machine("marenostrum5");
  const auto planned = [&](const char* flag) {
    const auto recipe = std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/imagenet_resnet50_epicure.toml";
    return plan_one({"train", "imagenet", "--config", recipe, flag}, 32, 4);
  };
  const auto seconds = [&](const PlannedStep& step) {  // at nominal rates
    double sum_s = 0;
    const PlannedModel model = model_of({step}, machine);
    for (const GradientCalls& calls : model.sizes[0].gradient_calls) {
      double fastest_s = HUGE_VAL;
      for (const CallWay& way : calls.ways) fastest_s = std::min(fastest_s, way.latency_s + way.bytes_s);
      sum_s += calls.count * fastest_s;
    }
    return sum_s;
  };
  const auto expected = [&](const PlannedStep& step, std::initializer_list<Collective> collectives) {
    double sum_s = 0;
    for (const double both_passes : step.gradient_bucket_bytes)
      for (const Collective collective : collectives)
        sum_s += nccl_choice(nccl_nodes_of(machine).value(), collective, 32, both_passes / 2).seconds;
    return sum_s;
  };
  const PlannedStep reduced = planned("--grad-sync=ddp"), sharded = planned("--grad-sync=zero1");
  EXPECT_GT(reduced.gradient_bucket_bytes.size(), 1u);
  EXPECT_NEAR(seconds(reduced), expected(reduced, {Collective::kAllReduce}), 1e-9);
  EXPECT_NEAR(seconds(sharded), expected(sharded, {Collective::kReduceScatter, Collective::kAllGather}), 1e-9);
  EXPECT_GT(seconds(planned("--bucket-mb=5")), 1.1 * seconds(planned("--bucket-mb=100")));
  EXPECT_GT(seconds(sharded), 1.2 * seconds(reduced));
  const PlannedStep one_node = plan_one(
      {"train", "imagenet", "--config", std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/imagenet_resnet50_epicure.toml"},
      1, 4);
  EXPECT_TRUE(model_of({one_node}, machine).sizes[0].gradient_calls.empty()) << "the links of one node serve";
}

TEST(NcclTime, MachinesOfKnownFamilies) {
  const auto dgx = nccl_nodes_of(find_machine("dgx-h100"));
  ASSERT_TRUE(dgx.has_value());
  EXPECT_EQ(dgx->family, NcclNodes::kHopper);
  EXPECT_DOUBLE_EQ(dgx->num_channels * dgx->channel_gbytes_per_s, 384);
  EXPECT_FALSE(dgx->has_amd_host);
  EXPECT_TRUE(nccl_nodes_of(find_machine("dgx-a100"))->has_amd_host) << "2x EPYC 7742";
}

// RCCL has constants of its own, and processors have no NCCL, whatever their maker.
TEST(NcclTime, DevicesOfAmdAreNoNodesOfNccl) {
  for (const char* name : {"lumi", "lumi-c", "frontier"}) EXPECT_FALSE(nccl_nodes_of(find_machine(name))) << name;
  for (const char* device : {"MI250X", "MI300X", "8x MI250"}) {
    const auto machine = usual_machine_in(device);
    ASSERT_TRUE(machine) << device;
    EXPECT_FALSE(nccl_nodes_of(*machine)) << device;
  }
  const Machine mine = parse_machine(
      "device = \"MI300X\"\ndevices-per-node = 8\nnode-gbytes-per-s = 400\nname = \"H100 neighbour\"\n", "mine.toml");
  EXPECT_FALSE(nccl_nodes_of(mine)) << "the device decides, not the name";
}

}  // namespace
}  // namespace lockstep::predict
