#include "comm/world.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/backend.h"
#include "comm/backend_gloo.h"
#include "comm/backend_nccl.h"
#include "comm/error_text.h"
#include "comm/join_notice.h"
#include "comm/local_address.h"
#include "comm/recorder.h"
#include "comm/store.h"
#include "comm/store_calls.h"
#include "comm/store_progress.h"
#include "core/clock.h"
#include "core/env.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/strings.h"
#include "core/system_failure.h"
#include "hw/signs_of_life.h"

namespace lockstep::comm {
namespace {

using core::Clock;

using std::chrono::milliseconds;

/// How long the rank that serves the store stays for the others: after its regular end, and after an error.
constexpr milliseconds kStayForOthers = std::chrono::seconds(30);
constexpr milliseconds kStayAfterFailure = std::chrono::seconds(5);
constexpr milliseconds kPollInterval{20};

std::string store_name(const hw::RankInfo& info) {
  return fmt::format("{}:{}, served by {}", info.master_addr, info.master_port,
                     info.store_is_hosted_by_launcher ? "the launcher" : "rank 0");
}

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

bool is_one_node(const hw::RankInfo& info) { return info.local_world_size == info.world_size; }

/// The job's names in the store. Whoever does not know the job's secret can join no rank.
Store store_of_job(const Store& store, const hw::RankInfo& info) {
  const std::string prefix = fmt::format("attempt_{}", info.attempt);
  const std::string secret = core::env("LOCKSTEP_STORE_SECRET").value_or("");
  return secret.empty() ? store.under(prefix) : store.sealed_by(secret).under(prefix);
}

/// Of the store that rank 0 serves: the one address by which all find it, where that is known; "": all interfaces.
/// Other nodes may resolve a host name to another address than this one does.
std::string address_to_serve(const hw::RankInfo& info) {
  if (is_one_node(info)) return "127.0.0.1";
  return is_own_address(info.master_addr) && info.master_addr != "0.0.0.0" ? info.master_addr : "";
}

/// One rank of each node speaks for all that wait there.
bool tells_of_waiting(const hw::RankInfo& info) { return info.local_rank == 0; }

bool serves_store(const hw::RankInfo& info) { return info.rank == 0 && !info.store_is_hosted_by_launcher; }

Store open_store(const hw::RankInfo& info, const WorldOptions& options) {
  const milliseconds timeout = options.join_timeout;
  LOCKSTEP_CHECK(info.master_port > 0 && info.master_port < 65536, "comm: master_port={}", info.master_port);
  const auto port = static_cast<uint16_t>(info.master_port);
  const bool is_local = is_one_node(info) && !info.store_is_hosted_by_launcher;
  if (serves_store(info)) return Store::serve(port, timeout, address_to_serve(info));
  std::optional<NoticeThread> notice;
  if (tells_of_waiting(info))
    notice.emplace(options.notice_times,
                   fmt::format("comm: rank {} waits for the job's store at {} (up to {} s in all)", info.rank,
                               store_name(info), timeout.count() / 1000));
  try {
    return Store::connect({.host = is_local ? "127.0.0.1" : info.master_addr, .port = port}, timeout);
  } catch (const std::exception& error) {
    throw CommError(fmt::format("comm: rank {} cannot reach the job's store at {}, within {} s: {}", info.rank,
                                store_name(info), timeout.count() / 1000, error_text(error)),
                    "check that rank 0 was started and has not ended, and that its address (MASTER_ADDR) and port can "
                    "be reached from here");
  }
}

/// The first `most` ranks that have not come, ascending.
std::vector<int> missing_ranks(Store& store, int world_size, size_t most) {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size && missing.size() < most; ++rank)
    if (!store.has(fmt::format("here/{}", rank))) missing.push_back(rank);
  return missing;
}

/// "comm: 1 of 2 ranks is here, waiting for rank 1 ..."
void tell_who_is_missing(Store& store, const hw::RankInfo& info, milliseconds timeout) {
  std::vector<int> missing = missing_ranks(store, info.world_size, static_cast<size_t>(info.world_size));
  std::erase(missing, info.rank);  // it may not have been let in yet, but it is here
  if (missing.empty()) return;
  const auto num_here = info.world_size - std::ssize(missing);
  const bool has_equal_nodes =
      info.node_rank >= 0 && info.world_size % info.local_world_size == 0 && !is_one_node(info);
  core::log_warning("comm: {} of {} ranks {} here, waiting for {} at {}:{} (up to {} s in all)", num_here,
                    info.world_size, num_here == 1 ? "is" : "are",
                    ranks_text(missing, has_equal_nodes ? info.local_world_size : 0), info.master_addr,
                    info.master_port, timeout.count() / 1000);
}

/// Waits for a rank, or for all: until `name` is in the store. Now and then a person is told who is missing.
class ArrivalWait {
 public:
  ArrivalWait(Store& store, const hw::RankInfo& info, const WorldOptions& options)
      : store_(store), info_(info), timeout_(options.join_timeout), deadline_(Clock::now() + options.join_timeout),
        notice_(options.notice_times) {}

