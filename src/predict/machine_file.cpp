#include "predict/machine_file.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "core/csv_table.h"
#include "core/error.h"
#include "core/error_lines.h"
#include "core/files.h"
#include "core/options.h"
#include "core/strings.h"

namespace lockstep::predict {
namespace {

constexpr const char* kKeysHint = "docs/predict.md lists the keys of a system file";

/// The keys of a system file.
struct MachineKeys {
  std::string name, device, fabric, source;
  std::optional<int64_t> num_nodes, devices_per_node, num_nics, group_nodes, devices_at_a_time;
  std::optional<double> nic_gbits_per_s, node_gbytes_per_s, link_gbytes_per_s, link_latency_us;
  std::optional<double> memory_gbytes, memory_tbytes_per_s, product_contention, memory_contention;
  std::optional<double> peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8;
  std::optional<double> network_efficiency, network_efficiency_sd, node_watts;
  bool has_network() const { return node_gbytes_per_s || num_nics; }
};

core::OptionSet declare_keys(MachineKeys& keys) {
  core::OptionSet set("system file", "A system to predict for.");
  set.add("name", &keys.name, {.help = "What the system is called."});
  set.add("device", &keys.device, {.help = "A device of the table; fills what is not given."});
  set.add("fabric", &keys.fabric, {.help = "Network: fat tree, Dragonfly, Slingshot."});
  set.add("source", &keys.source, {.help = "Where the numbers are from."});
  const auto add_count = [&](const char* name, std::optional<int64_t>& field, double most) {
    set.add(name, &field, {.help = "A count.", .min = 1, .max = most});
  };
  add_count("num-nodes", keys.num_nodes, 1e6);
  add_count("devices-per-node", keys.devices_per_node, 1024);
  add_count("devices-at-a-time", keys.devices_at_a_time, 1e6);
  add_count("num-nics", keys.num_nics, 64);
  add_count("group-nodes", keys.group_nodes, 1e6);
  constexpr double kLeast = 1e-6;  // of any unit here; seconds of a step stay numbers
  const auto add = [&](const char* name, std::optional<double>& field, const char* unit, double most) {
    set.add(name, &field, {.help = "A rate or size.", .unit = unit, .min = kLeast, .max = most});
  };
  add("nic-gbits-per-s", keys.nic_gbits_per_s, "Gbit/s of one NIC and direction", 10000);
  add("node-gbytes-per-s", keys.node_gbytes_per_s, "GB/s of a node and direction", 10000);
  add("link-gbytes-per-s", keys.link_gbytes_per_s, "GB/s of a device and direction", 10000);
  add("link-latency-us", keys.link_latency_us, "us of a small all-reduce in a node", 1e6);
  add("memory-gbytes", keys.memory_gbytes, "GB of a device", 10000);
  add("memory-tbytes-per-s", keys.memory_tbytes_per_s, "TB/s of a device", 1000);
  for (const auto& [name, field] :
       {std::pair{"product-contention", &keys.product_contention}, {"memory-contention", &keys.memory_contention}})
    set.add(name, field,
            {.help = "Rate of a device alone over that while all compute.", .unit = "ratio", .min = 1, .max = 100});
  add("peak-fp32-tflops", keys.peak_fp32, "TFLOP/s, dense", 1e6);
  add("peak-tf32-tflops", keys.peak_tf32, "TFLOP/s, dense", 1e6);
  add("peak-fp16-tflops", keys.peak_fp16, "TFLOP/s, dense", 1e6);
  add("peak-bf16-tflops", keys.peak_bf16, "TFLOP/s, dense", 1e6);
  add("peak-fp8-tflops", keys.peak_fp8, "TFLOP/s, dense", 1e6);
  add("network-efficiency", keys.network_efficiency, "share, 0 to 1", 1);
  add("network-efficiency-sd", keys.network_efficiency_sd, "share, 0 to 1", 1);
  add("node-watts", keys.node_watts, "W under training load", 1e6);
  return set;
}

/// A hint on a recipe's line, for a system file: its keys are no flags, and no command's help lists them.
std::string key_hint(std::string hint) {
  if (core::starts_with(hint, "a recipe has lines"))
    return fmt::format("a system file has lines such as 'devices-per-node = 4' and 'name = \"mine\"'; {}", kKeysHint);
  hint = core::replace_all(std::move(hint), "`lockstep system file --help` lists every flag", kKeysHint);
  if (core::starts_with(hint, "--")) hint.erase(0, 2);
  return core::replace_all(std::move(hint), " --", " ");
}

/// Sets the keys; errors are those of recipes with the hints of system files.
void apply_keys(core::OptionSet& set, std::string_view text, const std::string& path) {
  constexpr std::string_view kHint = "    hint: ";  // of each of several errors
  try {
    set.apply_recipe(text, path);
  } catch (const ErrorOfLines<UsageError>& error) {
    std::vector<std::string> lines = core::split(error.what(), "\n");
    for (std::string& line : lines)
      if (core::starts_with(line, kHint)) line = std::string(kHint) + key_hint(line.substr(kHint.size()));
    throw ErrorOfLines<UsageError>(core::join(lines, "\n"));
  } catch (const UsageError& error) {
    throw UsageError(error.what(), key_hint(error.hint()));
  }
}

const hw::DeviceSpec* device_named(const std::string& name, const std::string& path) {
  if (name.empty()) return nullptr;
  if (const hw::DeviceMatch match = hw::find_device(name); match.spec != nullptr) return match.spec;
  std::vector<std::string> names;
  for (const hw::DeviceSpec& spec : hw::device_specs()) names.emplace_back(spec.name);
  const auto nearest = core::nearest_name(name, names);
  throw UsageError(fmt::format("predict: '{}': device '{}' is not in the table", path, name),
                   nearest ? fmt::format("did you mean '{}'?", *nearest)
                           : "leave it out and give memory-gbytes and a peak, for example peak-bf16-tflops");
}

/// What a node injects: as given, or its NICs; both must agree.
std::optional<double> injection_of(const MachineKeys& keys, const std::string& path) {
  const bool has_nics = keys.num_nics && keys.nic_gbits_per_s;
  if (keys.num_nics.has_value() != keys.nic_gbits_per_s.has_value())
    throw UsageError(fmt::format("predict: '{}': num-nics and nic-gbits-per-s belong together", path),
                     "give both, or node-gbytes-per-s instead");
  if (!has_nics) return keys.node_gbytes_per_s;
  const double nics = static_cast<double>(*keys.num_nics) * *keys.nic_gbits_per_s / 8;
  if (!keys.node_gbytes_per_s || std::fabs(*keys.node_gbytes_per_s / nics - 1) < 0.05) return nics;
  const bool is_bits = std::fabs(*keys.node_gbytes_per_s / nics / 8 - 1) < 0.05;
  throw UsageError(fmt::format("predict: '{}': node-gbytes-per-s is {:g}, {} NICs of {:g} Gbit/s give {:g} GB/s", path,
                               *keys.node_gbytes_per_s, *keys.num_nics, *keys.nic_gbits_per_s, nics),
                   is_bits
                       ? fmt::format("{:g} is in Gbit/s: write {:g}, or leave it out", *keys.node_gbytes_per_s, nics)
                       : "correct one of them, or leave node-gbytes-per-s out");
}

void check_memory(const MachineKeys& keys, const hw::DeviceSpec* device, const std::string& path) {
  if (device == nullptr || !keys.memory_gbytes) return;
  if (std::fabs(*keys.memory_gbytes / device->memory_gbytes - 1) > 0.1)
    throw UsageError(fmt::format("predict: '{}': memory-gbytes is {:g}, a {} has {:g}", path, *keys.memory_gbytes,
                                 device->name, device->memory_gbytes),
                     "name another device, or leave one of the two keys out");
}

/// Rates of a device that the table's device cannot have.
void check_rate(const char* key, const std::optional<double>& given, const std::optional<double>& known,
                const hw::DeviceSpec& device, const std::string& path) {
  constexpr double kMost = 1.3;  // boards of one name differ less
  if (!given || !known || *given <= kMost * *known) return;
  throw UsageError(fmt::format("predict: '{}': {} is {:g}, a {} has {:g}", path, key, *given, device.name, *known),
                   "rates of links count one direction; name another device, or leave one of the two keys out");
}

void check_group(const MachineKeys& keys, const std::string& path) {
  if (keys.num_nodes && keys.group_nodes && *keys.group_nodes > *keys.num_nodes)
    throw UsageError(fmt::format("predict: '{}': group-nodes is {}, the machine has num-nodes = {}", path,
                                 *keys.group_nodes, *keys.num_nodes),
                     "group-nodes counts the nodes of the network's first group, a part of the machine");
}

/// An efficiency may come from the fabric: a deviation is judged beside what is taken.
void check_deviation(const MachineKeys& keys, const Machine& machine, const std::string& path) {
  if (!keys.network_efficiency_sd || *keys.network_efficiency_sd <= machine.network_efficiency.value) return;
  throw UsageError(fmt::format("predict: '{}': network-efficiency-sd is {:g}, above network-efficiency of {:g}", path,
                               *keys.network_efficiency_sd, machine.network_efficiency.value),
                   "it is a standard deviation, as a share: 0.2 is wide");
}

/// Devices of a node that compute at the same time.
double devices_at_once(const MachineKeys& keys) {
  return static_cast<double>(keys.devices_at_a_time.value_or(*keys.devices_per_node));
}

constexpr double kMostBeyondTurns = 1.5;  // what other work on the machine may add to a measured contention

/// Devices that take turns need as many times as long as there are of them, and nothing is slower than that.
void check_contentions(const MachineKeys& keys, const std::string& path) {
  const double at_once = devices_at_once(keys), most = at_once > 1 ? kMostBeyondTurns * at_once : 1;
  for (const auto& [name, given] :
       {std::pair{"product-contention", keys.product_contention}, {"memory-contention", keys.memory_contention}}) {
    if (given.value_or(1) <= most) continue;
    const std::string why =
        at_once > 1 ? fmt::format("where {0:g} devices compute at a time even turns make each only {0:g} times as slow",
                                  at_once)
                    : "where one device computes at a time no other slows it";
    throw UsageError(fmt::format("predict: '{}': {} is {:g}; {}", path, name, *given, why),
                     "it is the rate of a device alone over its rate while all of them compute, 1 where they do not "
                     "disturb one another; devices-at-a-time says how many do");
  }
}

/// Numbers far below those of the table's device: mostly in another unit.
std::vector<std::string> slow_parts_of(const MachineKeys& keys, const hw::DeviceSpec& device, const Machine& usual,
                                       const Machine& machine) {
  constexpr double kLeastLink = 0.1, kLeastMemory = 0.1, kLeastWatts = 0.2, kLeastNetwork = 0.13;  // an eighth, rounded
  std::vector<std::string> doubts;
  if (keys.link_gbytes_per_s && device.link_gbytes_per_s &&
      *keys.link_gbytes_per_s < kLeastLink * *device.link_gbytes_per_s)
    doubts.push_back(fmt::format("link-gbytes-per-s is {:g}, the links of a {} have {:g}: is it in another unit?",
                                 *keys.link_gbytes_per_s, device.name, *device.link_gbytes_per_s));
  if (keys.memory_tbytes_per_s && device.memory_tbytes_per_s &&
      *keys.memory_tbytes_per_s < kLeastMemory * *device.memory_tbytes_per_s)
    doubts.push_back(fmt::format("memory-tbytes-per-s is {:g}, the memory of a {} has {:g}: is it in another unit?",
                                 *keys.memory_tbytes_per_s, device.name, *device.memory_tbytes_per_s));
  if (keys.node_watts && *keys.node_watts < kLeastWatts * usual.node_watts.value)
    doubts.push_back(fmt::format("node-watts is {:g}, such nodes draw about {:.0f} W: is it in kW, or of one device?",
                                 *keys.node_watts, usual.node_watts.value));
  const double of_device = machine.node_gbytes_per_s.value / static_cast<double>(machine.devices_per_node);
  if (const auto node = usual_machine_in(device.name)) {
    const double usual_of_device = node->node_gbytes_per_s.value / static_cast<double>(node->devices_per_node);
    if (keys.has_network() && of_device < kLeastNetwork * usual_of_device)
      doubts.push_back(fmt::format(
          "{:g} GB/s of network a node are {:.3g} a device, where a {} mostly has {:g}: is nic-gbits-per-s in GB/s, or "
          "num-nics too small?",
          machine.node_gbytes_per_s.value, of_device, device.name, usual_of_device));
  }
  return doubts;
}

/// The name that the file gives where it is no name of the device that it was taken for: "H100X" for an H100.
std::optional<std::string> other_name_text(const std::string& given, const hw::DeviceSpec& device) {
  const std::string chip = core::split(core::plain_name(std::string(device.name)), "_").at(0);
  for (const std::string& word : core::split(core::plain_name(given), "_"))
    if (core::starts_with(word, chip) && word != chip)
      return fmt::format("device \"{}\" is not in the table: it is taken as {}, whose peaks may be others.", given,
                         device.name);
  return std::nullopt;
}

/// The same of what devices of a node do to one another.
std::vector<std::string> doubts_within_node(const Machine& machine) {
  constexpr double kSlowestCall = 1000, kSlowestCallOfCores = 20000;  // us
  std::vector<std::string> doubts;
  if (const double us = machine.link_latency_us.value;
      us > (machine.device.empty() ? kSlowestCallOfCores : kSlowestCall))
    doubts.push_back(fmt::format(
        "link-latency-us is {:g}: a small all-reduce inside a node would take {:.3g} ms. Is it in another unit?", us,
        us / 1000));
  if (machine.devices_at_a_time && *machine.devices_at_a_time < machine.devices_per_node)
    doubts.push_back(fmt::format(
        "devices-at-a-time is {}, a node has {} devices, which then take turns: it counts all that compute at the same "
        "time; leave it out where every device has its own cores.",
        *machine.devices_at_a_time, machine.devices_per_node));
  const double at_once = static_cast<double>(machine.devices_at_a_time.value_or(machine.devices_per_node));
  for (const auto& [name, contention] :
       {std::pair{"product-contention", machine.product_contention}, {"memory-contention", machine.memory_contention}})
    if (contention.value > at_once)
      doubts.push_back(fmt::format(
          "{} is {:.3g}, more than {:g} devices that take turns would have: {:g} is the most that is taken. Other work "
          "may have run beside the measurement.",
          name, contention.value, at_once, at_once));
  return doubts;
}

/// What may be right and mostly is a slip: told with every prediction.
std::vector<std::string> doubts_of(const Machine& machine) {
  constexpr double kFastestCards = 100;  // GB/s a device: 800 Gbit/s
  std::vector<std::string> doubts;
  const double of_device = machine.node_gbytes_per_s.value / static_cast<double>(machine.devices_per_node);
  if (of_device > kFastestCards)
    doubts.push_back(fmt::format(
        "{:g} GB/s of network a node are {:g} a device, more than cards of 800 Gbit/s give: is node-gbytes-per-s in "
        "Gbit/s, or the rate inside a node?",
        machine.node_gbytes_per_s.value, of_device));
  for (std::string& doubt : doubts_within_node(machine)) doubts.push_back(std::move(doubt));
  if (machine.devices_at_a_time) return doubts;  // processors may well be slower in 16 bits than in 32
  using enum hw::ComputeType;
  for (const auto& [narrow, wide] : {std::pair{kTf32, kFp32},
                                     {kFp16, kFp32},
                                     {kBf16, kFp32},
                                     {kFp16, kTf32},
                                     {kBf16, kTf32},
                                     {kFp8, kFp16},
                                     {kFp8, kBf16}}) {
    const auto of_narrow = machine.peak_tflops(narrow), of_wide = machine.peak_tflops(wide);
    if (of_narrow && of_wide && *of_narrow < *of_wide)
      doubts.push_back(fmt::format("The peak of {} ({:g} TFLOP/s) is below that of {} ({:g}): are the two mixed up?",
                                   hw::compute_type_name(narrow), *of_narrow, hw::compute_type_name(wide), *of_wide));
  }
  return doubts;
}

/// Peaks as given, else of the device; those of both must agree.
std::vector<hw::Peak> peaks_of(const MachineKeys& keys, const hw::DeviceSpec* device, const std::string& path) {
  std::vector<hw::Peak> peaks = device != nullptr ? device->peaks : std::vector<hw::Peak>{};
  using enum hw::ComputeType;
  for (const auto& [type, given] : {std::pair{kFp32, keys.peak_fp32},
                                    {kTf32, keys.peak_tf32},
                                    {kFp16, keys.peak_fp16},
                                    {kBf16, keys.peak_bf16},
                                    {kFp8, keys.peak_fp8}}) {
    if (!given) continue;
    if (device != nullptr)
      if (const std::string why = hw::explain_peak_mismatch(*device, type, *given); !why.empty() && device->is_certain)
        throw UsageError(fmt::format("predict: '{}': {}", path, why),
                         "give the dense peak, or leave the device out where it is another board");
    std::erase_if(peaks, [type = type](const hw::Peak& peak) { return peak.type == type; });
    peaks.push_back({type, *given});
  }
  return peaks;
}

/// Everything that a prediction needs and the file does not say, at once.
void check_complete(const MachineKeys& keys, const hw::DeviceSpec* device, bool has_injection, bool has_peak,
                    const std::string& path) {
  std::vector<std::string> missing;
  if (!keys.devices_per_node) missing.emplace_back("devices-per-node");
  if (!has_injection && keys.num_nodes != 1)
    missing.emplace_back(
        "node-gbytes-per-s (or num-nics and nic-gbits-per-s; not of a machine of one node, num-nodes = 1)");
  if (!has_peak) missing.emplace_back("a peak, for example peak-bf16-tflops (or a device of the table)");
  if (device == nullptr && !keys.memory_gbytes) missing.emplace_back("memory-gbytes (or a device of the table)");
  if (!missing.empty())
    throw UsageError(fmt::format("predict: '{}' is no complete system, it lacks {}", path, core::join(missing, "; ")),
                     kKeysHint);
}
}  // namespace

constexpr double kUnusedNetwork = 25;  // GB/s, where there is one node

Machine parse_machine(std::string_view text, const std::string& path) {
  MachineKeys keys;
  core::OptionSet set = declare_keys(keys);
  apply_keys(set, text, path);
  const hw::DeviceSpec* device = device_named(keys.device, path);
  std::optional<double> injection;
  std::vector<hw::Peak> peaks;
  UsageProblems problems;
  problems.collect([&] { injection = injection_of(keys, path); });
  problems.collect([&] { check_memory(keys, device, path); });
  problems.collect([&] { check_group(keys, path); });
  if (device != nullptr) {
    problems.collect(
        [&] { check_rate("link-gbytes-per-s", keys.link_gbytes_per_s, device->link_gbytes_per_s, *device, path); });
    problems.collect([&] {
      check_rate("memory-tbytes-per-s", keys.memory_tbytes_per_s, device->memory_tbytes_per_s, *device, path);
    });
  }
  problems.collect([&] { peaks = peaks_of(keys, device, path); });
  problems.raise();
  check_complete(keys, device, injection.has_value(), !peaks.empty(), path);
  check_contentions(keys, path);
  // A row as the table has them gives priors and what the device says; the file's own numbers then win.
  const std::string source = keys.source.empty() ? path : fmt::format("{} ({})", path, keys.source);
  const hw::SystemSpec row{.name = keys.name.empty() ? std::string_view(path) : std::string_view(keys.name),
                           .num_nodes = keys.num_nodes,
                           .devices_per_node = static_cast<int>(*keys.devices_per_node),
                           .device = device != nullptr ? device->name : hw::device_specs()[0].name,
                           .injection_gbytes_per_s = injection.value_or(kUnusedNetwork),
                           .fabric = keys.fabric,
                           .nodes_per_group = keys.group_nodes};
  Machine machine = machine_of(row);
  machine.node_gbytes_per_s.source = injection ? source : "not known: one node needs no network";
  machine.peaks = std::move(peaks);
  machine.devices_at_a_time = keys.devices_at_a_time;
  if (device == nullptr) {
    const std::string unknown = "not known: PCIe generation 4 and 1.5 TB/s taken";
    machine.device.clear();
    machine.remarks.clear();
    machine.link_gbytes_per_s = {25, unknown};
    machine.memory_tbytes_per_s = {1.5, unknown};
  }
  const auto take = [&](const std::optional<double>& given, Sourced& field) {
    if (given) field = {*given, source};
  };
  take(keys.link_gbytes_per_s, machine.link_gbytes_per_s);
  take(keys.link_latency_us, machine.link_latency_us);
  take(keys.product_contention, machine.product_contention);
  take(keys.memory_contention, machine.memory_contention);
  take(keys.memory_gbytes, machine.memory_gbytes);
  take(keys.memory_tbytes_per_s, machine.memory_tbytes_per_s);
  if (keys.network_efficiency && !keys.network_efficiency_sd)  // the doubt is one of a share of it
    machine.network_efficiency_sd.value *= std::min(1.0, *keys.network_efficiency / machine.network_efficiency.value);
  take(keys.network_efficiency, machine.network_efficiency);
  take(keys.network_efficiency_sd, machine.network_efficiency_sd);
  take(keys.node_watts, machine.node_watts);
  check_deviation(keys, machine, path);
  for (std::string& doubt : doubts_of(machine)) machine.remarks.push_back(std::move(doubt));
  if (device == nullptr) return machine;
  for (std::string& doubt : slow_parts_of(keys, *device, machine_of(row), machine))
    machine.remarks.push_back(std::move(doubt));
  if (auto doubt = other_name_text(keys.device, *device)) machine.remarks.push_back(std::move(*doubt));
  return machine;
}

Machine read_machine_file(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw UsageError(fmt::format("predict: system file '{}' does not exist", path),
                     fmt::format("check the path, or take a system of `lockstep predict --systems`; {}", kKeysHint));
  return parse_machine(core::read_file(path), path);
}

Machine find_machine(const std::string& name) {
  if (core::ends_with(name, ".toml")) return read_machine_file(name);
  if (const hw::SystemSpec* system = hw::find_system(name)) return machine_of(*system);
  std::vector<std::string> names;
  for (const hw::SystemSpec& one : hw::system_specs()) {
    names.emplace_back(one.name);
    for (const std::string& alias : core::split(one.aliases, " "))
      if (!alias.empty()) names.push_back(alias);
  }
  const auto nearest = core::nearest_name(core::to_lower_ascii(name), names);
  throw UsageError(fmt::format("predict: --system '{}' is no system of the table", name),
                   nearest ? fmt::format("did you mean '{}'?", *nearest)
                           : "`lockstep predict --systems` lists them; a file NAME.toml describes another");
}

draw::Table machines_table() {
  draw::Table table{.id = "systems", .title = "Systems"};
  table.columns = {{"system", "name", true},
                   {"nodes", "num_nodes"},
                   {"devices a node", "devices", true},
                   {"GB/s a node", "node_gbytes_per_s"},
                   {"W a node", "node_watts"},
                   {"fabric", "fabric", true}};
  for (const hw::SystemSpec& system : hw::system_specs()) {
    const Machine machine = machine_of(system);
    table.rows.push_back(
        {{.text = machine.name},
         machine.num_nodes ? draw::Cell{.text = fmt::format("{}", *machine.num_nodes),
                                        .value = static_cast<double>(*machine.num_nodes)}
                           : draw::Cell{},
         {.text = fmt::format("{} x {}", machine.devices_per_node, machine.device)},
         {.text = fmt::format("{:g}", machine.node_gbytes_per_s.value), .value = machine.node_gbytes_per_s.value},
         {.text = fmt::format("{:.0f}", machine.node_watts.value), .value = machine.node_watts.value},
         {.text = machine.fabric}});
  }
  table.notes.emplace_back("W a node: estimated under training load; `node-watts` of a system file tells another.");
  table.notes.emplace_back("`lockstep predict --systems --json` tells every number with its source.");
  return table;
}

core::Json machine_json(const Machine& machine) {
  const auto sourced = [](const Sourced& number) {
    return core::Json{{"value", number.value}, {"source", number.source}};
  };
  core::Json json = {{"name", machine.name},
                     {"device", machine.device},
                     {"fabric", machine.fabric},
                     {"devices_per_node", machine.devices_per_node}};
  json["num_nodes"] = machine.num_nodes ? core::Json(*machine.num_nodes) : core::Json(nullptr);
  json["group_nodes"] = machine.group_nodes ? core::Json(*machine.group_nodes) : core::Json(nullptr);
  for (const auto& [name, number] : {std::pair{"node_gbytes_per_s", &machine.node_gbytes_per_s},
                                     {"link_gbytes_per_s", &machine.link_gbytes_per_s},
                                     {"link_latency_us", &machine.link_latency_us},
                                     {"memory_gbytes", &machine.memory_gbytes},
                                     {"memory_tbytes_per_s", &machine.memory_tbytes_per_s},
                                     {"network_efficiency", &machine.network_efficiency},
                                     {"network_efficiency_sd", &machine.network_efficiency_sd},
                                     {"node_watts", &machine.node_watts}})
    json[name] = sourced(*number);
  for (const hw::Peak& peak : machine.peaks)
    json["peak_tflops"][std::string(hw::compute_type_name(peak.type))] = peak.tflops;
  json["peak_source"] = machine.peak_source;
  json["remarks"] = machine.remarks;
  return json;
}

core::Json machines_json() {
  core::Json json = core::Json::array();
  for (const hw::SystemSpec& system : hw::system_specs()) json.push_back(machine_json(machine_of(system)));
  return json;
}

}  // namespace lockstep::predict
