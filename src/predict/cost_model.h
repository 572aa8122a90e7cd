#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::predict {

/// Expected largest of n independent standard normal values (Blom's approximation, within 2 % from n = 3; 0 for n = 1).
double expected_normal_max(double n);

/// What is not known before anything is measured. Every one is a standard normal number before calibration; the names
/// say what it moves.
enum Latent : size_t {
  kNetworkEfficiency,
  kLatencyScale,
  kHiddenShare,
  kJitter,
  kGrowth,
  kGrowthShape,
  kGrowthPerWork,
  kNoise,
  kGradientBytes,
  kFixedShare,
  kNumCommonLatents,  ///< Those above are of every curve, those below of curves whose setting asks for them.
  kContention = kNumCommonLatents,
  kVirtualStages,
  kNumTableLatents,  ///< Those below are of recipes on machines whose contention was measured.
  kProductContention = kNumTableLatents,
  kMemoryContention,
  kPrecisionRatio,  ///< Of sizes in another precision than what was measured.
  kNumLatents
};
using Latents = std::array<double, kNumLatents>;
std::string_view latent_name(Latent latent);

/// How many times slower a device is than alone, while the others of its node compute.
struct Contention {
  double measured = 1;  ///< With all of them.
  double log_sd = 0;    ///< How badly what is above 1 of that is known; 0: exactly.
  double most = 1;      ///< Devices that take turns are no slower.
  /// With all of them, as a latent says: above 1 and below `most`.
  double with_all(double latent) const;
  /// Where `crowding` of the others compute: as measured, and as a latent says.
  double slowdown(double crowding) const { return 1 + (measured - 1) * crowding; }
  double slowdown(double crowding, double latent) const { return 1 + (with_all(latent) - 1) * crowding; }
};

/// What plan and machine say of a training step, in seconds of the curve's clock. Durations are those at nominal rates.
struct Setting {
  double clock_s = 1;  ///< Seconds of one unit of the clock; about, where they are not known.
  double devices_per_node = 8;
  double replica_devices = 1;  ///< Devices that hold one copy of the model together.
  double inter_s = 0;          ///< All gradient traffic of a device between nodes, without the factor (k - 1) / k.
  double intra_s = 0;          ///< The same inside a node.
  double latency_s = 0;        ///< Of all gradient collectives of a step, per doubling of the nodes.
  double ring_latency_s = 0;   ///< The same per data rank, where rings alone serve: sharded parameters.
  std::optional<double> ring_ranks{};  ///< Data ranks that one ring joins, where groups of them hold a copy each.
  double between_rings_s = 0;          ///< All-reduce between such groups, without the factor (c - 1) / c of c.
  /// As inter_s, of experts that ranks share, if a rank held all of them.
  double expert_s = 0;
  double window_share = 0.6;                       ///< Of compute, under which this traffic can run: the backward pass.
  double hidden_logit = 1.4, hidden_logit_sd = 2;  ///< Prior of the share of this traffic that the window hides.
  double gather_s = 0;                  ///< Traffic of a contrastive loss's features to and from each other node.
  double gather_hop_s = 0;              ///< Latency of the same for each other device.
  double logits_s = 0;                  ///< Of a contrastive loss, for each node whose features they compare.
  std::vector<double> bucket_shares{};  ///< Of the gradients, in the order of backward; empty: not known.
  double window_micro = 1;          ///< Gradients travel during the backward pass of the last of so many micro-batches.
  std::optional<double> fixed_s{};  ///< Of every step whatever its work: update, host. Default: a share of the step.
  double update_s = 0;              ///< The part of it that updates the parameters, by ranks that update all of them.
  double traffic_log_sd = 0.3;      ///< How well traffic and logits are known.
  double network_efficiency = 0.85, network_efficiency_sd = 0.12;
  double noise = 0.008;     ///< Prior median of the relative standard deviation of a measured step.
  double jitter_scale = 1;  ///< Jitter against that of a dedicated machine.
  /// Prior median of what no term explains, as a share of a step of at most 2 s: of one with so much compute of a
  /// device, against the reference size. Without it, where nothing is measured, each size's own step.
  double growth_per_doubling = 0.004;
  std::optional<double> growth_work = 1.0;
  /// Prior median of what a full node loses beside one device alone that no traffic explains, as a share of the
  /// reference step: devices share memory, buses, power and the host. 0: the curve has no part of a node.
  double contention = 0;
  Contention product_contention{}, memory_contention{};  ///< Of a recipe's steps; of the kinds of compute in a Size.
  bool are_virtual_stages_known = true;                  ///< Else bubbles may be parts of those given.
  double waited_s = 0;                                   ///< Of compute at the reference size: measured waits for data.
  double group_nodes = 0;  ///< Nodes of the network's first group or island; 0: not known.
  bool has_doubted_contention() const { return product_contention.log_sd > 0 || memory_contention.log_sd > 0; }
};