  bool is_over() const { return Clock::now() >= deadline_; }
  std::string get(const std::string& name) {
    while (true) {
      const milliseconds left = left_until(deadline_);
      const bool is_last = !tells_of_waiting(info_) || left <= notice_.left();
      try {
        return store_.get(name, is_last ? left : notice_.left());
      } catch (const std::exception&) {
        if (is_last || !notice_.is_due()) throw;  // a store that is lost answers before its time
      }
      tell_who_is_missing(store_, info_, timeout_);
      notice_.told();
    }
  }

 private:
  Store& store_;
  const hw::RankInfo& info_;
  milliseconds timeout_;
  Clock::time_point deadline_;
  NoticeClock notice_;
};

/// Of a process that is none of the job's.
struct RankIsTaken : CommError {
  using CommError::CommError;
};

/// Refuses a process that was started with another idea of the job than rank 0, or with a rank that is taken.
void register_rank(Store& store, const hw::RankInfo& info, ArrivalWait& wait) {
  if (store.add(fmt::format("claims/{}", info.rank), 1) > 1)
    throw RankIsTaken(fmt::format("comm: two processes say that they are rank {} of {}", info.rank, info.world_size),
                      "each process needs a rank of its own; is the job started twice on one port?");
  if (info.rank == 0) {
    store.set("world_size", std::to_string(info.world_size));
    return;
  }
  const std::string expected = wait.get("world_size");
  if (expected != std::to_string(info.world_size))
    throw CommError(
        fmt::format("comm: rank {} was told of {} ranks, rank 0 of {}", info.rank, info.world_size, expected),
        "start all ranks with the same world size; is the port shared with another job?");
}

[[noreturn]] void throw_missing(Store& store, const hw::RankInfo& info, milliseconds waited) {
  constexpr size_t kMaxMissingNamed = 16;
  std::vector<int> missing = missing_ranks(store, info.world_size, kMaxMissingNamed + 1);
  const bool is_cut = missing.size() > kMaxMissingNamed;
  if (is_cut) missing.pop_back();
  throw CommError(fmt::format("comm: not all {} ranks came within {} s: missing rank {}{}", info.world_size,
                              waited.count() / 1000, fmt::join(missing, ","), is_cut ? " and more" : ""),
                  "look at the output of the missing ranks; were they all started, and with the same address, port and "
                  "LOCKSTEP_STORE_SECRET?");
}

/// What a rank says of itself when it comes.
struct Arrival {
  std::string host, transport;  ///< "cuda over nccl"
  std::string device_key;       ///< "": not known.

