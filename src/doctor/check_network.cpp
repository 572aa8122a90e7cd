// Interfaces, InfiniBand, and the variables that NCCL and Gloo read.
#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>

#include "core/files.h"
#include "core/host_name.h"
#include "core/strings.h"
#include "doctor/checks.h"
#include "hw/device_specs.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

struct Interface {
  std::string name, state;
  int64_t mtu = 0, mbits_per_s = 0;  // 0: not known
  bool is_loopback() const { return name == "lo"; }
  bool is_up() const { return state == "up" || state == "unknown"; }  // those without carrier detection are unknown
  std::string text() const {
    return fmt::format("{} ({}, MTU {}{})", name, state, mtu,
                       mbits_per_s > 0 ? fmt::format(", {} Mbit/s", mbits_per_s) : "");
  }
};

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return std::string(core::trim(line));
}

std::vector<Interface> interfaces(const hw::SystemRoots& roots) {
  std::vector<Interface> found;
  std::error_code failure;
  for (const fs::path& folder : core::list_folder(roots.sys / "class/net", failure)) {
    if (!fs::exists(folder / "mtu")) continue;  // bonding_masters is a file
    found.push_back({.name = folder.filename(),
                     .state = first_line(folder / "operstate"),
                     .mtu = core::parse_int(first_line(folder / "mtu")).value_or(0),
                     .mbits_per_s = std::max<int64_t>(0, core::parse_int(first_line(folder / "speed")).value_or(0))});
  }
  return found;
}

/// The interfaces that a list of NCCL chooses: prefixes, "=" before exact names, "^" before what is left out.
std::vector<Interface> chosen_by_nccl(std::string text, const std::vector<Interface>& all) {
  const bool is_excluding = core::starts_with(text, "^");
  if (is_excluding) text.erase(0, 1);
  const bool is_exact = core::starts_with(text, "=");
  if (is_exact) text.erase(0, 1);
  const auto names = core::split(text, ",");
  std::vector<Interface> chosen;
  for (const Interface& each : all) {
    const bool is_named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return !name.empty() && (is_exact ? each.name == name : core::starts_with(each.name, name));
    });
    if (is_named != is_excluding) chosen.push_back(each);
  }
  return chosen;
}

std::vector<Interface> chosen_by_gloo(const std::string& text, const std::vector<Interface>& all) {
  const auto names = core::split(text, ",");
  std::vector<Interface> chosen;
  for (const Interface& each : all)
    if (std::find(names.begin(), names.end(), each.name) != names.end()) chosen.push_back(each);
  return chosen;
}

std::string names_of(const std::vector<Interface>& all) {
  std::vector<std::string> texts;
  for (const Interface& each : all) texts.push_back(each.text());
  return texts.empty() ? "none" : core::join(texts, ", ");
}

bool is_of_several_nodes(const Question& question) {
  try {
    const hw::RankInfo place = hw::discover_ranks({}, question.env);
    return place.world_size > place.local_world_size;
  } catch (const Error&) {
    return false;
  }
}

void check_choice(const std::string& variable, const std::string& value, const std::vector<Interface>& chosen,
                  const std::vector<Interface>& all, bool has_several_nodes, Report& report) {
  const std::string setting = fmt::format("{}={}", variable, value);
  if (chosen.empty())
    return report.error(fmt::format("{} chooses no interface of this machine: {}", setting, names_of(all)),
                        fmt::format("set {} to one of them, or unset it", variable));
  const auto up = std::find_if(chosen.begin(), chosen.end(), [](const Interface& each) { return each.is_up(); });
  if (up == chosen.end())
    return report.error(fmt::format("{} chooses an interface whose link is down: {}", setting, names_of(chosen)),
                        "bring the link up, or choose another interface");
  if (has_several_nodes && up->is_loopback())
    return report.error(fmt::format("{} chooses the loopback interface, which reaches no other node", setting),
                        "name the interface of the cluster's network");
  report.ok(fmt::format("{}: {}", setting, up->text()));
}

/// A setting that is known to do harm.
struct KnownFault {
  const char* name;
  std::vector<std::string> values;  // lower case; empty: any value
  Severity severity;
  const char* effect;
  const char* advice;
};

