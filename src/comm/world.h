#pragma once
#include <ATen/core/TensorBody.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/join_notice.h"
#include "comm/mesh.h"
#include "core/error.h"
#include "hw/ranks.h"

namespace lockstep::comm {

struct StoreCalls;  // comm/store_calls.h

struct WorldOptions {
  std::string backend = "gloo";              ///< "gloo" or "nccl"; anything else is a UsageError.
  at::Device device = at::Device(at::kCPU);  ///< NCCL: the GPU of this rank.
  std::string device_key{};                  ///< Two ranks of a host with the same one are refused; "": not known.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};       ///< Of one collective.
  std::chrono::milliseconds join_timeout{std::chrono::minutes(15)};  ///< Until all ranks have come.
  /// From a failure until the process has written what it has and ended, else it is ended: a file system may stand
  /// still.
  std::chrono::milliseconds time_to_leave{std::chrono::minutes(10)};
  NoticeTimes notice_times{};                      ///< When the log says whom this rank waits for.
  std::chrono::milliseconds report_interval{500};  ///< Between two signs of life in the store; longer in big jobs.
  std::shared_ptr<StoreCalls> store_calls{};       ///< Where given: counts this rank's calls.
  /// Gloo: compare operation, size and type on all ranks before each collective (slow).
  bool check_collectives = false;
};

/// The processes of one job, this one among them.
///
/// Groups made here must end before the World does. Errors of a group name the collective, the axis and, as far as they
/// can be found out, the ranks that are missing: each process publishes its progress to the job's store.
class World {
 public:
  /// Meets the other ranks. Collective. One rank meets nobody and opens no port.
  /// CommError: ranks that did not come (named), a store that cannot be reached, two processes with one rank.
  /// EnvironmentError: a port in use; two ranks on one GPU; ranks on devices of different kinds.
  static World join(const hw::RankInfo& info, const WorldOptions& options);
  World(World&&) noexcept;
  ~World();  ///< As leave(); after an exception as report_failure() with no text.

  int rank() const;
  int size() const;
  Comm& comm();  ///< All ranks, axis "world".
  /// The group of `global_ranks`, of which this rank is one, by name (Mesh::MakeGroup). Collective over them; (name,
  /// first rank) must be new.
  Comm group(const std::string& name, const std::vector<int>& global_ranks);
  Recorder& recorder();  ///< Of all groups made here.
  /// How long join() took: until all ranks had met, and from there until the group of all was connected.
  struct JoinTimes {
    double rendezvous_ms = 0, communicator_ms = 0;
  };
  const JoinTimes& join_times() const;

  /// For long work of rank 0 alone: the others wait in it until rank 0 calls it, beyond the time limit of collectives,
  /// as long as rank 0 lives. CommError that names `what` when rank 0 has failed or gives no sign of life. Every rank
  /// calls it.
  void wait_for_rank_zero(const std::string& what);

  /// For long work of all ranks, each a share of it: returns when all have called it, beyond the time limit of
  /// collectives, as long as they live. CommError that names `what` when one has failed. Every rank calls it.
  void wait_for_all(const std::string& what);

  /// For work beside collectives, in any thread: what this rank is at ("": nothing), and whether a rank is at `work` by
  /// its last sign of life, which may be seconds old. False where no such signs are given.
  void tell_work(const std::string& work);
  bool is_at_work(int rank, const std::string& work) const;

  /// From here on this process has WorldOptions::time_to_leave to write what it has and to end, or this World has; then
  /// it is ended with `code`. For what is written before report_failure(), which begins with it.
  void limit_time_to_leave(ExitCode code);
  /// Tells the others why this process ends; call it where an error of this rank is caught.
  void report_failure(const std::string& text, ExitCode code);
  /// Behind report_failure(): which rank failed first, by the store or by what this rank found out itself. Nothing
  /// where neither knows, or where this rank noticed no failure but its own.
  std::optional<int> first_failing_rank() const;
  /// Ends this rank's part; the rank that serves the store waits for the others, within limits.
  void leave();

 private:
  struct State;
  explicit World(std::unique_ptr<State> state);
  void connect();
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