  static Arrival of(const WorldOptions& options) {
    return {.host = core::host_name(),
            .transport = fmt::format("{} over {}", c10::DeviceTypeName(options.device.type(), /*lower_case=*/true),
                                     options.backend),
            .device_key = options.device_key};
  }
  static Arrival parse(const std::string& text) {
    const auto lines = core::split(text, "\n");
    LOCKSTEP_CHECK(lines.size() == 3, "a rank's first words: '{}'", text);
    return {.host = lines[0], .transport = lines[1], .device_key = lines[2]};
  }
  std::string text() const { return host + "\n" + transport + "\n" + device_key; }
};

/// An EnvironmentError that all ranks throw, as they pass it on; "\n" where nothing is wrong.
struct ArrivalProblem {
  std::string message, hint;

  std::string text() const { return message + "\n" + hint; }
  static ArrivalProblem parse(const std::string& text) {
    const size_t end = text.find('\n');
    return {.message = text.substr(0, end), .hint = text.substr(std::min(text.size(), end + 1))};
  }
};

/// Of rank 0. What is wrong with those who have come.
ArrivalProblem await_all(const hw::RankInfo& info, ArrivalWait& wait) {
  std::map<std::string, int> rank_of_device;
  std::optional<Arrival> first;
  ArrivalProblem problem;
  for (int rank = 0; rank < info.world_size; ++rank) {
    const Arrival one = Arrival::parse(wait.get(fmt::format("here/{}", rank)));
    if (!first) first = one;
    const std::string device = one.device_key.empty() ? "" : one.host + " " + one.device_key;
    const auto [before, is_new] = rank_of_device.emplace(device, rank);
    if (!problem.message.empty()) continue;
    if (one.transport != first->transport)
      problem = {fmt::format("rank 0 computes on {} ({}), rank {} on {} ({})", first->transport, first->host, rank,
                             one.transport, one.host),
                 "look at the host without GPUs: what do nvidia-smi and CUDA_VISIBLE_DEVICES say there? --device cuda "
                 "computes on no CPU"};
    else if (!device.empty() && !is_new)
      problem = {fmt::format("ranks {} and {} have the same GPU ({}): NCCL connects no two ranks on one GPU",
                             before->second, rank, device),
                 "give each rank a GPU of its own: start as many ranks on a node as it has GPUs (--nproc-per-node, "
                 "--ntasks-per-node), and let CUDA_VISIBLE_DEVICES differ or name all"};
  }
  return problem;
}

/// Returns when all ranks have come. EnvironmentError on each rank where they do not fit together.
void meet(Store& store, const hw::RankInfo& info, const WorldOptions& options) {
  ArrivalWait wait(store, info, options);
  try {
    register_rank(store, info, wait);
    store.set(fmt::format("here/{}", info.rank), Arrival::of(options).text());
    if (info.rank == 0) store.set("all_here", await_all(info, wait).text());
    if (const auto problem = ArrivalProblem::parse(wait.get("all_here")); !problem.message.empty())
      throw EnvironmentError("comm: " + problem.message, problem.hint);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    std::string reason = error_text(error);
    try {
      if (wait.is_over()) throw_missing(store, info, options.join_timeout);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& lost) {  // with rank 0, which has waited for as long
      reason = error_text(lost);
    }
    throw CommError(fmt::format("comm: rank {} lost the job's store at {} while ranks were joining: {}", info.rank,
                                store_name(info), reason),
                    "look at the output of rank 0");
  }
}

void check_backend(const WorldOptions& options) {
  if (options.backend != "gloo" && options.backend != "nccl")
    throw UsageError(fmt::format("comm: unknown backend '{}', expected gloo or nccl", options.backend),
                     "use --dist-backend gloo or nccl");
  if (options.backend == "nccl" && options.device.is_cpu())
    throw UsageError(fmt::format("comm: NCCL needs a GPU, but the device is {}", options.device.str()),
                     "use --dist-backend gloo");
}

}  // namespace

