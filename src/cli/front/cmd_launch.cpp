#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cli/common/version.h"
#include "cli/front/commands.h"
#include "cli/front/dry_run.h"
#include "cli/front/engine_exec.h"
#include "cli/front/launch_group.h"
#include "commands/commands.h"
#include "core/digest.h"
#include "core/env.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "doctor/sockets.h"
#include "hw/device.h"
#include "hw/gpus.h"
#include "hw/ranks.h"
#include "hw/signs_of_life.h"
#include "tasks/tasks.h"

namespace lockstep::cli {
namespace {

struct LaunchOptions {
  std::string nproc_per_node = "1";
  std::optional<int64_t> nnodes{};
  std::optional<int64_t> node_rank{};
  std::string rdzv_endpoint{};
  std::string master_addr{};
  std::optional<int64_t> master_port{};
  std::string program{};
  double kill_grace_s = 10;
  bool no_prefix = false;
};

core::OptionSet declare_options(LaunchOptions& values) {
  core::OptionSet options(
      "launch",
      "Start the ranks of a command on this machine, or on this node of several, and watch over them. "
      "The command follows after --: lockstep launch --nproc-per-node 4 -- train clip ...");
  options.group("Ranks");
  options.add("nproc-per-node", &values.nproc_per_node,
              {.help = "Ranks to start on this node: a number, gpu (one for each visible GPU) or cpu (one for each "
                       "core that may be used).",
               .metavar = "N|gpu|cpu"});
  options.add("nnodes", &values.nnodes,
              {.help = "Nodes that take part; each runs its own launcher with the same options. Inside a SLURM step "
                       "with one task per "
                       "node this and the next two are taken from SLURM.",
               .unit = "nodes",
               .unset_text = "1, or SLURM's",
               .min = 1,
               .max = 100000});
  options.add("node-rank", &values.node_rank,
              {.help = "Index of this node.", .unset_text = "the variable NODE_RANK", .min = 0, .max = 99999});
  options.add("rdzv-endpoint", &values.rdzv_endpoint,
              {.help = "Where the ranks meet: host of node 0 and a free port there.",
               .metavar = "HOST:PORT",
               .unset_text = "a free port here; on several nodes the next two"});
  options.add("master-addr", &values.master_addr,
              {.help = "HOST of --rdzv-endpoint, by its other name.",
               .unset_text = "on several nodes the variable MASTER_ADDR"});
  options.add("master-port", &values.master_port,
              {.help = "PORT of --rdzv-endpoint, by its other name.",
               .unset_text = "on several nodes the variable MASTER_PORT, else 29500",
               .min = 1,
               .max = 65535});
  options.group("Program");
  options.add("program", &values.program,
              {.help = "Another program to start instead of lockstep.", .metavar = "PATH", .unset_text = "lockstep"});
  options.add("kill-grace", &values.kill_grace_s,
              {.help = "When a rank has failed: time from SIGTERM to SIGKILL for the others; where it was lost to a "
                       "signal, and this is not given, 5 s (longer from 1000 ranks on), in which they tell which.",
               .unit = "s",
               .min = 0,
               .max = 3600});
  options.add("no-prefix", &values.no_prefix,
              {.help = "Do not put [rank N] before lines. Without it every line gets that but the standard output of "
                       "rank 0, which prints the results."});
  options.refuse("max-restarts", "ranks are not restarted in place",
                 "let the job be requeued: an interrupted run ends with 75 and goes on with --resume latest", {"0"});
  options.refuse("config", "a recipe holds the flags of the command",
                 "write it behind --: launch ... -- train clip --config FILE");
  options.refuse("module", "commands are never Python modules here",
                 "write the command of lockstep behind --: launch ... -- train clip ...");
  for (const char* name : {"log-dir", "redirects", "tee"})
    options.refuse(name, "lines of all ranks go to the output of launch",
                   "redirect that in the shell; `train --log-local` writes a log file of each rank");
  options.ignore("standalone", "it is the default on one node", false);
  options.ignore("no-python", "commands are never Python modules here", false);
  for (const char* name : {"rdzv-backend", "rdzv-conf"})
    options.ignore(name, "there is one way to meet, a store on node 0", true);
  options.ignore("rdzv-id", "jobs are told apart by their port: each needs its own in --rdzv-endpoint", true);
  for (const char* name : {"monitor-interval", "start-method", "role", "local-addr", "local-ranks-filter"})
    options.ignore(name, "ranks are processes that launch waits for", true);
  return options;
}

/// The first of these variables that is set, with its name.
std::optional<std::pair<std::string, std::string>> first_variable(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto value = core::env(name)) return std::pair<std::string, std::string>(name, *value);
  return std::nullopt;
}

/// Fills a number that no flag gives from the first of these variables that is set.
void fill_number(std::optional<int64_t>& field, std::initializer_list<const char*> names, int64_t min, int64_t max) {
  const auto variable = first_variable(names);
  if (field || !variable) return;
  const auto number = core::parse_int(core::trim(variable->second));
  if (!number || *number < min || *number > max)
    throw EnvironmentError(
        fmt::format("launch: {}='{}' is no integer in [{}, {}]", variable->first, variable->second, min, max),
        "correct the variable, or unset it");
  field = *number;
}

/// Flags that are missing, from variables: torchrun's own (PET_NNODES and so on), and with several nodes those that
/// scripts for it set. On one node MASTER_ADDR and MASTER_PORT may be leftovers of another job.
void fill_from_environment(LaunchOptions& values, bool has_nproc) {
  if (const auto nproc = first_variable({"PET_NPROC_PER_NODE"}); nproc && !has_nproc)
    values.nproc_per_node = core::trim(nproc->second);
  fill_number(values.nnodes, {"PET_NNODES"}, 1, 100000);
  const bool is_several = values.nnodes.value_or(1) > 1, has_endpoint = !values.rdzv_endpoint.empty();
  if (!has_endpoint)
    if (const auto endpoint = first_variable({"PET_RDZV_ENDPOINT"})) values.rdzv_endpoint = endpoint->second;
  if (!is_several) return;
  fill_number(values.node_rank, {"PET_NODE_RANK", "NODE_RANK"}, 0, 99999);
  if (!values.rdzv_endpoint.empty()) return;
  if (values.master_addr.empty())
    if (const auto address = first_variable({"PET_MASTER_ADDR", "MASTER_ADDR"})) values.master_addr = address->second;
  fill_number(values.master_port, {"PET_MASTER_PORT", "MASTER_PORT"}, 1, 65535);
  constexpr int64_t kTorchrunPort = 29500;
  if (!values.master_addr.empty() && !values.master_port) values.master_port = kTorchrunPort;
}

/// Of --nproc-per-node, as torchrun takes it but for `auto`, which hides that a node's GPUs are missing.
int num_local_ranks(const std::string& text) {
  constexpr int64_t kMost = 4096;
  if (text == "cpu") return hw::usable_cpu_cores();
  if (text == "gpu") {
    const hw::GpuMachine machine;
    const hw::GpuQuestion question{.request = "cuda",
                                   .asked_by = "--nproc-per-node gpu",
                                   .num_usable = hw::num_visible_gpus(hw::visible_devices(), machine.driver),
                                   .needed_cuda = cuda_of_libtorch(),
                                   .visible_devices = hw::visible_devices()};
    if (!machine.presence.any() && question.num_usable == 0)
      throw hw::without_gpu("--nproc-per-node gpu", "a number of ranks");
    hw::choose_device(question, machine);  // throws why GPUs that are here cannot be used
    return question.num_usable;
  }
  const auto number = core::parse_int(text);
  if (!number || *number < 1 || *number > kMost)
    throw UsageError(
        fmt::format("launch: --nproc-per-node '{}' is neither an integer in [1, {}] nor gpu or cpu", text, kMost),
        text == "auto" ? "write gpu for one rank on each GPU, cpu for one on each core, or how many ranks are wanted"
                       : "for example --nproc-per-node 4, or --nproc-per-node gpu");
  return static_cast<int>(*number);
}

/// Splits the arguments into our flags and the command, at "--" or at the first word that is no flag's value.
std::pair<std::vector<std::string>, std::vector<std::string>> split_command(std::span<const std::string> args,
                                                                            const core::OptionSet& options) {
  size_t at = 0;
  while (at < args.size() && args[at] != "--" && core::starts_with(args[at], "-")) {
    const std::string& flag = args[at++];
    const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    const bool has_separate_value = options.takes_value(name) && flag.find('=') == std::string::npos;
    if (has_separate_value && at < args.size()) ++at;
  }
  const std::vector<std::string> flags(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(at));
  if (at < args.size() && args[at] == "--") ++at;
  return {flags, {args.begin() + static_cast<std::ptrdiff_t>(at), args.end()}};
}

bool is_command(const std::string& word) {
  const auto table = commands::command_table();
  return std::any_of(table.begin(), table.end(), [&](const commands::CommandInfo& info) {
    return info.name == word || core::starts_with(info.name, word + " ");
  });
}

/// A Python program where the command should stand: says what to write in its place.
void refuse_other_program(std::span<const std::string> args) {
  for (size_t at = 0; at < args.size() && !is_command(args[at]); ++at) {
    const std::string task = tasks::task_of_program(args[at]);
    if (task.empty()) continue;
    size_t first = at;
    while (first > 0 && (args[first - 1] == "-m" || args[first - 1] == "--module" || args[first - 1] == "--" ||
                         args[first - 1] == "-u" || core::starts_with(args[first - 1], "python")))
      --first;
    throw UsageError(fmt::format("launch: '{}' is a program of another project, not a command of lockstep", args[at]),
                     fmt::format("replace `{}` by `-- train {}`, which takes the flags that follow",
                                 core::join(args.subspan(first, at + 1 - first), " "), task));
  }
}

/// True when a listening socket can have this port now: on the loopback address, where the ranks of one node meet, or
/// on all interfaces.
bool is_port_free(int port, bool is_one_node) {
  const core::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) throw EnvironmentError(fmt::format("launch: cannot open a socket: {}", std::strerror(errno)));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(is_one_node ? INADDR_LOOPBACK : INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(fd.get(), 1) == 0;
}

/// A port below the ephemeral ones, where no outgoing connection can take it before rank 0 listens.
int find_free_port() {
  constexpr int kFirst = 20000, kCount = 12000, kTries = 500;
  std::random_device random;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const int port = kFirst + static_cast<int>(random() % kCount);
    if (is_port_free(port, /*is_one_node=*/true)) return port;  // several nodes are told theirs
  }
  throw EnvironmentError(
      fmt::format("launch: found no free port in [{}, {}) after {} tries", kFirst, kFirst + kCount, kTries),
      "give one with --master-port");
}