/// A way to run a collective, by its nominal rates.
struct CallWay {
  double latency_s = 0;
  double bytes_s = 0;  ///< At 96 % of the wires' rate, or what the protocol allows.
};

/// Equal collectives of a step's gradients, run by whichever way is the fastest.
struct GradientCalls {
  double count = 1;
  std::vector<CallWay> ways{};
  double link_s = 0;  ///< The least that the links inside a node take.
};

/// A size at which a step is asked for.
struct Size {
  double nodes = 1;  ///< May be below 1: a part of a node.
  double devices = 1;
  double work = 1;     ///< Useful work of a device, against the reference size.
  double samples = 1;  ///< Of a device, against those whose features the setting's gather is of.
  /// Compute over work: 2 where two ranks share a core; above 1 where tensor ranks repeat what they could share.
  double compute_per_work = 1;
  double crowding = 0;  ///< Others that compute beside a device, of all others of its node.
  /// Of compute: what contention of products, and of memory, makes slower. The rest knows none.
  double product_share = 0, memory_share = 0;
  double product_log_sd = 0;  ///< How badly the time of the products is known against that of the reference size.
  double bubble = 0;          ///< Idle time of the pipeline over its work.
  double traffic = 1;         ///< Passes of gradient traffic, against the setting's.
  /// All collectives of one pass of gradient traffic; empty: the setting's traffic and latency.
  std::vector<GradientCalls> gradient_calls{};
  std::optional<double> window_micro{};  ///< See Setting::window_micro, the default.
  double layers_s = 0;                   ///< Collectives inside layers and pipeline messages that nothing hides.
  double layers_wire_s = 0;              ///< The part of them between nodes, at the rate of the wires.
  double input_s = 0;       ///< What reading the samples takes beside all else, the least of a step; 0: not known.
  double expert_ranks = 1;  ///< Data ranks that share the experts.
  double update_ranks = 1;  ///< Data ranks that share the update of the parameters.
  double compute() const { return work * compute_per_work; }  ///< With contentions as they were measured.
};

/// Where the time of a step goes, in seconds.
enum Part : size_t { kCompute, kBubble, kSkew, kLayers, kGradients, kGather, kFixed, kInput, kUnexplained, kNumParts };
using Parts = std::array<double, kNumParts>;
std::string_view part_name(Part part);

/// The time of a step as `scaled * compute_s + constant()`: compute_s is the work of a device at the reference size.
struct Terms {
  double scaled = 1;  ///< compute x (1 + bubble) x (1 + jitter x expected maximum).
  Parts parts{};      ///< kCompute, kBubble and kSkew per second of compute; the others in seconds.
  double constant() const {
    return parts[kLayers] + parts[kGradients] + parts[kGather] + parts[kFixed] + parts[kUnexplained];
  }
};

/// Terms of a step at the sizes given to the constructor. docs/predict.md has the equations.
class CostModel {
 public:
  /// `reference_step_s`: about the step at work 1; scales what the prior states in shares.
  CostModel(const Setting& setting, double reference_step_s, std::span<const Size> sizes);
  size_t num_sizes() const { return sizes_.size(); }
  Terms terms(const Latents& latents, size_t size) const;
  /// Standard deviation of single measurements, relative.
  double noise(const Latents& latents) const;

 private:
  struct Prepared {
    Size size;
    double num_groups = 1;    ///< Replicas or nodes, whichever is larger: what collectives span.
    double ring_share = 0;    ///< (k - 1) / k of the k data ranks of a ring.
    double copy_share = 0;    ///< The same of such rings.
    double expert_share = 0;  ///< Of the experts' traffic between nodes.
    double num_hops = 0;      ///< k - 1, bounded
    double node_share = 0;    ///< Of the contention of a full node.
    double expected_max = 0;
  };
  Setting setting_;
  double reference_step_s_;
  std::vector<Prepared> sizes_;
};

}  // namespace lockstep::predict