/// Whether this process has come to its end, or out of a wait that nobody can call off: a group that is being
/// connected, or a call of the driver.
class Ending {
 public:
  void has_come() {
    const std::lock_guard lock(mutex_);
    has_come_ = true;
    changed_.notify_all();
  }
  /// Says `reason` and ends the process with `code` unless has_come() is called within `limit`.
  static void enforce(const std::shared_ptr<Ending>& ending, milliseconds limit, ExitCode code, std::string reason) {
    try {
      std::thread([ending, limit, code, reason = std::move(reason)] { ending->wait(limit, code, reason); }).detach();
    } catch (const std::system_error&) {
      // no more threads here
    }
  }

 private:
  void wait(milliseconds limit, ExitCode code, const std::string& reason) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return has_come_; })) return;
    say_if_possible(fmt::format("comm: {} within {} s: it ends here", reason, limit.count() / 1000));
    std::_Exit(static_cast<int>(code));
  }
  /// Where the log stands still, too, nothing is said.
  static void say_if_possible(const std::string& text) {
    std::promise<void> said;
    const auto done = said.get_future();
    try {
      std::thread([text, said = std::move(said)]() mutable {
        core::log_warning("{}", text);
        said.set_value();
      }).detach();
      done.wait_for(std::chrono::seconds(5));
    } catch (const std::system_error&) {
      // no more threads here
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
};

/// The transports of all groups of this process: a failure ends them all.
struct Groups {
  using Trouble = StoreProgress::Config::Trouble;
  struct Group {
    std::string axis;
    std::vector<int> global_ranks;
    std::weak_ptr<Backend> backend;
  };
  std::mutex mutex;
  std::vector<Group> groups;

  void add(Group group) {
    const std::lock_guard lock(mutex);
    groups.push_back(std::move(group));
  }
  /// Not under the mutex, which others want while a call into a transport takes its time.
  std::vector<Group> copy() {
    const std::lock_guard lock(mutex);
    return groups;
  }
  std::optional<Trouble> find_trouble() {
    for (const Group& group : copy())
      if (const auto backend = group.backend.lock())
        if (std::string what = backend->find_error(); !what.empty())
          return Trouble{.axis = group.axis, .what = std::move(what), .global_ranks = group.global_ranks};
    return std::nullopt;
  }
  /// All at once, each by a thread of its own: NCCL ends the kernels of one group and then frees memory, for which CUDA
  /// waits until the device has done all it was given, the kernels of the other groups included.
  void abort() {
    std::vector<std::thread> threads;
    for (const Group& group : copy())
      if (const auto backend = group.backend.lock()) abort_beside(threads, backend);
    for (std::thread& thread : threads) thread.join();
  }
  /// The same by a thread of its own, for callers that have others to tell: it may take long. Ready when it is done.
  static std::future<void> start_abort(const std::shared_ptr<Groups>& groups) {
    std::packaged_task<void()> task([groups] { groups->abort(); });
    std::future<void> done = task.get_future();
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error&) {
      groups->abort();  // no more threads here
      return {};
    }
    return done;
  }

 private:
  static void abort_beside(std::vector<std::thread>& threads, const std::shared_ptr<Backend>& backend) {
    try {
      threads.emplace_back([backend] { backend->abort(); });
    } catch (const std::system_error&) {
      backend->abort();  // no more threads here
    }
  }
};

struct World::State {
  hw::RankInfo info;
  WorldOptions options;
  std::string address = "127.0.0.1";
  std::string interface;
  std::shared_ptr<Store> store;
  std::shared_ptr<StoreProgress> progress;
  std::shared_ptr<Groups> groups = std::make_shared<Groups>();
  std::shared_ptr<Ending> ending = std::make_shared<Ending>();   // of a wait, after another rank's failure
  std::shared_ptr<Ending> leaving = std::make_shared<Ending>();  // of all that follows this rank's own report
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  Comm comm;
  JoinTimes join_times;
  bool has_left = false, has_limit = false;
  int num_waits = 0;  // wait_in_store
  int exceptions_at_start = std::uncaught_exceptions();