/// Where this node stands among the nodes, and where all ranks meet.
struct NodePlace {
  int num_nodes = 1, node_rank = 0;
  std::string address = "127.0.0.1";
  int port = 0;  // 0: none given
  std::optional<std::string> new_secret{};
};

void read_endpoint(const LaunchOptions& values, NodePlace& place) {
  if (!values.rdzv_endpoint.empty()) {
    const size_t colon = values.rdzv_endpoint.rfind(':');
    const auto port = colon == std::string::npos
                          ? std::nullopt
                          : core::parse_int(std::string_view(values.rdzv_endpoint).substr(colon + 1));
    if (!port || *port < 1 || *port > 65535 || colon == 0)
      throw UsageError(fmt::format("launch: --rdzv-endpoint '{}' is not of the form HOST:PORT", values.rdzv_endpoint),
                       "for example --rdzv-endpoint node1:29500");
    place.address = values.rdzv_endpoint.substr(0, colon);
    place.port = static_cast<int>(*port);
    const size_t size = place.address.size();
    if (size > 2 && place.address.front() == '[' && place.address.back() == ']')
      place.address = place.address.substr(1, size - 2);
  }
  if (!values.master_addr.empty()) place.address = values.master_addr;
  if (values.master_port) place.port = static_cast<int>(*values.master_port);
}

