#include "doctor/checks.h"

#include <algorithm>
#include <exception>
#include <string_view>

namespace lockstep::doctor {
namespace {

constexpr CheckInfo kChecks[] = {
    {"ranks", "variables of launchers that are missing, no numbers, or contradict each other", ExitCode::kEnvironment,
     check_ranks},
    {"master",
     "a master address that cannot be resolved or is another machine's, a master port that is taken or blocked",
     ExitCode::kCommunication, check_master},
    {"interfaces", "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME that name no interface, links that are down",
     ExitCode::kCommunication, check_interfaces},
    {"variables", "variables of NCCL, Gloo, CUDA and OpenMP that are known faults, here or on the system",
     ExitCode::kEnvironment, check_variables},
    {"infiniband",
     "InfiniBand ports that are not active, cards that NCCL_IB_HCA names and that are not here, a libibverbs that "
     "cannot be loaded",
     ExitCode::kCommunication, check_infiniband},
    {"libtorch", "a LibTorch that the engine does not find, or that is not the one it was built for",
     ExitCode::kEnvironment, check_libtorch},
    {"gpus",
     "GPUs that cannot be used or that the command asks for in vain: driver missing or older than LibTorch's CUDA "
     "needs, hidden or too few GPUs, none",
     ExitCode::kEnvironment, check_gpus},
    {"limits", "too few open files or processes, too little locked memory", ExitCode::kEnvironment, check_limits},
    {"shm", "a /dev/shm that is missing, small or full", ExitCode::kEnvironment, check_shared_memory},
    {"cores", "processes bound to fewer cores than they should have", ExitCode::kEnvironment, check_cores},
    {"memory", "too little memory, counting the limits of control groups and SLURM, and the plan of the command",
     ExitCode::kEnvironment, check_memory},
    {"folder", "a folder of runs (--logs) that cannot be written, is full or slow", ExitCode::kEnvironment,
     check_folder},
    {"locks", "a file system of runs without flock, which checkpoints and indices use", ExitCode::kEnvironment,
     check_locks},
    {"data", "data that is not there, empty or cannot be read", ExitCode::kData, check_data},
    {"remote-data", "data behind s3:// and https:// that is not there, empty, refused, or served without ranges",
     ExitCode::kData, check_remote_data},
    {"remote-sync", "storage of --remote-sync that does not take, give back and remove a small file",
     ExitCode::kEnvironment, check_remote_sync},
    {"copies", "the rate of copies in memory", ExitCode::kEnvironment, check_copies},
    {"memory-rate", "memory (triad, all threads of a rank) slower than the system of --system says",
     ExitCode::kEnvironment, check_memory_rate},
    {"meeting", "ranks that do not come, die or do not answer", ExitCode::kCommunication, nullptr},
    {"version", "ranks that run another program", ExitCode::kEnvironment, nullptr},
    {"options", "ranks that were started with other options", ExitCode::kUsage, nullptr},
    {"clocks", "wall clocks of nodes that differ", ExitCode::kEnvironment, nullptr},
    {"pairs", "pairs of nodes that do not reach each other", ExitCode::kCommunication, nullptr},
    {"network-rate", "ways between nodes (TCP) slower than the system says, or than the others",
     ExitCode::kCommunication, nullptr},
    {"same-data", "data that has another size on another node", ExitCode::kData, nullptr},
};

}  // namespace

std::span<const CheckInfo> checks() { return kChecks; }

std::vector<Finding> run_checks(const Question& question) {
  std::vector<Finding> findings;
  for (const CheckInfo& check : kChecks) {
    if (check.run == nullptr) continue;
    Report report(check.name, findings);
    try {
      check.run(question, report);
    } catch (const Error& error) {
      report.error(error.what(), error.hint());
    } catch (const std::exception& error) {
      report.error(fmt::format("this check could not be made: {}", error.what()), "tell us, with this report");
    }
  }
  return findings;
}

ExitCode exit_code_of(std::span<const Finding> findings, bool is_strict) {
  int code = 0;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError && !(is_strict && finding.severity == Severity::kWarning)) continue;
    const auto check = std::find_if(std::begin(kChecks), std::end(kChecks), [&](const CheckInfo& info) {
      return std::string_view(info.name) == finding.check;
    });
    LOCKSTEP_CHECK(check != std::end(kChecks), "doctor: a finding of '{}', which is no check", finding.check);
    code = std::max(code, static_cast<int>(check->code));
  }
  return static_cast<ExitCode>(code);
}

}  // namespace lockstep::doctor