  std::unique_ptr<Backend> make_backend(const std::string& name, int rank, int size) const;
  Comm make_group(const std::string& group, const std::vector<int>& global_ranks) const;
  /// Between two signs of life in the store.
  milliseconds report_interval() const { return hw::report_interval(info.world_size, options.report_interval); }
  void wait_in_store(const std::string& whom, const std::function<bool(const std::string& name)>& is_done);
  void poll_for(const std::string& name, const std::string& whom) const;
  void end(const std::string& state, const std::string& failure, milliseconds stay);
};

std::unique_ptr<Backend> World::State::make_backend(const std::string& name, int rank, int size) const {
  const Store own = store->under("group/" + name);
  const bool is_nccl = options.backend == "nccl";
  try {
    if (is_nccl)
      return make_nccl_backend(
          own, rank, size, {.device_index = options.device.index(), .group_name = name, .timeout = options.timeout});
    return make_gloo_backend(own, rank, size,
                             {.address = address,
                              .interface = interface,
                              .timeout = options.timeout,
                              .check_collectives = options.check_collectives,
                              .abandon_on_failure = true});
  } catch (const std::exception& error) {
    if (const auto failure = core::system_failure_of(error)) throw *failure;
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) throw;
    if (is_nccl)
      throw CommError(fmt::format("comm: rank {} on {} cannot connect to the other ranks of group '{}' by NCCL: {}",
                                  info.rank, core::host_name(), name, error_text(error)),
                      "look at the output of the other ranks; NCCL_DEBUG=INFO says which interfaces and cards it takes "
                      "(NCCL_SOCKET_IFNAME and NCCL_IB_HCA choose others)");
    throw CommError(fmt::format("comm: rank {} cannot connect to the other ranks of group '{}' from {}: {}", info.rank,
                                name, interface.empty() ? address : "interface " + interface, error_text(error)),
                    "look at the output of the other ranks; on several nodes name the cluster's network interface in "
                    "GLOO_SOCKET_IFNAME");
  }
}

Comm World::State::make_group(const std::string& group, const std::vector<int>& global_ranks) const {
  const std::string axis = group.substr(0, group.find('/'));
  const auto place = std::find(global_ranks.begin(), global_ranks.end(), info.rank);
  LOCKSTEP_CHECK(place != global_ranks.end(), "comm: rank {} makes group '{}' without being in it", info.rank, group);
  if (global_ranks.size() == 1) return Comm(nullptr, recorder, axis, nullptr, global_ranks);
  const std::string name = fmt::format("{}_{}", group, global_ranks.front());
  const std::shared_ptr<Backend> backend =
      make_backend(name, static_cast<int>(place - global_ranks.begin()), static_cast<int>(global_ranks.size()));
  groups->add({.axis = axis, .global_ranks = global_ranks, .backend = backend});
  return Comm(backend, recorder, axis, progress, global_ranks);
}

/// Counts this rank out; the rank that serves the store stays until all are out or `stay` is over.
void say_goodbye(Store& store, bool serves, int world_size, milliseconds stay) {
  store.add("gone", 1);
  if (!serves) return;
  const auto deadline = Clock::now() + stay;
  while (store.add("gone", 0) < world_size && Clock::now() < deadline) std::this_thread::sleep_for(kPollInterval);
}

/// Never throws and never waits for ever: the job may be in ruins.
void World::State::end(const std::string& state, const std::string& failure, milliseconds stay) {
  ending->has_come();
  if (has_left || !store) return;
  has_left = true;
  if (progress && !progress->close(state, failure)) return;
  std::promise<void> promise;
  auto done = promise.get_future();
  // A thread of its own, left behind where the store no longer answers.
  try {
    std::thread([store = store, serves = serves_store(info), world_size = info.world_size, stay,
                 promise = std::move(promise)]() mutable {
      try {
        say_goodbye(*store, serves, world_size, stay);
      } catch (const std::exception&) {
        // The store went before this rank.
      }
      store.reset();
      promise.set_value();
    }).detach();
  } catch (const std::system_error&) {
    return;  // no more threads here
  }
  done.wait_for(stay + std::chrono::seconds(1));
}