/// Place of this launcher when it is the only task of its node in a SLURM step of several nodes.
std::optional<NodePlace> place_in_slurm_step(const LaunchOptions& values) {
  if (values.node_rank || !core::env("SLURM_STEP_ID") || core::env("RANK")) return std::nullopt;
  const hw::RankInfo task = hw::discover_ranks({}, hw::process_env());
  if (task.source != "slurm" || task.world_size == 1) return std::nullopt;
  if (values.nnodes && *values.nnodes != task.world_size) return std::nullopt;
  if (task.local_world_size != 1)
    throw UsageError(
        fmt::format("launch: {} launchers run on this node, expected one: the SLURM step has several tasks per node",
                    task.local_world_size),
        "start the step with --ntasks-per-node=1, or leave launch out: srun starts the ranks itself");
  return NodePlace{
      .num_nodes = task.world_size, .node_rank = task.rank, .address = task.master_addr, .port = task.master_port};
}

NodePlace find_place(const LaunchOptions& values) {
  if (auto place = place_in_slurm_step(values)) {
    read_endpoint(values, *place);
    return *place;
  }
  NodePlace place{.num_nodes = static_cast<int>(values.nnodes.value_or(1)),
                  .node_rank = static_cast<int>(values.node_rank.value_or(0))};
  read_endpoint(values, place);
  if (place.num_nodes > 1 && !values.node_rank)
    throw UsageError(fmt::format("launch: --nnodes {} was given without --node-rank", place.num_nodes),
                     "run the same command on every node, with --node-rank or the variable NODE_RANK 0, 1, ...");
  if (place.num_nodes > 1 && (place.port == 0 || (values.rdzv_endpoint.empty() && values.master_addr.empty())))
    throw UsageError(fmt::format("launch: --nnodes {} needs --rdzv-endpoint HOST:PORT", place.num_nodes),
                     "HOST is the first node as the others reach it, PORT a free port there; the variables MASTER_ADDR "
                     "and MASTER_PORT say the same");
  if (place.node_rank >= place.num_nodes)
    throw UsageError(fmt::format("launch: --node-rank {} does not lie in [0, {})", place.node_rank, place.num_nodes),
                     "nodes count from 0");
  return place;
}