const std::vector<KnownFault>& known_faults() {
  static const std::vector<KnownFault> faults{
      {"CUDA_LAUNCH_BLOCKING",
       {"1"},
       Severity::kWarning,
       "every kernel waits for the one before it: no overlap",
       "unset it, unless you look for the kernel that fails"},
      {"NCCL_P2P_DISABLE",
       {"1"},
       Severity::kWarning,
       "GPUs of a node exchange through host memory, not NVLink or PCIe",
       "unset it"},
      {"NCCL_SHM_DISABLE", {"1"}, Severity::kWarning, "ranks of a node exchange through the network", "unset it"},
      {"NCCL_NET", {"socket"}, Severity::kWarning, "NCCL uses TCP even where there is InfiniBand", "unset it"},
      {"NCCL_DEBUG",
       {"info", "trace"},
       Severity::kNote,
       "NCCL writes much to the log",
       "unset it, or set WARN, once the fault is found"},
      {"NCCL_DEBUG_SUBSYS",
       {"all"},
       Severity::kNote,
       "with NCCL_DEBUG, NCCL writes lines for every collective",
       "unset it once the fault is found"},
      {"NCCL_ALGO", {}, Severity::kNote, "NCCL's choice of algorithms is overruled", "unset it, unless measured"},
      {"NCCL_PROTO",
       {},
       Severity::kNote,
       "NCCL's choice of protocols is overruled; some corrupt data (LL128 where "
       "it is not supported)",
       "unset it, unless measured"},
      {"NCCL_LAUNCH_MODE",
       {"group"},
       Severity::kWarning,
       "a mode that several ranks per process need, and hang with",
       "unset it"},
      {"TORCH_NCCL_BLOCKING_WAIT",
       {"1", "true"},
       Severity::kWarning,
       "the host waits for every collective: no overlap",
       "unset it"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING",
       {"0"},
       Severity::kWarning,
       "ranks hang for ever when another one dies",
       "unset it"},
      {"NCCL_ASYNC_ERROR_HANDLING", {"0"}, Severity::kWarning, "ranks hang for ever when another one dies", "unset it"},
      {"TORCH_NCCL_USE_COMM_NONBLOCKING", {"1"}, Severity::kNote, "an experimental way to connect", "unset it"},
      {"TORCH_DISTRIBUTED_DEBUG",
       {"detail"},
       Severity::kWarning,
       "every collective is checked by one more: several times slower",
       "unset it, or set INFO"},
      {"PYTORCH_NO_CUDA_MEMORY_CACHING",
       {"1"},
       Severity::kWarning,
       "every tensor asks the driver for memory",
       "unset it"},
  };
  return faults;
}

void check_known_faults(const Question& question, Report& report, int& num_found) {
  for (const KnownFault& fault : known_faults()) {
    const auto value = question.env(fault.name);
    if (!value || value->empty()) continue;
    const bool is_fault = fault.values.empty() || std::find(fault.values.begin(), fault.values.end(),
                                                            core::to_lower_ascii(*value)) != fault.values.end();
    if (!is_fault) continue;
    ++num_found;
    const std::string evidence = fmt::format("{}={}: {}", fault.name, *value, fault.effect);
    if (fault.severity == Severity::kNote)
      report.note(evidence, fault.advice);
    else
      report.warning(evidence, fault.advice);
  }
}

void check_system_faults(const Question& question, Report& report, int& num_found) {
  const hw::SystemSpec* system = system_here(question);
  if (system == nullptr) {
    if (!question.system.empty())
      report.note(fmt::format("--system {} is not in the table of systems", question.system));
    return;
  }
  if (system->environment.empty()) return;
  const auto parts = core::split(system->environment, "=");
  const std::string value = question.env(parts[0]).value_or("");
  if (value == parts[1]) return;
  ++num_found;
  report.warning(fmt::format("on {} {}, and it is {}", system->name, system->remark,
                             value.empty() ? "not set" : fmt::format("'{}'", value)),
                 fmt::format("export {}", system->environment));
}

/// A port of an InfiniBand card, or of one that speaks Ethernet.
struct Port {
  std::string card, number, state, rate, layer;
  bool is_active() const { return state.find("ACTIVE") != std::string::npos; }
  std::string text() const { return fmt::format("{}/{} {} {} ({})", card, number, state, rate, layer); }
};

std::vector<Port> infiniband_ports(const hw::SystemRoots& roots) {
  std::vector<Port> ports;
  std::error_code failure, inner;
  for (const fs::path& card : core::list_folder(roots.sys / "class/infiniband", failure))
    for (const fs::path& port : core::list_folder(card / "ports", inner))
      ports.push_back({.card = card.filename(),
                       .number = port.filename(),
                       .state = first_line(port / "state"),
                       .rate = first_line(port / "rate"),
                       .layer = first_line(port / "link_layer")});
  return ports;
}