/// Whether `name` is in the store. By a thread of its own, left behind where the store no longer answers.
std::future<bool> ask_store(std::shared_ptr<Store> store, const std::string& name) {
  std::packaged_task<bool()> question([store = std::move(store), name] { return store->has(name); });
  auto answer = question.get_future();
  std::thread(std::move(question)).detach();
  return answer;
}

/// `is_done` gets a new name in the store; unless it returns true, this waits until someone has set the name.
void World::State::wait_in_store(const std::string& whom, const std::function<bool(const std::string&)>& is_done) {
  if (!store) return;
  const std::string name = fmt::format("long_wait/{}", num_waits++);
  try {
    if (!is_done(name)) poll_for(name, whom);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(fmt::format("comm: rank {} lost the job's store at {} while it waited for {}: {}", info.rank,
                                store_name(info), whom, error_text(error)),
                    "look at the output of rank 0");
  }
}

/// Returns when `name` is in the store; asks seldom in the long run. Throws when a rank, one that is to set it above
/// all, or the store is gone.
void World::State::poll_for(const std::string& name, const std::string& whom) const {
  const auto began = Clock::now();
  auto next_word = began + std::chrono::minutes(5);
  for (milliseconds pause = kPollInterval;; pause = std::min(2 * pause, report_interval())) {
    auto is_there = ask_store(store, name);
    do {
      if (const std::string failure = progress->failure_elsewhere(); !failure.empty())
        throw CommError(fmt::format("comm: rank {} waited for {}: {}", info.rank, whom, failure),
                        "look at the output of the rank that is named; its process or node is probably gone");
    } while (is_there.wait_for(kPollInterval) != std::future_status::ready);
    if (is_there.get()) return;
    if (const auto now = Clock::now(); now >= next_word) {
      const auto waited = std::chrono::duration_cast<std::chrono::minutes>(now - began);
      core::log_warning("comm: rank {} has waited for {} for {} minutes", info.rank, whom, waited.count());
      next_word = now + 2 * waited;
    }
    std::this_thread::sleep_for(pause);
  }
}

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;

World::~World() {
  if (!state_) return;
  if (std::uncaught_exceptions() > state_->exceptions_at_start)
    report_failure("it ended with an error", ExitCode::kInternal);
  else
    leave();
  state_->leaving->has_come();
}

/// Gloo notices lost connections, so that reports only tell of ranks that stand still, which machines with too little
/// memory make them do for seconds; collectives of devices notice nothing.
static int missed_reports(const WorldOptions& options) { return options.device.is_cpu() ? 40 : 20; }

