#include "predict/layer_messages.h"

#include <algorithm>
#include <cmath>

namespace lockstep::predict {
namespace {

constexpr double kBytes = 2;                           // of a number in 16 bits
constexpr double kLinkShare = 0.8, kWireShare = 0.96;  // of the links in a node; of a network card
constexpr double kCall = 20e-6, kPeer = 1e-6;          // s, of a call and of each rank that it reaches
constexpr double kUsualKeyShare = 0.25;
// Attention as fused kernels run it: causal, backward two and a half times the forward pass; share of the peak.
constexpr double kBackwardAttention = 2.5, kAttentionShare = 0.4, kUnknownPeakTflops = 200;

/// Exchange of the blocks of a ring of context ranks, of which attention hides what runs beside it: all blocks but the
/// last are computed while the next one travels.
LayerMessages context_messages(const WorkFacts& work, const LayerShape& shape, const Machine& machine,
                               double devices_per_node, const DeviceTokens& step) {
  const auto ranks = static_cast<double>(work.cp), tensor_ranks = static_cast<double>(work.tp);
  const double bytes = context_bytes(shape, step.tokens, ranks);
  const double calls = 3 * (ranks - 1) * shape.layers / static_cast<double>(work.pp) * step.num_micro;
  LayerMessages all{.link_s = calls * kCall};
  if (tensor_ranks * ranks <= devices_per_node)
    all.link_s += bytes / (machine.link_gbytes_per_s.value * 1e9 * kLinkShare);
  else  // as many rings as tensor ranks leave a node side by side
    all.wire_s = bytes * std::min(tensor_ranks, devices_per_node) / (machine.node_gbytes_per_s.value * 1e9);
  const double peak = machine.peak_tflops(hw::ComputeType::kBf16).value_or(kUnknownPeakTflops) * 1e12;
  const double attention_s = (1 + kBackwardAttention) * 2 * step.tokens * step.sequence * shape.layers * shape.hidden /
                             (peak * kAttentionShare);
  const double window_s = attention_s * (ranks - 1) / ranks;
  const double total_s = all.link_s + all.wire_s / (kWireShare * std::max(0.01, machine.network_efficiency.value));
  const double shown = total_s > 0 ? std::max(0.0, total_s - window_s) / total_s : 0;
  return {all.link_s * shown, all.wire_s * shown};
}

/// The exchange of tokens of expert ranks, each of which sends as much to every other one.
LayerMessages expert_messages(const WorkFacts& work, const LayerShape& shape, const Machine& machine,
                              double devices_per_node, const DeviceTokens& step) {
  const auto ranks = static_cast<double>(work.ep);
  const double in_node = std::clamp(std::floor(devices_per_node / static_cast<double>(work.tp)), 1.0, ranks);
  const double bytes = expert_bytes(shape, work.experts_of_a_token(), step.tokens, ranks);
  const double calls = 4 * shape.layers / static_cast<double>(work.pp) * step.num_micro;
  const double link_bytes = bytes * (in_node - 1) / (ranks - 1), wire_bytes = bytes - link_bytes;
  return {calls * (kCall + (ranks - 1) * kPeer) + link_bytes / (machine.link_gbytes_per_s.value * 1e9 * kLinkShare),
          wire_bytes * devices_per_node / (machine.node_gbytes_per_s.value * 1e9)};
}

}  // namespace

std::optional<LayerShape> layer_shape(const WorkFacts& work) {
  if (!work.parameters && !(work.layers && work.hidden)) return std::nullopt;
  constexpr double kParametersPerLayer = 12;  // of hidden squared
  LayerShape shape{.layers = work.layers ? static_cast<double>(*work.layers) : usual_layers(work.active())};
  shape.hidden =
      work.hidden ? static_cast<double>(*work.hidden) : std::sqrt(work.active() / (kParametersPerLayer * shape.layers));
  shape.key_width = work.key_width ? static_cast<double>(*work.key_width) : kUsualKeyShare * shape.hidden;
  return shape;
}

double expert_bytes(const LayerShape& shape, double top_k, double tokens, double expert_ranks) {
  constexpr double kExchanges = 4;
  return kExchanges * top_k * tokens * shape.layers * shape.hidden * kBytes * (expert_ranks - 1) / expert_ranks;
}

double context_bytes(const LayerShape& shape, double tokens, double context_ranks) {
  constexpr double kPasses = 3, kKeysAndValues = 2;
  return kPasses * kKeysAndValues * tokens * shape.layers * shape.key_width * kBytes * (context_ranks - 1);
}

LayerMessages layer_messages(const WorkFacts& work, const Machine& machine, double devices_per_node,
                             const DeviceTokens& step) {
  const auto shape = layer_shape(work);
  if (!shape || step.tokens <= 0) return {};
  LayerMessages sum;
  const auto add = [&](const LayerMessages& one) { sum.link_s += one.link_s, sum.wire_s += one.wire_s; };
  if (work.cp > 1) add(context_messages(work, *shape, machine, devices_per_node, step));
  if (work.ep > 1) add(expert_messages(work, *shape, machine, devices_per_node, step));
  return sum;
}

}  // namespace lockstep::predict
