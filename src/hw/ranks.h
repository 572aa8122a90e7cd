#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::hw {

/// Value of a variable of the environment; nothing when unset. An empty value counts as unset.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The environment of this process.
EnvLookup process_env();

/// Identity given on the command line (--dist-rank, --dist-world-size, --dist-local-rank, --dist-url). `rank` and
/// `world_size` come together; the rest completes them, or overrides what is discovered.
struct RankFlags {
  std::optional<int> rank{};
  std::optional<int> world_size{};
  std::optional<int> local_rank{};
  std::optional<int> local_world_size{};
  std::optional<std::string> master_addr{};
  std::optional<int> master_port{};
};

/// Who this process is among the ranks, and where they meet.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        ///< Among the ranks of this node.
  int local_world_size = 1;  ///< Ranks of this node; where nobody says, a lower bound (local_rank + 1).
  int node_rank = 0;         ///< Index of this node; -1 where nobody says (nodes may hold unequal numbers of ranks).
  std::string master_addr = "127.0.0.1";
  int master_port = 0;                       ///< 0 only for one rank, which meets nobody.
  bool store_is_hosted_by_launcher = false;  ///< torchrun's agent store: every rank, rank 0 too, connects as a client.
  int attempt = 0;  ///< Restarts so far (torchrun's or SLURM's count): prefix keys of the store with it.
  /// Above 0 for a requeued SLURM job, whoever started the ranks: implies --resume latest.
  int slurm_restart_count = 0;
  int num_unused_tasks = 0;             ///< Tasks of a SLURM job in whose batch shell this is one process; 0 elsewhere.
  std::string job_id{};                 ///< SLURM's, empty elsewhere.
  std::string source = "single";        ///< "flags", "torchrun", "slurm", "openmpi", "pmi" or "single".
  std::vector<std::string> warnings{};  ///< For the log of the run.
};

/// Finds the identity of this process: flags, torchrun (RANK, WORLD_SIZE, ...), SLURM (inside a step only), Open MPI,
/// PMI, one rank. MASTER_ADDR and MASTER_PORT without RANK override address and port of whatever is found. Without
/// MASTER_PORT the port is a hash of (job, step, restart) in [20000, 32000). Values that are missing, no numbers or
/// contradict each other throw EnvironmentError (UsageError for flags) that names variable and value. Reads nothing but
/// `env`.
RankInfo discover_ranks(const RankFlags& flags, const EnvLookup& env);

/// The port that all ranks of (job, step, restart) agree on without talking: in [20000, 32000), below the ephemeral
/// ports.
int hashed_port(const std::string& job, const std::string& step, int restart);

}  // namespace lockstep::hw