World World::join(const hw::RankInfo& info, const WorldOptions& options) {
  check_backend(options);
  auto state = std::make_unique<State>();
  state->info = info;
  state->options = options;
  if (info.world_size == 1) {
    state->comm = Comm(nullptr, state->recorder, "world", nullptr, {0});
    return World(std::move(state));
  }
  ::signal(SIGPIPE, SIG_IGN);  // what is written to a rank that has left fails with an error, which says who it was
  const auto began = Clock::now();
  state->interface = core::env("GLOO_SOCKET_IFNAME").value_or("");
  if (!is_one_node(info) && state->interface.empty())
    state->address = address_towards(info.master_addr, info.master_port);
  // Behind the counter c10d sees no prefix: what it writes for all groups, past the prefixes that it can take off,
  // stays in this attempt. A watchdog's signal of a failed one would end the next, in the same store, after minutes.
  const auto calls = options.store_calls ? options.store_calls : std::make_shared<StoreCalls>();
  state->store = std::make_shared<Store>(store_of_job(open_store(info, options), info).counted_by(calls));
  try {
    meet(*state->store, info, options);
  } catch (const RankIsTaken&) {
    throw;
  } catch (const std::exception&) {
    state->end("failed", "", kStayAfterFailure);  // the others have yet to read what is wrong
    throw;
  }
  const auto met = Clock::now();
  const auto end_waits = [groups = state->groups, ending = state->ending, rank = info.rank, limit = options.timeout] {
    Ending::enforce(ending, limit, ExitCode::kCommunication,
                    fmt::format("another rank has failed, and rank {} has not come out of what it waits for", rank));
    Groups::start_abort(groups);
  };
  state->progress = std::make_shared<StoreProgress>(
      state->store->another_connection(),
      StoreProgress::Config{.rank = info.rank,
                            .host = core::host_name(),
                            .store_name = store_name(info),
                            .interval = state->report_interval(),
                            .watched_rank = (info.rank + 1) % info.world_size,  // each by the one before it
                            .num_missed_reports = missed_reports(options),
                            .serves_store = serves_store(info),
                            .on_failure = end_waits,
                            .find_trouble = [groups = state->groups] { return groups->find_trouble(); }});
  World world(std::move(state));
  world.connect();
  const auto ms = [](Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); };
  world.state_->join_times = {.rendezvous_ms = ms(met - began), .communicator_ms = ms(Clock::now() - met)};
  return world;
}

/// The group of all. The others stand in the same call, in which nothing else tells them of this rank's error.
void World::connect() {
  std::vector<int> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  try {
    state_->comm = state_->make_group("world", all);
  } catch (const std::exception& error) {
    report_failure(error.what(), core::exit_code_of(error));
    throw;
  }
}

int World::rank() const { return state_->info.rank; }
int World::size() const { return state_->info.world_size; }
Comm& World::comm() { return state_->comm; }
const World::JoinTimes& World::join_times() const { return state_->join_times; }
Recorder& World::recorder() { return *state_->recorder; }

Comm World::group(const std::string& name, const std::vector<int>& global_ranks) {
  return state_->make_group(name, global_ranks);
}

void World::wait_for_rank_zero(const std::string& what) {
  state_->wait_in_store("rank 0 (" + what + ")", [&](const std::string& name) {
    if (rank() == 0) state_->store->set(name, "1");
    return rank() == 0;
  });
}

void World::wait_for_all(const std::string& what) {
  state_->wait_in_store("all ranks (" + what + ")", [&](const std::string& name) {
    const bool is_last = state_->store->add(name + "/count", 1) == size();
    if (is_last) state_->store->set(name, "1");
    return is_last;
  });
}

void World::tell_work(const std::string& work) {
  if (state_->progress) state_->progress->tell_work(work);
}

bool World::is_at_work(int rank, const std::string& work) const {
  return state_->progress && state_->progress->work_of(rank) == work;
}

void World::limit_time_to_leave(ExitCode code) {
  if (!std::exchange(state_->has_limit, true))
    Ending::enforce(state_->leaving, state_->options.time_to_leave, code,
                    fmt::format("rank {} has failed and not come to its end", rank()));
}

void World::report_failure(const std::string& text, ExitCode code) {
  limit_time_to_leave(code);
  // This process's exit code is decided. srun --kill-on-bad-exit signals the ranks that are still leaving and would put
  // 143 in its place.
  std::signal(SIGTERM, SIG_IGN);
  // The others hear of it first: an abort may take long, and a rank that is silent meanwhile would count as dead.
  const std::future<void> aborted = Groups::start_abort(state_->groups);
  state_->end("failed", text, kStayAfterFailure);
  if (aborted.valid()) aborted.wait_for(kStayAfterFailure);
}

std::optional<int> World::first_failing_rank() const {
  return state_->progress ? state_->progress->first_failing_rank() : std::nullopt;
}

void World::leave() { state_->end("left", "", kStayForOthers); }

}  // namespace lockstep::comm
