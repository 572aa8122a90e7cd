#include "predict/cost_model.h"

#include <algorithm>
#include <cmath>

#include "predict/bucket_overlap.h"
#include "stats/distributions.h"

namespace lockstep::predict {
namespace {

// Priors. docs/predict.md states them, where each comes from, and which were changed after a comparison with a table.
constexpr double kLatencyMedian = 1.3, kLatencyLogSd = 0.4;
constexpr double kJitterMedian = 0.01, kJitterLogSd = 0.6;
constexpr double kGrowthLogSd = 1.0;
constexpr double kShapeLogitSd = 1.2;    // exponent 0 (logarithm) to 1 (linear), median 0.5
constexpr double kPerWorkLogitSd = 1.5;  // 0: seconds stay; 1: they shrink with the work of a device
// What a step of more seconds than these does in them is done again and again, with no more synchronisations: jitter
// averages over that, and unexplained seconds grow slower than the step. Published weak scaling loses 2 to 20 % a
// doubling of the nodes in steps below half a second, about 1 % in steps of more than two.
constexpr double kLongStep = 2;
constexpr double kNoiseLogSd = 0.8;
constexpr double kFixedMedian = 0.02, kFixedLogSd = 1.0;
constexpr double kContentionLogSd = 1.5;   // a tenth of it to ten times as much
constexpr double kLeastContention = 0.02;  // above 1, of a measured one
constexpr double kVirtualLogSd = 1.0;      // one stage at 0; 2 and more beyond 0.7 on either side
// Rings of thousands of ranks are not built: large jobs shard within groups, whether they tell it or not.
constexpr double kLongRing = 512;
constexpr double kLinkEfficiency = 0.8, kWireEfficiency = 0.96;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Growth from 1 to `groups`, in units of that of the first doubling: between a logarithm and a line.
double growth(double groups, double exponent) {
  return groups <= 1 ? 0 : std::expm1(exponent * std::log(groups)) / std::expm1(exponent * std::log(2.0));
}

/// What so many devices of a node lose, against all of them: as the traffic of a ring. Published curves inside a node
/// lose about half of it from one device to two.
double node_share(double devices, double devices_per_node) {
  if (devices_per_node <= 1) return 0;
  return (1 - 1 / std::min(devices, devices_per_node)) / (1 - 1 / devices_per_node);
}

/// Compute over that with contentions as they were measured and the expected rate of the precision.
double slowdown(const Setting& setting, const Size& size, const Latents& z) {
  const auto ratio = [&](const Contention& contention, Latent latent) {
    return contention.slowdown(size.crowding, z[latent]) / contention.slowdown(size.crowding);
  };
  const double products =
      ratio(setting.product_contention, kProductContention) * std::exp(size.product_log_sd * z[kPrecisionRatio]);
  return 1 + size.product_share * (products - 1) +
         size.memory_share * (ratio(setting.memory_contention, kMemoryContention) - 1);
}

/// Collectives one after another. Each way gets faster with every rate, and so does the fastest of them.
double calls_s(std::span<const GradientCalls> all, double latency_scale, double traffic, double efficiency) {
  double sum_s = 0;
  for (const GradientCalls& calls : all) {
    double fastest_s = HUGE_VAL;
    for (const CallWay& way : calls.ways)
      fastest_s = std::min(fastest_s, latency_scale * way.latency_s +
                                          traffic * std::max(way.bytes_s / efficiency, calls.link_s / kLinkEfficiency));
    sum_s += calls.count * fastest_s;
  }
  return sum_s;
}

/// Gradients that no overlap can hide.
double least_exposed(std::span<const double> bucket_shares, double gradients_s, double window_s) {
  return bucket_shares.empty() ? gradients_s - window_s : play_buckets(bucket_shares, gradients_s, window_s);
}
}  // namespace

double expected_normal_max(double n) { return n <= 1 ? 0 : stats::normal_quantile((n - 0.375) / (n + 0.25)); }

std::string_view latent_name(Latent latent) {
  constexpr std::array<std::string_view, kNumLatents> kNames{"network efficiency",        "latency",
                                                             "hidden share of gradients", "jitter between devices",
                                                             "unexplained growth",        "shape of growth",
                                                             "growth with work",          "noise of measurements",
                                                             "gradient traffic",          "fixed time a step",
                                                             "contention in a node",      "virtual stages",
                                                             "contention of products",    "contention of memory",
                                                             "rate of another precision"};
  return kNames.at(latent);
}

std::string_view part_name(Part part) {
  constexpr std::array<std::string_view, kNumParts> kNames{"compute", "bubble", "skew",  "layers",     "gradients",
                                                           "gather",  "fixed",  "input", "unexplained"};
  return kNames.at(part);
}

CostModel::CostModel(const Setting& setting, double reference_step_s, std::span<const Size> sizes)
    : setting_(setting), reference_step_s_(reference_step_s) {
  for (const Size& size : sizes) {
    const double replicas = std::max(1.0, size.devices / setting.replica_devices);
    // A replica that spans nodes makes its nodes one group; several replicas of a node are one group, too.
    const double nodes_per_group = std::max(1.0, setting.replica_devices / setting.devices_per_node);
    const double ring = std::min(replicas, setting.ring_ranks.value_or(replicas));
    const double ranks_of_node = std::max(1.0, setting.devices_per_node / setting.replica_devices);
    sizes_.push_back({.size = size,
                      .num_groups = std::max(1.0, size.nodes / nodes_per_group),
                      .ring_share = (ring - 1) / ring,
                      .copy_share = (replicas - ring) / replicas,
                      // A node sends each of its experts once; every expert rank has copies of its own to agree with.
                      .expert_share = std::min(1.0, ranks_of_node / size.expert_ranks) *
                                      std::max(0.0, replicas - size.expert_ranks) / replicas,
                      .num_hops = (ring - 1) / (1 + (ring - 1) / kLongRing),
                      .node_share = node_share(size.devices, setting.devices_per_node),
                      .expected_max = expected_normal_max(size.devices)});
  }
}

double Contention::with_all(double latent) const {
  constexpr double kFarthest = 8;
  if (log_sd == 0) return measured;
  // Of a log-normal law of what is above 1 the part below `most`.
  const double median = std::max(kLeastContention, measured - 1);
  const double share = stats::normal_cdf(std::clamp(latent, -kFarthest, kFarthest)) *
                       stats::normal_cdf(std::log((most - 1) / median) / log_sd);
  return 1 + median * std::exp(log_sd * stats::normal_quantile(share));
}

double CostModel::noise(const Latents& latents) const {
  return setting_.noise * std::exp(kNoiseLogSd * latents[kNoise]);
}

Terms CostModel::terms(const Latents& z, size_t index) const {
  const Prepared& at = sizes_.at(index);
  const double work = at.size.compute() * slowdown(setting_, at.size, z),
               traffic = std::exp(setting_.traffic_log_sd * z[kGradientBytes]);
  const double efficiency = setting_.network_efficiency * std::exp(setting_.network_efficiency_sd /
                                                                   setting_.network_efficiency * z[kNetworkEfficiency]);
  const double delivered = kWireEfficiency * efficiency;  // of the wires' rate
  const double growth_work = setting_.growth_work.value_or(work), growth_step_s = reference_step_s_ * growth_work;
  const double growth_lengths = std::max(1.0, growth_step_s * setting_.clock_s / kLongStep);
  const double lengths = std::max(1.0, reference_step_s_ * setting_.clock_s * work / kLongStep);
  const double jitter =
      setting_.jitter_scale * kJitterMedian * std::exp(kJitterLogSd * z[kJitter]) / std::sqrt(lengths);
  // A ring over several nodes crosses the links inside each of them, too.
  const double wires_s =
      (at.num_groups > 1 ? at.ring_share * setting_.inter_s + at.expert_share * setting_.expert_s : 0) +
      at.copy_share * setting_.between_rings_s;
  const double bytes_s = std::max(wires_s / delivered, at.ring_share * setting_.intra_s / kLinkEfficiency);
  const double latency_scale = kLatencyMedian * std::exp(kLatencyLogSd * z[kLatencyScale]);
  const double gradients =
      at.size.traffic * (at.size.gradient_calls.empty()
                             ? bytes_s * traffic + latency_scale * (setting_.latency_s * std::log2(at.num_groups) +
                                                                    setting_.ring_latency_s * at.num_hops)
                             : calls_s(at.size.gradient_calls, latency_scale, traffic, efficiency));
  const double hidden = logistic(setting_.hidden_logit + setting_.hidden_logit_sd * z[kHiddenShare]);
  const double window =
      setting_.window_share * reference_step_s_ * work / at.size.window_micro.value_or(setting_.window_micro);
  const double shape = std::max(0.02, logistic(kShapeLogitSd * z[kGrowthShape]));
  const double per_work = logistic(kPerWorkLogitSd * z[kGrowthPerWork]);
  const double bubble =
      at.size.bubble *
      (setting_.are_virtual_stages_known ? 1 : std::exp(-kVirtualLogSd * std::fabs(z[kVirtualStages])));
  Terms terms;
  terms.parts[kCompute] = work;
  terms.parts[kBubble] = work * bubble;
  terms.parts[kSkew] = work * (1 + bubble) * jitter * at.expected_max;
  terms.scaled = terms.parts[kCompute] + terms.parts[kBubble] + terms.parts[kSkew];
  terms.parts[kGradients] =
      std::max((1 - hidden) * gradients, least_exposed(setting_.bucket_shares, gradients, window));
  terms.parts[kLayers] = (at.size.layers_s + at.size.layers_wire_s / delivered) * traffic;
  // A device compares its samples with those of all: as many logits as the square of them for each node.
  const double logits_s = setting_.logits_s * at.size.samples * at.size.samples * at.size.nodes,
               gather_s = setting_.gather_s * at.size.samples * std::max(0.0, at.size.nodes - 1) / delivered;
  terms.parts[kGather] =
      traffic * (logits_s + gather_s) + latency_scale * setting_.gather_hop_s * (at.size.devices - 1);
  terms.parts[kFixed] = (setting_.fixed_s.value_or(reference_step_s_ * kFixedMedian) -
                         setting_.update_s * (1 - 1 / at.size.update_ranks)) *
                        std::exp(kFixedLogSd * z[kFixedShare]);
  terms.parts[kUnexplained] = setting_.growth_per_doubling * std::exp(kGrowthLogSd * z[kGrowth]) * growth_step_s *
                              std::pow(growth_lengths, per_work - 1) * std::pow(work / growth_work, per_work) *
                              growth(at.num_groups, shape);
  terms.parts[kUnexplained] += setting_.contention * std::exp(kContentionLogSd * z[kContention]) * reference_step_s_ *
                               std::pow(work, per_work) * at.node_share;
  return terms;
}

}  // namespace lockstep::predict