/// NCCL_IB_HCA: as a list of interfaces, with ":PORT" behind names.
bool names_a_card(std::string text, const std::vector<Port>& ports) {
  if (core::starts_with(text, "^")) return true;
  const bool is_exact = core::starts_with(text, "=");
  if (is_exact) text.erase(0, 1);
  for (const std::string& word : core::split(text, ",")) {
    const std::string name = word.substr(0, word.find(':'));
    for (const Port& port : ports)
      if (!name.empty() && (is_exact ? port.card == name : core::starts_with(port.card, name))) return true;
  }
  return false;
}

/// Why the library that NCCL and others speak to InfiniBand with cannot be loaded; "" where it can.
std::string verbs_problem() {
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) {
    ::dlclose(library);
    return "";
  }
  const char* reason = ::dlerror();
  return reason == nullptr ? "the loader does not say why" : reason;
}

}  // namespace

const hw::SystemSpec* system_here(const Question& question) {
  if (!question.system.empty()) return hw::find_system(question.system);
  const std::string cluster = core::to_lower_ascii(question.env("SLURM_CLUSTER_NAME").value_or(""));
  const std::string host = core::to_lower_ascii(core::host_name());
  for (const hw::SystemSpec& system : hw::system_specs())
    for (const std::string& alias : core::split(system.aliases, " "))
      if (!alias.empty() && (cluster == alias || core::starts_with(host, alias))) return &system;
  return nullptr;
}

void check_interfaces(const Question& question, Report& report) {
  const auto all = interfaces(question.roots);
  const bool has_several_nodes = is_of_several_nodes(question);
  const auto nccl = question.env("NCCL_SOCKET_IFNAME"), gloo = question.env("GLOO_SOCKET_IFNAME");
  if (nccl && !nccl->empty())
    check_choice("NCCL_SOCKET_IFNAME", *nccl, chosen_by_nccl(*nccl, all), all, has_several_nodes, report);
  if (gloo && !gloo->empty())
    check_choice("GLOO_SOCKET_IFNAME", *gloo, chosen_by_gloo(*gloo, all), all, has_several_nodes, report);
  std::vector<Interface> usable;
  for (const Interface& each : all)
    if (each.is_up() && !each.is_loopback()) usable.push_back(each);
  const std::string list = names_of(usable);
  if (usable.empty() && has_several_nodes)
    return report.error(fmt::format("no interface but loopback is up: {}", names_of(all)),
                        "bring the cluster's network up; nothing reaches this node");
  report.ok(fmt::format("interfaces that are up, but loopback: {}", list));
}

void check_variables(const Question& question, Report& report) {
  int num_found = 0;
  check_known_faults(question, report, num_found);
  check_system_faults(question, report, num_found);
  if (num_found == 0) report.ok("no variable that is known to do harm is set");
}

void check_infiniband(const Question& question, Report& report) {
  const auto ports = infiniband_ports(question.roots);
  const auto cards = question.env("NCCL_IB_HCA"), disabled = question.env("NCCL_IB_DISABLE");
  if (cards && !cards->empty() && !names_a_card(*cards, ports))
    report.error(fmt::format("NCCL_IB_HCA={} names no InfiniBand card of this machine ({} ports are here)", *cards,
                             ports.size()),
                 "name cards that are in /sys/class/infiniband, or unset it");
  if (ports.empty()) return report.ok("no InfiniBand card is here");
  size_t num_active = 0;
  for (const Port& port : ports) num_active += port.is_active() ? 1 : 0;
  std::vector<std::string> texts;
  for (const Port& port : ports) texts.push_back(port.text());
  const std::string list = core::join(texts, ", ");
  if (num_active == 0)
    report.error(fmt::format("no InfiniBand port is active: {}", list),
                 "look at the cables and the subnet manager (ibstat); NCCL would fall back to TCP");
  else if (num_active < ports.size())
    report.warning(fmt::format("{} of {} InfiniBand ports are active: {}", num_active, ports.size(), list),
                   "look at the others (ibstat), or name the active cards in NCCL_IB_HCA");
  else
    report.ok(list);
  if (disabled == "1" && num_active > 0)
    report.warning("NCCL_IB_DISABLE=1 although InfiniBand is active: NCCL uses TCP", "set NCCL_IB_DISABLE=0");
  else if (const std::string problem = num_active > 0 ? verbs_problem() : ""; !problem.empty())
    report.warning(fmt::format("InfiniBand is active, but its library cannot be loaded ({}): NCCL uses TCP", problem),
                   "install libibverbs1 and ibverbs-providers (their names on Debian), in containers into the image");
}

}  // namespace lockstep::doctor
