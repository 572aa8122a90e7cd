#include "predict/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/csv_table.h"
#include "core/strings.h"

namespace lockstep::predict {
namespace {

constexpr double kUnknownLinkGbytes = 25;  // PCIe generation 4, usable
constexpr double kLinkLatencyUs = 10;
constexpr double kUnknownDeviceWatts = 500;
constexpr double kHostWatts = 550, kBoardShare = 0.8;  // 300 to 800 W a host; boards at 70 to 90 % of their limit
constexpr double kWattsBesideProcessors = 150;         // memory, network card and fans of a node without boards

/// What collectives reach of the wires' rate before anything is measured: by the kind of network.
struct FabricPrior {
  std::string_view word;
  double mean, sd;
  std::string_view source;
};
constexpr FabricPrior kFabrics[] = {
    {"slingshot", 0.5, 0.25, "prior for Slingshot: collectives of AMD and of plugins vary widely"},
    {"dragonfly", 0.8, 0.15, "prior for Dragonfly networks"},
    {"fat tree", 0.9, 0.08, "prior for fat trees"},
};

/// Nodes that devices mostly stand in, and what their network cards give each of them: 400 Gbit/s since the H100, 200
/// with the A100, four cards a node of four; modules and older boards share cards.
struct UsualNode {
  std::string_view word;
  std::string_view device;  ///< Of hw::device_specs().
  int devices_per_node;
  double gbytes_per_device;
};
constexpr UsualNode kUsualNodes[] = {{"gb200", "GB200", 4, 50},
                                     {"b200", "B200", 8, 50},
                                     {"gh200", "GH200 96GB", 4, 25},
                                     {"h200", "H200", 8, 50},
                                     {"h100", "H100 SXM 80GB", 8, 50},
                                     {"h800", "H100 SXM 80GB", 8, 50},
                                     {"a100", "A100 SXM 80GB", 8, 25},
                                     {"a800", "A100 SXM 80GB", 8, 25},
                                     {"v100", "V100 SXM2 32GB", 8, 6.25},
                                     {"p100", "P100 SXM2 16GB", 8, 6.25},
                                     {"pascal", "P100 SXM2 16GB", 4, 3.125},
                                     {"mi300x", "MI300X", 8, 50},
                                     {"mi250x", "MI250X GCD", 8, 12.5},
                                     {"mi250", "MI250X GCD", 8, 12.5},
                                     {"dgx2h", "V100 SXM2 32GB", 16, 6.25},
                                     {"dgx2", "V100 SXM2 32GB", 16, 6.25},
                                     {"dgx1v", "V100 SXM2 32GB", 8, 6.25}};
constexpr double kUsualNetworkLogSd = 0.5;  // clouds give a quarter of it, some sites twice as much

/// Where the word stands with no letter or digit beside it, but for what belongs to a board's name: "A100-80GB",
/// "8xH100".
size_t find_device_word(const std::string& lower, std::string_view word, size_t from = 0) {
  for (size_t at = from; (at = lower.find(word, at)) != std::string::npos; ++at) {
    const auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    const bool begins = at == 0 || !is_part(lower[at - 1]) || lower[at - 1] == 'x';
    const size_t end = at + word.size();
    if (begins && (end == lower.size() || !is_part(lower[end]) || lower[end] == 's')) return at;
  }
  return std::string::npos;
}

/// GB of the words "80gb" or "80", "gb" at `at`.
std::optional<double> gbytes_at(const std::vector<std::string>& words, size_t at) {
  if (at >= words.size()) return std::nullopt;
  std::string number = words[at];
  if (core::ends_with(number, "gb"))
    number.resize(number.size() - 2);
  else if (at + 1 == words.size() || words[at + 1] != "gb")
    return std::nullopt;
  return core::parse_double(number);
}

/// The board of a chip that a text means, as what stands beside the chip's name tells its memory and its bus: "A100 SXM
/// 40GB", "a100_40gb", "40 GB A100", "V100-PCIE-16GB"; `usual` where that tells none of the table.
std::string_view board_in(const std::string& lower, size_t begin, std::string_view word, std::string_view usual) {
  constexpr std::string_view kBetween[] = {"sxm",  "sxm2",  "sxm3", "sxm4", "sxm5",   "s",     "gpu", "gpus",
                                           "hbm2", "hbm2e", "hbm3", "pcie", "tensor", "cores", "core"};
  const auto words_of = [](const std::string& text) { return core::split(core::plain_name(text), "_"); };
  const size_t end = begin + word.size();
  const std::vector<std::string> behind = words_of(lower.substr(end, lower.find_first_of(",;|", end) - end));
  size_t at = 0;
  bool is_pcie = false;
  for (; at < behind.size() && std::find(std::begin(kBetween), std::end(kBetween), behind[at]) != std::end(kBetween);
       ++at)
    is_pcie = is_pcie || behind[at] == "pcie";
  auto told = gbytes_at(behind, at);
  const size_t phrase = lower.find_last_of(",;|", begin) + 1;  // npos + 1 is 0
  const std::vector<std::string> before = words_of(lower.substr(phrase, begin - phrase));
  if (!told && !before.empty())
    told = gbytes_at(before, before.size() - (before.back() == "gb" && before.size() > 1 ? 2 : 1));
  is_pcie = is_pcie || (told && at + 1 < behind.size() && behind[at + 1] == "pcie");
  const auto chip_of = [](std::string_view board) { return board.substr(0, board.find(' ')); };
  if (!told && !is_pcie) return usual;
  for (const hw::DeviceSpec& spec : hw::device_specs())
    if (chip_of(spec.name) == chip_of(usual) && (spec.name.find("PCIe") != std::string_view::npos) == is_pcie &&
        (!told || spec.memory_gbytes == *told))
      return spec.name;
  return usual;
}
}  // namespace

std::optional<Machine> usual_machine_in(std::string_view text) {
  std::string lower = core::to_lower_ascii(text);
  for (const char* parted : {"dgx-", "dgx "}) lower = core::replace_all(lower, parted, "dgx");
  for (const UsualNode& node : kUsualNodes) {
    const size_t at = find_device_word(lower, node.word);
    if (at == std::string::npos) continue;
    const std::string_view board = board_in(lower, at, node.word, node.device);
    const hw::SystemSpec system{.name = board,
                                .devices_per_node = node.devices_per_node,
                                .device = board,
                                .injection_gbytes_per_s = node.devices_per_node * node.gbytes_per_device};
    Machine machine = machine_of(system);
    const std::string source = "usual for such nodes";
    machine.num_nodes.reset();
    machine.remarks.clear();  // on boards that nobody named
    machine.node_gbytes_per_s.source = source;
    machine.network_efficiency_sd = {kUsualNetworkLogSd * machine.network_efficiency.value, source};
    return machine;
  }
  return std::nullopt;
}

Machine machine_of(const hw::SystemSpec& system, std::string_view text) {
  const std::string lower = core::to_lower_ascii(text), board = core::to_lower_ascii(system.device),
                    chip = board.substr(0, board.find(' '));
  for (size_t at = 0; (at = find_device_word(lower, chip, at)) != std::string::npos; at += chip.size()) {
    hw::SystemSpec named = system;
    named.device = board_in(lower, at, chip, system.device);
    if (named.device == system.device) continue;
    Machine machine = machine_of(named);
    machine.name += fmt::format(" with {}", named.device);
    return machine;
  }
  return machine_of(system);
}

double InputRates::seconds(double samples, double nodes) const {
  double seconds = 0;
  if (node_samples_per_s) seconds = samples / (*node_samples_per_s * nodes);
  if (storage_samples_per_s) seconds = std::max(seconds, samples / *storage_samples_per_s);
  return seconds;
}

std::optional<double> Machine::peak_tflops(hw::ComputeType type) const {
  for (const hw::Peak& peak : peaks)
    if (peak.type == type) return peak.tflops;
  return std::nullopt;
}

Machine machine_of(const hw::SystemSpec& system) {
  const hw::DeviceSpec& device = hw::device_of(system);
  const std::string row = fmt::format("table of systems, {}", system.name),
                    board = fmt::format("table of devices, {}", device.name);
  Machine machine{.name = std::string(system.name),
                  .device = std::string(device.name),
                  .fabric = std::string(system.fabric),
                  .num_nodes = system.num_nodes,
                  .devices_per_node = system.devices_per_node,
                  .node_gbytes_per_s = {system.injection_gbytes_per_s, row},
                  .link_gbytes_per_s = {device.link_gbytes_per_s.value_or(kUnknownLinkGbytes),
                                        device.link_gbytes_per_s ? board : "not known: PCIe generation 4 taken"},
                  .link_latency_us = {kLinkLatencyUs, "prior for a small collective inside a node"},
                  .memory_gbytes = {device.memory_gbytes, board},
                  .memory_tbytes_per_s = {device.memory_tbytes_per_s.value_or(0), board},
                  .peaks = device.peaks,
                  .peak_source = std::string(device.source),
                  .group_nodes = system.nodes_per_group,
                  .network_efficiency = {0.8, "prior for a network that is not known"},
                  .network_efficiency_sd = {0.2, "prior for a network that is not known"}};
  std::string fabric = core::replace_all(core::to_lower_ascii(system.fabric), "-", " ");
  fabric = core::replace_all(fabric, "fattree", "fat tree");
  for (const FabricPrior& prior : kFabrics)
    if (fabric.find(prior.word) != std::string::npos) {
      machine.network_efficiency = {prior.mean, std::string(prior.source)};
      machine.network_efficiency_sd = {prior.sd, std::string(prior.source)};
      break;
    }
  const double beside_w = device.is_processor ? kWattsBesideProcessors : kHostWatts;
  const auto limit_w = hw::device_watts(system);
  const double device_w = limit_w.value_or(device.board_watts.value_or(kUnknownDeviceWatts));
  machine.node_watts = {
      static_cast<double>(system.devices_per_node) * device_w * kBoardShare + beside_w,
      fmt::format("{:.0f} % of {:.0f} W a {}{} and {:.0f} W for {}", 100 * kBoardShare, device_w,
                  device.is_processor ? "node of processors" : "board", limit_w ? ", the limit of this system," : "",
                  beside_w, device.is_processor ? "the rest" : "the host")};
  machine.has_amd_host = system.host.find("EPYC") != std::string_view::npos;
  for (const std::string_view remark : {device.trap, system.remark})
    if (!remark.empty()) machine.remarks.emplace_back(remark);
  if (limit_w) machine.remarks.push_back(fmt::format("{:.0f} W a module, processor included", *limit_w));
  if (!device.is_certain) machine.remarks.push_back(fmt::format("the peak is not certain: {}", device.source));
  if (device.name.find("GCD") != std::string_view::npos)
    machine.remarks.emplace_back("a row of devices per node counts GCDs, half modules");
  return machine;
}

}  // namespace lockstep::predict
