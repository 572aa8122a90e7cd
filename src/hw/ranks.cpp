#include "hw/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "core/counted.h"
#include "core/env.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"
#include "hw/hostlist.h"

namespace lockstep::hw {
namespace {

/// Typed access to the environment, with errors that name the variable.
class Variables {
 public:
  explicit Variables(const EnvLookup& env) : env_(env) {}

  std::optional<std::string> text(const std::string& name) const {
    auto value = env_(name);
    if (value && value->empty()) return std::nullopt;
    return value;
  }

  /// First of `names` that is set.
  std::optional<std::string> first_text(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (auto value = text(name)) return value;
    }
    return std::nullopt;
  }

  std::optional<int> number(const std::string& name, int lowest, int highest) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto parsed = core::parse_int(*value);
    if (!parsed || *parsed < lowest || *parsed > highest)
      throw EnvironmentError(
          fmt::format("hw: {}='{}' is not a whole number in [{}, {}]", name, value->substr(0, 80), lowest, highest),
          "unset it, or start the ranks with `lockstep launch`, torchrun or srun, which set it");
    return static_cast<int>(*parsed);
  }

  std::optional<int> count(const std::string& name) const { return number(name, 0, kMaxRanks); }

  std::optional<int> first_count(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (auto value = count(name)) return value;
    }
    return std::nullopt;
  }

  int required(const std::string& name, const std::string& because) const {
    const auto value = count(name);
    if (!value)
      throw EnvironmentError(fmt::format("hw: {} is not set although {}", name, because),
                             fmt::format("set {} too, or unset the other", name));
    return *value;
  }

 private:
  static constexpr int kMaxRanks = 1'000'000;
  const EnvLookup& env_;
};

/// What every source must fulfil. `rank_name` and `world_name` are variables or flags.
template <typename ErrorType> void check_range(int rank, int world, const char* rank_name, const char* world_name) {
  if (world < 1) throw ErrorType(fmt::format("hw: {}={} must be at least 1", world_name, world));
  if (rank < 0 || rank >= world)
    throw ErrorType(
        fmt::format("hw: {}={} does not lie in [0, {}), as {}={} demands", rank_name, rank, world, world_name, world),
        "ranks count from 0");
}

void set_local(RankInfo& info, std::optional<int> local_rank, std::optional<int> local_size, const char* rank_name,
               const char* size_name) {
  if (!local_rank && info.world_size > 1)
    info.warnings.push_back(
        fmt::format("hw: {} is not set; this rank takes device 0, as if alone on its node", rank_name));
  info.local_rank = local_rank.value_or(0);
  info.local_world_size = local_size.value_or(info.local_rank + 1);
  check_range<EnvironmentError>(info.local_rank, info.local_world_size, rank_name, size_name);
  if (info.local_world_size > info.world_size && local_size)
    throw EnvironmentError(fmt::format("hw: {}={} is more than the {} of the world", size_name, *local_size,
                                       core::counted(info.world_size, "rank")));
}

/// Counts comma-separated numbers of SLURM_GTIDS, the ranks of this node.
std::optional<int> count_gtids(const Variables& env) {
  const auto gtids = env.text("SLURM_GTIDS");
  if (!gtids) return std::nullopt;
  return static_cast<int>(core::split(*gtids, ",").size());
}

std::optional<int> slurm_local_size(const Variables& env, int node_rank) {
  if (const auto per_node = env.text("SLURM_STEP_TASKS_PER_NODE")) {
    const std::vector<int> counts = parse_task_counts(*per_node);
    if (node_rank >= 0 && static_cast<size_t>(node_rank) < counts.size()) return counts[static_cast<size_t>(node_rank)];
  }
  return count_gtids(env);
}

bool in_slurm_step(const Variables& env) { return env.text("SLURM_STEP_ID").has_value(); }

std::optional<RankInfo> from_flags(const RankFlags& flags, const Variables& env) {
  if (!flags.rank && !flags.world_size) return std::nullopt;
  if (!flags.rank || !flags.world_size)
    throw UsageError(fmt::format("hw: {} was given without {}", flags.rank ? "--dist-rank" : "--dist-world-size",
                                 flags.rank ? "--dist-world-size" : "--dist-rank"),
                     "give both, or none and start the ranks with `lockstep launch`");
  RankInfo info{.rank = *flags.rank, .world_size = *flags.world_size, .source = "flags"};
  check_range<UsageError>(info.rank, info.world_size, "--dist-rank", "--dist-world-size");
  set_local(info, flags.local_rank ? flags.local_rank : env.count("LOCAL_RANK"),
            flags.local_world_size ? flags.local_world_size : env.count("LOCAL_WORLD_SIZE"), "LOCAL_RANK",
            "LOCAL_WORLD_SIZE");
  info.node_rank = info.world_size == 1 ? 0 : -1;
  return info;
}

