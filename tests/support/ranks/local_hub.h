#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/backend.h"

namespace lockstep::tests {

/// Where ranks that are threads of one process meet. A call is carried out once, by the thread that comes last, in rank
/// order, so results do not depend on timing; 16-bit floats are added in fp32. Refused with a CommError on every rank:
/// calls that differ in operation, element count, type or memory layout; waiting for a rank that has ended; all ranks
/// waiting for each other; a wait longer than the time limit.
class LocalHub : public std::enable_shared_from_this<LocalHub> {
 public:
  static constexpr std::chrono::seconds kDefaultTimeout{300};

  explicit LocalHub(int num_ranks, std::chrono::milliseconds timeout = kDefaultTimeout);
  ~LocalHub();

  /// The transport of `rank` (one of `ranks`, which all name the same list) in the group called `name`. Not collective.
  std::unique_ptr<comm::Backend> join(const std::string& name, const std::vector<int>& ranks, int rank);
  /// `rank` will make no more calls; who waits for it fails.
  void end_rank(int rank);
  /// `rank` has failed: every wait, and every later call, throws CommError with this text.
  void fail(int rank, const std::string& what);

 private:
  friend class LocalBackend;
  struct Op;
  struct Group;
  struct State;

  std::shared_ptr<Op> enter(Group& group, int group_rank, comm::Call call);
  void wait(const std::shared_ptr<Op>& op, int group_rank);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::tests
