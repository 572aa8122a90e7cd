#include "support/ranks/local_hub.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.h"
#include "support/ranks/local_ops.h"

namespace lockstep::tests {

using comm::Backend, comm::Call, comm::OpKind;

/// One call of a group (or one transfer between two of its ranks) on its way: who has come, with what.
struct LocalHub::Op {
  Group* group = nullptr;
  int64_t sequence = 0;
  std::vector<int> members;                 // group ranks that take part, in order
  std::vector<std::optional<Call>> calls;   // in the order of members
  size_t num_arrived = 0, num_waiting = 0;  // the latter: of those that State counts
  bool is_done = false;
  std::condition_variable changed = {};  // who waits for this call alone
};

struct LocalHub::Group {
  std::string name;
  std::vector<int> ranks;                               // global rank of each group rank
  std::vector<int64_t> num_calls;                       // collectives begun by each group rank
  std::map<std::array<int, 3>, int64_t> num_transfers;  // {from, to, who calls} -> begun
  std::map<int64_t, std::shared_ptr<Op>> pending;
  std::map<std::array<int64_t, 3>, std::shared_ptr<Op>> pending_transfers;  // {from, to, number}
};

struct LocalHub::State {
  std::mutex mutex;
  std::chrono::milliseconds timeout;
  std::map<std::string, std::unique_ptr<Group>> groups;
  std::vector<bool> has_ended;  // by global rank
  std::vector<Op*> waits_for;   // by global rank; nullptr: does not wait
  std::map<Op*, int> waited;    // by how many threads
  // Ranks that have ended; ranks that wait for a call to which not all have come. A search through all ranks is made
  // only where these leave nobody at work: hundreds of ranks wait in every call.
  size_t num_ended = 0, num_waiting = 0;
  std::optional<std::string> failure;  // set once; ends everything

  void set_failure(const std::string& text) {
    if (!failure) failure = text;
    for (const auto& [op, count] : waited) op->changed.notify_all();
  }
  void end(int rank) {
    if (!has_ended[static_cast<size_t>(rank)]) ++num_ended;
    has_ended[static_cast<size_t>(rank)] = true;
  }
  bool may_be_hopeless(const Op& op) const {
    if (num_waiting + num_ended >= waits_for.size()) return true;
    const auto lacks = missing(op);
    return num_ended > 0 &&
           std::any_of(lacks.begin(), lacks.end(), [this](int rank) { return has_ended[static_cast<size_t>(rank)]; });
  }
  static std::string name_of(const Op& op) {
    for (const auto& call : op.calls)
      if (call) return fmt::format("{} #{} of group '{}'", describe(*call), op.sequence, op.group->name);
    return fmt::format("call #{} of group '{}'", op.sequence, op.group->name);
  }
  static std::vector<int> missing(const Op& op) {
    std::vector<int> out;
    for (size_t i = 0; i < op.members.size(); ++i)
      if (!op.calls[i]) out.push_back(op.group->ranks[static_cast<size_t>(op.members[i])]);
    return out;
  }
  std::optional<std::string> find_hopeless_wait() const;
};

/// What a waiting rank waits for in vain: a rank that has ended, or ranks that all wait for one another.
std::optional<std::string> LocalHub::State::find_hopeless_wait() const {
  bool all_wait = true;
  bool any_waits = false;
  const Op* seen = nullptr;
  for (size_t rank = 0; rank < waits_for.size(); ++rank) {
    const Op* op = waits_for[rank];
    if (has_ended[rank]) continue;
    if (op == nullptr || op->num_arrived == op->members.size()) {
      all_wait = false;
      continue;
    }
    any_waits = true;
    if (std::exchange(seen, op) == op) continue;
    for (const int other : missing(*op))
      if (has_ended[static_cast<size_t>(other)])
        return fmt::format("comm: rank {} waits in {} for rank {}, which has ended", rank, name_of(*op), other);
  }
  if (!all_wait || !any_waits) return std::nullopt;
  std::string waits;
  for (size_t rank = 0; rank < waits_for.size(); ++rank)
    if (const Op* op = waits_for[rank]; op != nullptr && !has_ended[rank])
      waits += fmt::format("{}rank {} in {}", waits.empty() ? "" : "; ", rank, name_of(*op));
  return fmt::format("comm: all ranks wait for each other: {}", waits);
}

class LocalBackend final : public Backend {
 public:
  LocalBackend(std::shared_ptr<LocalHub> hub, LocalHub::Group& group, int rank, int size)
      : Backend(rank, size, at::Device(at::kCPU)), hub_(std::move(hub)), group_(group) {}

  std::function<void()> start(Call call) override {
    const auto op = hub_->enter(group_, rank(), std::move(call));
    return [hub = hub_, op, rank = rank()] { hub->wait(op, rank); };
  }

