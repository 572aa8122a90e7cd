#include "predict/nccl_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace lockstep::predict {
namespace {

// All times in microseconds, all rates in GB/s, in the order LL, LL128, Simple.
constexpr size_t kNumProtocols = 3, kLl = 0, kLl128 = 1, kSimple = 2;
using ByProtocol = std::array<double, kNumProtocols>;
constexpr std::array<std::string_view, kNumProtocols> kProtocolNames{"LL", "LL128", "Simple"};
constexpr ByProtocol kRingBase{6.6, 14, 8.4}, kRingIntra{0.6, 1.9, 3.4}, kRingInter{2.7, 4.0, 14};
constexpr ByProtocol kTreeBase{6.8, 14, 8.4}, kTreeIntra{0.6, 1.25, 4.0}, kTreeInter{5.0, 8.5, 14};
constexpr double kManyBytesLatency = 1.4, kManyBytes = 64;  // a ring's latency once each rank has so many a channel

/// By number of nodes: one, two, more.
using ByNodes = std::array<double, 3>;
size_t at_nodes(double num_nodes) { return num_nodes <= 1 ? 0 : num_nodes <= 2 ? 1 : 2; }

struct FamilyRates {
  double ll_in_node = 0, ring_channel_ll128 = 0;
  ByNodes tree_channel{}, tree_channel_ll128{};
};
constexpr FamilyRates kFamilies[] = {{87.7, 20, {24, 23.6, 17.8}, {20, 20, 20}},
                                     {141, 36.7, {38.7, 41.4, 36}, {36.7, 36.7, 29}}};
constexpr ByNodes kLlAmdHost{0, 22.5, 19.0}, kLlOtherHost{0, 39.0, 20.4};

/// Share of a tree's rate by the doublings of 64 bytes in a message.
constexpr std::array<std::array<double, 23>, kNumProtocols> kTreeShares{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

/// Bytes that a tree would send at all of its rate while it sends `bytes` at their share. The share jumps at powers of
/// two: below a jump a message takes no longer than the smallest one behind it.
double bytes_at_full_share(double bytes, size_t protocol) {
  const auto& shares = kTreeShares[protocol];
  const auto at = static_cast<size_t>(std::max(0.0, std::floor(std::log2(bytes / 64))));
  const auto share = [&](size_t doublings) { return doublings < shares.size() ? shares[doublings] : 1; };
  return std::min(bytes / share(at), 64 * std::exp2(static_cast<double>(at + 1)) / share(at + 1));
}

double ll_cap(const NcclNodes& nodes, double num_nodes) {
  if (num_nodes <= 1) return kFamilies[nodes.family].ll_in_node;
  return (nodes.has_amd_host ? kLlAmdHost : kLlOtherHost)[at_nodes(num_nodes)];
}

NcclChoice ring(const NcclNodes& nodes, Collective collective, double num_nodes, double bytes, size_t protocol) {
  const double n = nodes.devices_per_node * num_nodes, passes = collective == Collective::kAllReduce ? 2 : 1;
  const double bus = nodes.num_channels * nodes.channel_gbytes_per_s;
  const ByProtocol rates{std::min(bus / 2, ll_cap(nodes, num_nodes)),
                         std::min(0.92 * bus, nodes.num_channels * kFamilies[nodes.family].ring_channel_ll128), bus};
  const double num_steps = passes * (n - 1), between = passes * (num_nodes - 1);
  const double post = num_nodes > 1 ? (nodes.has_amd_host ? 2 : 1) * (protocol == kSimple ? 3 : 1) : 0;
  double latency = kRingBase[protocol] + (num_steps - between) * std::max(kRingIntra[protocol], post) +
                   between * kRingInter[protocol];
  if (protocol == kSimple && collective == Collective::kAllReduce && num_nodes > 1 &&
      bytes / (nodes.num_channels * n) >= kManyBytes)
    latency *= kManyBytesLatency;
  return {(latency + bytes / (1000 * rates[protocol] * n / num_steps)) * 1e-6, latency * 1e-6, "ring",
          kProtocolNames[protocol]};
}

NcclChoice tree(const NcclNodes& nodes, double num_nodes, double bytes, size_t protocol) {
  const FamilyRates& family = kFamilies[nodes.family];
  const size_t at = at_nodes(num_nodes);
  const double rate =
      std::min(0.92 * nodes.num_channels * nodes.channel_gbytes_per_s, nodes.num_channels * family.tree_channel[at]);
  const ByProtocol rates{
      std::min(rate / 3.8, ll_cap(nodes, num_nodes)),
      std::min(rate * (at == 0 ? 7.0 / 9 : 0.9375), nodes.num_channels * family.tree_channel_ll128[at]), rate};
  const double latency = kTreeBase[protocol] + 2 * ((nodes.devices_per_node - 1) * kTreeIntra[protocol] +
                                                    std::floor(std::log2(num_nodes)) * kTreeInter[protocol]);
  return {(latency + bytes_at_full_share(bytes, protocol) / (1000 * rates[protocol] * 0.5)) * 1e-6, latency * 1e-6,
          "tree", kProtocolNames[protocol]};
}

}  // namespace

std::vector<NcclChoice> nccl_choices(const NcclNodes& nodes, Collective collective, double num_nodes, double bytes) {
  LOCKSTEP_CHECK(num_nodes >= 1 && bytes > 0, "nodes={} bytes={}", num_nodes, bytes);
  if (nodes.devices_per_node * num_nodes <= 1) return {};
  std::vector<NcclChoice> choices;
  for (const size_t protocol : {kLl, kLl128, kSimple}) {
    choices.push_back(ring(nodes, collective, num_nodes, bytes, protocol));
    if (collective == Collective::kAllReduce) choices.push_back(tree(nodes, num_nodes, bytes, protocol));
  }
  return choices;
}

std::optional<NcclNodes> nccl_nodes_of(const Machine& machine) {
  if (machine.devices_per_node < 2) return std::nullopt;
  const auto holds = [&](const char* word) { return machine.device.find(word) != std::string::npos; };
  const bool is_hopper = holds("H100") || holds("H200");  // GH200, too
  if (!is_hopper && !holds("A100")) return std::nullopt;
  constexpr double kUsableShare = 0.96;  // NCCL takes 48 GB/s of a NIC of 400 Gbit/s
  const auto per_node = static_cast<double>(machine.devices_per_node);
  return NcclNodes{.family = is_hopper ? NcclNodes::kHopper : NcclNodes::kAmpere,
                   .has_amd_host = machine.has_amd_host,
                   .devices_per_node = per_node,
                   .num_channels = per_node,
                   .channel_gbytes_per_s = kUsableShare * machine.node_gbytes_per_s.value / per_node};
}

}  // namespace lockstep::predict