std::optional<RankInfo> from_torchrun(const Variables& env) {
  if (!env.text("RANK")) return std::nullopt;
  RankInfo info{.rank = env.required("RANK", ""), .source = "torchrun"};
  info.world_size = env.required("WORLD_SIZE", fmt::format("RANK={} is", info.rank));
  check_range<EnvironmentError>(info.rank, info.world_size, "RANK", "WORLD_SIZE");
  std::optional<int> local_rank = env.count("LOCAL_RANK"), local_size = env.count("LOCAL_WORLD_SIZE");
  std::optional<int> node_rank = env.first_count({"GROUP_RANK", "NODE_RANK"});
  if (!local_rank && in_slurm_step(env)) {  // scripts that export RANK=$SLURM_PROCID and leave the rest to SLURM
    local_rank = env.count("SLURM_LOCALID");
    node_rank = node_rank ? node_rank : env.count("SLURM_NODEID");
    if (!local_size) local_size = slurm_local_size(env, node_rank.value_or(-1));
  }
  set_local(info, local_rank, local_size, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  info.node_rank = node_rank.value_or(info.world_size == info.local_world_size ? 0 : -1);
  const std::string hosted = core::to_lower_ascii(env.text("TORCHELASTIC_USE_AGENT_STORE").value_or("false"));
  info.store_is_hosted_by_launcher = hosted == "true" || hosted == "1";
  info.attempt = env.count("TORCHELASTIC_RESTART_COUNT").value_or(0);
  return info;
}

std::optional<RankInfo> from_slurm(const Variables& env) {
  if (!in_slurm_step(env)) return std::nullopt;
  const std::string because =
      fmt::format("SLURM_STEP_ID={} says that this is a task of srun", *env.text("SLURM_STEP_ID"));
  const char* size_name = env.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  RankInfo info{
      .rank = env.required("SLURM_PROCID", because), .world_size = env.required(size_name, because), .source = "slurm"};
  check_range<EnvironmentError>(info.rank, info.world_size, "SLURM_PROCID", size_name);
  info.node_rank = env.count("SLURM_NODEID").value_or(info.world_size == 1 ? 0 : -1);
  set_local(info, env.count("SLURM_LOCALID"), slurm_local_size(env, info.node_rank), "SLURM_LOCALID",
            "SLURM_STEP_TASKS_PER_NODE");
  info.attempt = env.count("SLURM_RESTART_COUNT").value_or(0);
  return info;
}

std::optional<RankInfo> from_openmpi(const Variables& env) {
  if (!env.text("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  RankInfo info{.rank = env.required("OMPI_COMM_WORLD_RANK", ""), .source = "openmpi"};
  info.world_size = env.required("OMPI_COMM_WORLD_SIZE", fmt::format("OMPI_COMM_WORLD_RANK={} is", info.rank));
  check_range<EnvironmentError>(info.rank, info.world_size, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  set_local(info, env.count("OMPI_COMM_WORLD_LOCAL_RANK"), env.count("OMPI_COMM_WORLD_LOCAL_SIZE"),
            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  info.node_rank = info.world_size == info.local_world_size ? 0 : -1;
  return info;
}

std::optional<RankInfo> from_pmi(const Variables& env) {
  const char* rank_name = env.text("PMI_RANK") ? "PMI_RANK" : "PMIX_RANK";
  if (!env.text(rank_name)) return std::nullopt;
  RankInfo info{.rank = env.required(rank_name, ""), .source = "pmi"};
  const char* size_name = "PMI_SIZE";
  for (const char* name : {"PMI_SIZE", "PMI_UNIVERSE_SIZE", "PMIX_SIZE"}) {
    if (env.text(size_name)) break;
    size_name = name;
  }
  if (!env.text(size_name))
    throw EnvironmentError(
        fmt::format("hw: {}={} is set, but neither PMI_SIZE nor PMIX_SIZE says how many ranks there are", rank_name,
                    info.rank),
        "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or unset it for a single process");
  info.world_size = env.required(size_name, "");
  check_range<EnvironmentError>(info.rank, info.world_size, rank_name, size_name);
  set_local(info, env.first_count({"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "PMIX_LOCAL_RANK"}),
            env.first_count({"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE", "PMIX_LOCAL_SIZE"}),
            "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  info.node_rank = info.world_size == info.local_world_size ? 0 : -1;
  return info;
}

/// Ranks that mpirun or mpiexec started inside an allocation inherit SLURM's variables of the launcher's own step;
/// where the two disagree, the launcher nearer to the process is right. (srun sets no OMPI_ variables, and its PMI_
/// ones agree with its own.)
std::optional<RankInfo> from_slurm_or_inner_mpi(const Variables& env) {
  std::optional<RankInfo> slurm = from_slurm(env);
  if (!slurm) return std::nullopt;
  std::optional<RankInfo> inner = from_openmpi(env);
  if (!inner && env.text("PMI_RANK") && env.text("PMI_SIZE")) inner = from_pmi(env);
  if (!inner || (inner->rank == slurm->rank && inner->world_size == slurm->world_size)) return slurm;
  inner->warnings.push_back(
      fmt::format("hw: the step of SLURM says rank {} of {}, the MPI launcher inside it rank {} of {}: taking the "
                  "latter",
                  slurm->rank, slurm->world_size, inner->rank, inner->world_size));
  return inner;
}

RankInfo single_rank(const Variables& env) {
  RankInfo info;
  const auto tasks = env.text("SLURM_JOB_ID") ? env.count("SLURM_NTASKS") : std::nullopt;
  if (tasks && *tasks > 1) {
    info.num_unused_tasks = *tasks;
    info.warnings.push_back(
        fmt::format("hw: this is the batch shell of a job with SLURM_NTASKS={}, not a task of srun: running as one "
                    "process; start with `srun lockstep ...` to use all of them",
                    *tasks));
  }
  return info;
}

bool started_by_mpi(const RankInfo& info) { return info.source == "openmpi" || info.source == "pmi"; }

/// First host of the step; of the job for ranks of an MPI launcher, whose own steps leave the head node out.
std::optional<std::string> first_slurm_host(const RankInfo& info, const Variables& env) {
  std::optional<std::string> list = started_by_mpi(info) ? std::nullopt : env.text("SLURM_STEP_NODELIST");
  if (!list) list = env.first_text({"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!list) return std::nullopt;
  return expand_hostlist(*list).front();
}

std::string find_address(const RankInfo& info, const RankFlags& flags, const Variables& env) {
  if (flags.master_addr) return *flags.master_addr;
  if (const auto address = env.text("MASTER_ADDR")) return *address;
  const bool one_node = info.world_size == info.local_world_size;
  if (info.world_size == 1 || (one_node && info.source != "flags")) return "127.0.0.1";
  if (info.source != "flags" && (in_slurm_step(env) || started_by_mpi(info))) {
    if (const auto host = first_slurm_host(info, env)) return *host;
  }
  throw EnvironmentError(fmt::format("hw: MASTER_ADDR is not set, and nothing else says where the {} ranks ({}) meet",
                                     info.world_size, info.source),
                         "give --dist-url tcp://HOST:PORT, or export MASTER_ADDR with the host name of rank 0");
}

int find_port(const RankInfo& info, const RankFlags& flags, const Variables& env) {
  if (flags.master_port) {
    if (*flags.master_port < 1 || *flags.master_port > 65535)
      throw UsageError(fmt::format("hw: port {} of --dist-url does not lie in [1, 65535]", *flags.master_port));
    return *flags.master_port;
  }
  if (const auto port = env.number("MASTER_PORT", 1, 65535)) return *port;
  if (info.world_size == 1) return 0;
  const bool by_mpi = started_by_mpi(info);
  const bool hashable = info.source == "slurm" || by_mpi ||
                        (info.source == "torchrun" && in_slurm_step(env) && !info.store_is_hosted_by_launcher);
  if (!hashable)
    throw EnvironmentError(
        fmt::format("hw: MASTER_PORT is not set, and nothing else says where the {} ranks ({}) meet", info.world_size,
                    info.source),
        "give --dist-url tcp://HOST:PORT, or export MASTER_PORT with a free port of the host of rank 0");
  const auto job =
      by_mpi ? env.first_text({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID", "PMI_JOBID", "SLURM_JOB_ID"})
             : env.text("SLURM_JOB_ID");
  const std::string step = by_mpi ? "" : env.text("SLURM_STEP_ID").value_or("");
  return hashed_port(job.value_or(fmt::format("{}/{}", env.text("USER").value_or(""), info.world_size)), step,
                     info.slurm_restart_count);
}

}  // namespace

EnvLookup process_env() {
  return [](const std::string& name) { return core::env(name.c_str()); };
}

int hashed_port(const std::string& job, const std::string& step, int restart) {
  constexpr uint64_t kFirst = 20000, kCount = 12000;
  return static_cast<int>(kFirst + core::stable_hash(fmt::format("{}/{}/{}", job, step, restart)) % kCount);
}

RankInfo discover_ranks(const RankFlags& flags, const EnvLookup& env_lookup) {
  const Variables env(env_lookup);
  std::optional<RankInfo> found = from_flags(flags, env);
  if (!found) found = from_torchrun(env);
  if (!found) found = from_slurm_or_inner_mpi(env);
  if (!found) found = from_openmpi(env);
  if (!found) found = from_pmi(env);
  RankInfo info = found ? *std::move(found) : single_rank(env);
  info.slurm_restart_count = env.count("SLURM_RESTART_COUNT").value_or(0);
  info.job_id = env.text("SLURM_JOB_ID").value_or("");
  if (info.source != "flags" && flags.local_rank) {
    info.local_rank = *flags.local_rank;
    info.local_world_size = std::max(info.local_world_size, info.local_rank + 1);
  }
  info.master_addr = find_address(info, flags, env);
  info.master_port = find_port(info, flags, env);
  return info;
}

}  // namespace lockstep::hw