 private:
  std::shared_ptr<LocalHub> hub_;
  LocalHub::Group& group_;
};

LocalHub::LocalHub(int num_ranks, std::chrono::milliseconds timeout) : state_(std::make_unique<State>()) {
  state_->timeout = timeout;
  state_->has_ended.assign(static_cast<size_t>(num_ranks), false);
  state_->waits_for.assign(static_cast<size_t>(num_ranks), nullptr);
}

LocalHub::~LocalHub() = default;

std::unique_ptr<Backend> LocalHub::join(const std::string& name, const std::vector<int>& ranks, int rank) {
  const std::lock_guard lock(state_->mutex);
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  LOCKSTEP_CHECK(place != ranks.end(), "comm: rank {} is not in group '{}'", rank, name);
  auto& group = state_->groups[name];
  if (!group) {
    group = std::make_unique<Group>();
    group->name = name;
    group->ranks = ranks;
    group->num_calls.assign(ranks.size(), 0);
  }
  LOCKSTEP_CHECK(group->ranks == ranks, "comm: ranks name different members of group '{}'", name);
  return std::make_unique<LocalBackend>(shared_from_this(), *group, static_cast<int>(place - ranks.begin()),
                                        static_cast<int>(ranks.size()));
}

void LocalHub::end_rank(int rank) {
  const std::lock_guard lock(state_->mutex);
  state_->end(rank);
  if (const auto why = state_->find_hopeless_wait()) state_->set_failure(*why);
}

void LocalHub::fail(int rank, const std::string& what) {
  const std::lock_guard lock(state_->mutex);
  state_->end(rank);
  state_->set_failure(fmt::format("comm: rank {} stopped: {}", rank, what));
}

/// Adds a rank's call to its operation and carries the operation out when all have come.
std::shared_ptr<LocalHub::Op> LocalHub::enter(Group& group, int group_rank, Call call) {
  std::unique_lock lock(state_->mutex);
  if (state_->failure) throw CommError(*state_->failure);
  const bool is_transfer = call.kind == OpKind::kSend || call.kind == OpKind::kReceive;
  const bool is_send = call.kind == OpKind::kSend;
  const int from = is_send ? group_rank : call.peer;
  const int to = is_send ? call.peer : group_rank;
  const int64_t number =
      is_transfer ? ++group.num_transfers[{from, to, group_rank}] : ++group.num_calls[static_cast<size_t>(group_rank)];
  auto& slot = is_transfer ? group.pending_transfers[{from, to, number}] : group.pending[number];
  if (!slot) {
    slot = std::make_shared<Op>();
    slot->group = &group;
    slot->sequence = number;
    if (is_transfer)
      slot->members = {from, to};
    else
      for (int i = 0; i < static_cast<int>(group.ranks.size()); ++i) slot->members.push_back(i);
    slot->calls.resize(slot->members.size());
  }
  const auto op = slot;
  const auto first =
      std::find_if(op->calls.begin(), op->calls.end(), [](const auto& other) { return other.has_value(); });
  if (first != op->calls.end()) {
    const std::string why = mismatch(**first, call);
    if (!why.empty()) {
      const int other = group.ranks[static_cast<size_t>(op->members[static_cast<size_t>(first - op->calls.begin())])];
      state_->set_failure(fmt::format(
          "comm: ranks disagree in call #{} of group '{}' ({}): rank {} calls {}, rank {} calls {}", number, group.name,
          why, other, describe(**first), group.ranks[static_cast<size_t>(group_rank)], describe(call)));
      throw CommError(*state_->failure);
    }
  }
  const auto place =
      static_cast<size_t>(std::find(op->members.begin(), op->members.end(), group_rank) - op->members.begin());
  op->calls[place] = std::move(call);
  if (++op->num_arrived < op->members.size()) return op;

  state_->num_waiting -= std::exchange(op->num_waiting, 0);  // from now on they wait for this thread
  if (is_transfer)
    group.pending_transfers.erase({from, to, number});
  else
    group.pending.erase(number);
  lock.unlock();
  std::vector<Call> calls;
  for (auto& entry : op->calls) calls.push_back(std::move(*entry));
  try {
    execute(calls);
  } catch (const std::exception& error) {
    lock.lock();
    state_->set_failure(fmt::format("comm: call #{} of group '{}' failed: {}", number, group.name, error.what()));
    throw;
  }
  lock.lock();
  op->is_done = true;
  op->changed.notify_all();
  return op;
}

void LocalHub::wait(const std::shared_ptr<Op>& op, int group_rank) {
  std::unique_lock lock(state_->mutex);
  if (op->is_done) return;
  const auto rank = static_cast<size_t>(op->group->ranks[static_cast<size_t>(group_rank)]);
  const auto deadline = std::chrono::steady_clock::now() + state_->timeout;
  state_->waits_for[rank] = op.get();
  ++state_->waited[op.get()];
  if (op->num_arrived < op->members.size()) {
    ++op->num_waiting;
    ++state_->num_waiting;
    if (state_->may_be_hopeless(*op))
      if (const auto why = state_->find_hopeless_wait()) state_->set_failure(*why);
  }
  while (!op->is_done && !state_->failure) {
    if (op->changed.wait_until(lock, deadline) == std::cv_status::timeout && !op->is_done && !state_->failure)
      state_->set_failure(fmt::format("comm: {} timed out after {} ms: ranks {} did not come", State::name_of(*op),
                                      state_->timeout.count(), fmt::join(State::missing(*op), ",")));
  }
  state_->waits_for[rank] = nullptr;
  if (--state_->waited[op.get()] == 0) state_->waited.erase(op.get());
  if (!op->is_done) throw CommError(*state_->failure);
}

}  // namespace lockstep::tests