/// Of several nodes: ranks would wait minutes for a host that nobody knows. A name is asked for some seconds, since
/// clusters that start node 0 at the same time may not know it at once.
void check_address(const NodePlace& place) {
  if (place.num_nodes == 1) return;
  constexpr int kTries = 11;
  constexpr std::chrono::milliseconds kPause{500};
  std::string reason;
  std::vector<std::string> addresses;
  for (int attempt = 0; attempt < kTries && addresses.empty(); ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kPause);
    addresses = doctor::resolve(place.address, reason);
  }
  if (addresses.empty())
    throw CommError(fmt::format("launch: the host '{}', where the ranks are to meet, cannot be resolved: {}",
                                place.address, reason),
                    "name node 0 in --rdzv-endpoint (or MASTER_ADDR) as this node knows it, or by its address");
  if (place.node_rank == 0 && !doctor::are_own(addresses))
    core::log_warning(
        "launch: '{}' ({}) is no address of this machine, on which rank 0 runs: the other nodes wait elsewhere, unless "
        "it leads here (as into a container); else name this host in --rdzv-endpoint, or start its node with "
        "--node-rank 0",
        place.address, addresses.front());
}

/// Makes sure that rank 0 can listen, where rank 0 runs on this node.
void settle_port(NodePlace& place) {
  if (place.port == 0)
    place.port = find_free_port();
  else if (place.node_rank == 0 && !is_port_free(place.port, place.num_nodes == 1))
    throw EnvironmentError(fmt::format("launch: port {} on this host is in use by another program", place.port),
                           "choose another with --rdzv-endpoint or --master-port (on one node: leave both out)");
}

/// A secret without which nobody joins as a rank (docs/security.md). Launchers of several nodes cannot tell each other
/// one: there the variable must be set on all nodes, and goes to the ranks as every other.
void settle_secret(NodePlace& place) {
  if (place.num_nodes == 1 && core::env("LOCKSTEP_STORE_SECRET").value_or("").empty())
    place.new_secret = core::random_secret();
}

/// Beside the files in which ranks leave their messages.
std::filesystem::path run_folder_file(const std::filesystem::path& error_file) {
  return error_file.parent_path() / "run-folder";
}

core::ProcessOptions rank_process(const std::vector<std::string>& argv, const NodePlace& place, int local_rank,
                                  int local_size, const std::filesystem::path& error_file, bool is_other_program) {
  const int rank = place.node_rank * local_size + local_rank;
  core::ProcessOptions options{.argv = argv};
  const std::vector<std::pair<std::string, int>> numbers{{"RANK", rank},
                                                         {"LOCAL_RANK", local_rank},
                                                         {"WORLD_SIZE", place.num_nodes * local_size},
                                                         {"LOCAL_WORLD_SIZE", local_size},
                                                         {"GROUP_RANK", place.node_rank},
                                                         {"MASTER_PORT", place.port}};
  for (const auto& [name, value] : numbers) options.env_changes.emplace_back(name, std::to_string(value));
  options.env_changes.emplace_back("MASTER_ADDR", place.address);
  if (place.new_secret) options.env_changes.emplace_back("LOCKSTEP_STORE_SECRET", place.new_secret);
  options.env_changes.emplace_back("TORCHELASTIC_ERROR_FILE", error_file.string());
  options.env_changes.emplace_back("LOCKSTEP_RUN_FOLDER_FILE", run_folder_file(error_file).string());
  // Of an outer torchrun: our ranks host their store themselves and count no restarts.
  for (const char* name : {"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
                           "TORCHELASTIC_RUN_ID"})
    options.env_changes.emplace_back(name, std::nullopt);
  if (is_other_program && !core::env("OMP_NUM_THREADS"))  // ours shares out the cores by itself
    options.env_changes.emplace_back("OMP_NUM_THREADS",
                                     std::to_string(hw::cpu_threads_per_rank(hw::usable_cpu_cores(), local_size)));
  return options;
}

