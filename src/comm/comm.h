#pragma once
#include <ATen/core/TensorBody.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/reduce_op.h"

namespace lockstep::comm {

/// A pending collective. It keeps the tensors it works on alive.
class Work {
 public:
  /// Work that is already done (a group of one).
  Work() = default;
  /// `wait` is dropped after its first success.
  explicit Work(std::function<void()> wait) : wait_(std::move(wait)) {}
  /// On the CPU blocks the host until the collective is done; on CUDA makes the current stream wait and returns. Throws
  /// CommError that names the collective, the group and, on a timeout, the ranks that are missing. May be called once
  /// or more.
  void wait();

 private:
  std::function<void()> wait_;
};

class Backend;    // one transport: NCCL, Gloo, or the threads of tests (comm/backend.h)
class Recorder;   // counts, bytes and times of collectives (comm/recorder.h)
class Progress;   // who has come how far, for messages (comm/progress.h)
struct Call;      // one collective as a transport sees it (comm/backend.h)
struct CallMark;  // the same as messages name it (comm/progress.h)

/// One message of an exchange.
struct Transfer {
  bool is_send = true;
  at::Tensor tensor{};  ///< Sent, or received into.
  int peer = 0;         ///< Rank of the group.
};

/// One group of ranks and its collectives. A group of one sends nothing: every call copies or returns at once.
///
/// All ranks of a group call the same collectives in the same order with equal element count and dtype; tensors must be
/// non-overlapping and dense. Calls return before the collective is done: until Work::wait() nobody may read or write
/// the tensors. Not thread safe: one thread at a time uses a group.
class Comm {
 public:
  Comm();  ///< A group of one.
  /// `global_ranks` (rank list of the group within the job; empty: 0 .. size-1) and `progress` serve messages only.
  Comm(std::shared_ptr<Backend> backend, std::shared_ptr<Recorder> recorder, std::string axis,
       std::shared_ptr<Progress> progress = nullptr, std::vector<int> global_ranks = {});
  Comm(Comm&&) noexcept;
  Comm& operator=(Comm&&) noexcept;
  ~Comm();

  int rank() const;  ///< Within this group.
  int size() const;
  const std::string& axis() const;               ///< "world", "dp", "tp", "pp": for messages.
  const std::vector<int>& global_ranks() const;  ///< Of this group's ranks in order, within the job.

  Work all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::kSum);  ///< In place.
  Work all_gather_into(at::Tensor output, const at::Tensor& input);  ///< output dim 0 = size() x input dim 0.
  /// input dim 0 = size() x output dim 0.
  Work reduce_scatter_into(at::Tensor output, const at::Tensor& input, ReduceOp op = ReduceOp::kSum);
  Work broadcast(at::Tensor tensor, int root);
  /// Row block r of `input` (dim 0 split evenly) goes to rank r; row block r of `output` comes from rank r. Not in
  /// place.
  Work all_to_all_into(at::Tensor output, const at::Tensor& input);
  Work send(const at::Tensor& tensor, int to);
  Work receive(at::Tensor tensor, int from);
  /// Messages that are started together: none waits for another of them, in whatever order the other ranks name theirs
  /// (but for several from one rank to another). NCCL sends and receives them at once. One Work for each.
  std::vector<Work> exchange(const std::vector<Transfer>& transfers);
  void barrier();
  /// CommError when a rank of the job is known to have failed: what has been sent may never have arrived, and device
  /// work that waited for it has ended with undefined results. Call it behind waits of the host for the device.
  void check_alive() const;

  /// Strings of all ranks, in rank order (host data: errors, paths, positions). Collective; blocks.
  std::vector<std::string> gather_strings(const std::string& mine);
  std::string broadcast_string(const std::string& text, int root);

  /// Number of calls so far of "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send",
  /// "receive", "barrier".
  int64_t count(std::string_view kind) const;
  Recorder& recorder();

 private:
  struct State;
  Work start(Call call, int64_t bytes);
  CallMark announce(Call& call, int64_t bytes);
  Work under_way(const CallMark& mark, std::chrono::steady_clock::time_point begin, double start_ms,
                 std::function<void()> wait);
  Work start_unless_alone(Call call, int64_t bytes);
  at::Tensor host_bytes(const std::string& text, int64_t padded_bytes) const;

  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
