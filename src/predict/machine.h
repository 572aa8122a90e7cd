#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/device_specs.h"

namespace lockstep::predict {

/// A number of a machine and where it is from.
struct Sourced {
  double value = 0;
  std::string source{};
};

/// How fast data arrive, where somebody told: no step is shorter than its samples take.
struct InputRates {
  std::optional<double> node_samples_per_s{};     ///< What the loaders of a node read, decode and batch.
  std::optional<double> storage_samples_per_s{};  ///< What storage gives all nodes together.
  bool is_known() const { return node_samples_per_s || storage_samples_per_s; }
  /// Of a step whose samples so many nodes read.
  double seconds(double samples, double nodes) const;
  /// Is it the nodes, not the storage, that limits?
  bool limits_by_node(double nodes) const {
    return node_samples_per_s && (!storage_samples_per_s || *node_samples_per_s * nodes <= *storage_samples_per_s);
  }
};

/// A system to predict for: one of the table (hw::system_specs) or of a user's file.
struct Machine {
  std::string name{}, device{}, fabric{};
  std::optional<int64_t> num_nodes{};
  int64_t devices_per_node = 1;
  Sourced node_gbytes_per_s{};    ///< Injection of a node into the network, per direction.
  Sourced link_gbytes_per_s{};    ///< Of a device to the others of its node, per direction.
  Sourced link_latency_us{};      ///< Of a small all-reduce between devices of a node.
  Sourced memory_gbytes{};        ///< Of a device.
  Sourced memory_tbytes_per_s{};  ///< Of a device.
  std::vector<hw::Peak> peaks{};  ///< Dense, of a device.
  std::string peak_source{};
  std::optional<int64_t> group_nodes{};                   ///< Nodes of the network's first group or island.
  Sourced network_efficiency{}, network_efficiency_sd{};  ///< Of collectives against the rate of the wires.
  Sourced node_watts{};                                   ///< Under training load.
  std::optional<int64_t> devices_at_a_time{};             ///< Of the whole machine: more ranks share them (cores).
  /// Rate of a device alone over its rate while all of the node (or all at a time) compute: of matrix products, and of
  /// the memory. Without a source nobody measured it, and they are taken not to disturb one another.
  Sourced product_contention{.value = 1}, memory_contention{.value = 1};
  InputRates input{};                  ///< Of the samples that are predicted for: told by flags, never by the table.
  bool has_amd_host = false;           ///< As NCCL's tuning asks; false where the host is not known.
  std::vector<std::string> remarks{};  ///< Faults and doubts that users should know.

  std::optional<double> peak_tflops(hw::ComputeType type) const;
};

/// The machine of a row of the table.
Machine machine_of(const hw::SystemSpec& system);

/// The same with the board that a text names where it is another of the system's chip: a "DGX A100 40GB".
Machine machine_of(const hw::SystemSpec& system, std::string_view text);

/// The device that a text names ("H100", "MI250X", "A100 40GB") in a node as such devices usually stand in: so many of
/// them, and the network cards that most sites give them. The network is a wide guess. Nothing where no device is
/// named.
std::optional<Machine> usual_machine_in(std::string_view text);

}  // namespace lockstep::predict