std::vector<std::string> command_line(const LaunchOptions& values, std::vector<std::string> command) {
  if (values.program.empty() && command.empty())
    throw UsageError("launch: nothing to start: no command follows the options",
                     "for example: lockstep launch --nproc-per-node 2 -- train clip --train-data ...");
  if (values.program.empty() && command.front() == "launch")
    throw UsageError("launch: cannot launch itself", "name the command to run, for example train");
  command.insert(command.begin(), values.program.empty() ? own_program().string() : values.program);
  return command;
}

/// Refuses a wrong command line of ours once, before there are ranks that would each refuse it. An exit code when all
/// is said: --help and --dry-run need no ranks.
std::optional<int> answer_without_ranks(const std::vector<std::string>& command, int num_ranks, int num_local_ranks) {
  if (core::starts_with(command.front(), "-")) return std::nullopt;  // --version and the like are no commands
  commands::ParsedCommand parsed = commands::parse_command_here(command);
  if (parsed.wants_help) core::print_text(parsed.set->help_text());
  const bool is_dry_run = parsed.run_options() != nullptr && parsed.run_options()->dry_run;
  if (parsed.wants_help) return 0;
  if (!is_dry_run) return std::nullopt;
  commands::read_files(parsed);
  return print_dry_run(
      parsed, tasks::WorldSize{.num_ranks = num_ranks, .source = "launch", .num_local_ranks = num_local_ranks});
}

}  // namespace

void visit_launch_options(const OptionVisitor& visit) {
  LaunchOptions values;
  visit(declare_options(values));
}

int cmd_launch(const commands::ParsedCommand& parsed_command) {
  const std::span<const std::string> args = parsed_command.rest;
  LaunchOptions values;
  core::OptionSet options = declare_options(values);
  const auto [flags, command] = split_command(args, options);
  if (std::find(flags.begin(), flags.end(), "--program") == flags.end()) refuse_other_program(args);
  options.parse(flags);
  if (options.wants_help()) {
    const std::string usage = "Usage: lockstep launch [FLAGS]";
    core::print_text(core::replace_all(options.help_text(), usage, usage + " -- COMMAND [ITS FLAGS]"));
    return 0;
  }
  if (const std::string ignored = options.ignored_warning(); !ignored.empty()) core::log_warning("launch: {}", ignored);
  fill_from_environment(values, options.is_given("nproc-per-node"));
  const std::vector<std::string> argv = command_line(values, command);
  NodePlace place = find_place(values);
  const int local_size = num_local_ranks(values.nproc_per_node);
  if (values.program.empty())
    if (const auto code = answer_without_ranks(command, place.num_nodes * local_size, local_size)) return *code;
  const core::TempDir error_folder("lockstep-launch");
  check_address(place);
  settle_port(place);
  settle_secret(place);
  std::vector<RankCommand> ranks;
  for (int local_rank = 0; local_rank < local_size; ++local_rank) {
    const std::filesystem::path error_file = error_folder.path() / fmt::format("{}.json", local_rank);
    ranks.push_back({.rank = place.node_rank * local_size + local_rank,
                     .process = rank_process(argv, place, local_rank, local_size, error_file, !values.program.empty()),
                     .error_file = error_file});
  }
  const bool has_prefix = !values.no_prefix && place.num_nodes * local_size > 1;
  const std::chrono::milliseconds kill_grace(static_cast<int64_t>(values.kill_grace_s * 1000));
  const GroupConfig group{.has_prefix = has_prefix,
                          .kill_grace = kill_grace,
                          .lost_rank_grace = options.is_given("kill-grace")
                                                 ? kill_grace
                                                 : hw::time_to_tell_of_lost_rank(place.num_nodes * local_size),
                          .run_folder_file = run_folder_file(ranks.front().error_file)};
  return run_rank_group(ranks, group);
}

}  // namespace lockstep::cli
