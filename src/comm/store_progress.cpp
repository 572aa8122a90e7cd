#include "comm/store_progress.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/error_text.h"
#include "core/error.h"
#include "core/log.h"

namespace lockstep::comm {
namespace {

constexpr const char* kFirstFailure = "first_failure";
constexpr const char* kNumFailures = "num_failures";
/// So many reports of the watched rank show that the job went on behind an own pause. One may have been on its way.
constexpr int kReportsOfALivingRank = 3;

}  // namespace

/// Shared with threads that may be stuck in a call to a dead store, and are then left behind.
struct StoreProgress::Impl {
  Impl(Store own_store, Config own_config) : store(std::move(own_store)), config(std::move(own_config)) {
    report.host = config.host;
    report.pid = getpid();
  }

  /// A store call that takes longer than this is taken as no answer.
  std::chrono::milliseconds patience() const { return 8 * config.interval; }
  std::string next_report() {
    const std::lock_guard lock(mutex);
    ++report.beat;
    return report.to_json();
  }
  void publish() {
    const std::lock_guard lock(store_mutex);
    store.set(report_name(config.rank), next_report());
  }
  void look_for_failure();
  void publish_failure();
  void publish_failure(const Blame& blame);
  Blame first_failure();
  void look_for_trouble();
  void watch();
  void tell(const Blame& failure);
  void tell_lost_store(const std::string& how);
  void beat_until_closed(std::promise<void> ended);
  void guard_until_closed();
  void note_report_of_watched();
  Blame behind_own_pause(Blame missing);
  void end_threads();
  Blame read_and_name(const CallMark& mark, const std::vector<int>& global_ranks);

  std::mutex store_mutex;
  Store store;  // used under store_mutex only, which is held while a call is stuck
  const Config config;

  std::mutex mutex;  // of what follows; never held while the store is called
  std::condition_variable changed;
  RankReport report;
  std::string failure_elsewhere;
  std::optional<int> blamed_rank;         // by this rank
  std::optional<int> first_failing_rank;  // by the store
  bool is_closed = false;
  int num_waits_for_store = 0;                // of the guard, since the last answer
  std::chrono::duration<double> own_pause{};  // in which this process stood still, as by SIGSTOP; 0 once it is over
  int num_reports_behind_pause = 0;           // of the watched rank
  bool has_told = false;
  std::future<void> beat_ended;

  RankReport watched;  // of the thread that publishes
  int num_silent = 0;
};

/// Waits for it.
Blame StoreProgress::Impl::first_failure() {
  const Blame first = Blame::from_json(store.get(kFirstFailure, patience()));
  const std::lock_guard lock(mutex);
  first_failing_rank = first.rank;
  return first;
}

/// Learns of the first rank that failed.
void StoreProgress::Impl::look_for_failure() {
  Blame failure;
  {
    const std::lock_guard lock(store_mutex);
    if (!store.has(kFirstFailure)) return;
    failure = first_failure();
  }
  tell(failure);
}

void StoreProgress::Impl::tell(const Blame& failure) {
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(has_told, true)) return;
    failure_elsewhere = failure.text;
  }
  if (config.on_failure) config.on_failure();
}

/// Throws nothing: it is the last word of a thread.
void StoreProgress::Impl::tell_lost_store(const std::string& how) {
  try {
    tell({.text = fmt::format("the job's store at {} {}, so its process or node is probably gone", config.store_name,
                              how)});
  } catch (const std::exception& error) {
    core::log_warning("comm: {}", error.what());
  }
}

void StoreProgress::Impl::end_threads() {
  {
    const std::lock_guard lock(mutex);
    is_closed = true;
  }
  changed.notify_all();
}

/// Speaks for a process that cannot tell of its end.
void StoreProgress::Impl::watch() {
  if (config.watched_rank < 0) return;
  RankReport now;
  {
    const std::lock_guard lock(store_mutex);
    if (!store.has(report_name(config.watched_rank))) return;
    now = RankReport::from_json(store.get(report_name(config.watched_rank), patience()));
  }
  num_silent = now.state == "running" && now.beat == watched.beat ? num_silent + 1 : 0;
  if (now.state == "running" && now.beat != watched.beat) note_report_of_watched();
  watched = now;
  if (num_silent == config.num_missed_reports)
    publish_failure(behind_own_pause(
        {.text = fmt::format("rank {} (pid {} on {}) does not answer any more", config.watched_rank, now.pid, now.host),
         .rank = config.watched_rank}));
}

void StoreProgress::Impl::note_report_of_watched() {
  const std::lock_guard lock(mutex);
  if (own_pause.count() > 0 && ++num_reports_behind_pause == kReportsOfALivingRank) own_pause = {};
}

/// Whoever is silent behind a pause of this process may have given up because of it, and could not say so where this
/// one serves the store.
Blame StoreProgress::Impl::behind_own_pause(Blame missing) {
  const std::lock_guard lock(mutex);
  if (missing.text.empty() || own_pause.count() == 0) return missing;
  return {.text = fmt::format("rank {} (pid {} on {}) stood still for {:.1f} s, and by now: {}", config.rank,
                              report.pid, report.host, own_pause.count(), missing.text),
          .rank = config.rank};
}

/// Tells all ranks, unless another rank was first.
void StoreProgress::Impl::publish_failure() {
  Blame blame;
  {
    const std::lock_guard lock(mutex);
    blame = {.text = report.describe_failure(config.rank),
             .rank = report.gave_up_in.empty() ? config.rank : blamed_rank};
  }
  publish_failure(blame);
}

void StoreProgress::Impl::publish_failure(const Blame& blame) {
  const std::lock_guard lock(store_mutex);
  if (store.add(kNumFailures, 1) == 1) store.set(kFirstFailure, blame.to_json());
}

/// Speaks for the host, which does not ask how the device's collectives are doing, and says who is missing in them.
void StoreProgress::Impl::look_for_trouble() {
  const auto trouble = config.find_trouble ? config.find_trouble() : std::nullopt;
  if (!trouble) return;
  CallMark last{.axis = trouble->axis, .kind = {}};
  {
    const std::lock_guard lock(mutex);
    if (has_told) return;  // and what was aborted since is no news
    for (const RankReport::Place& place : report.places)
      if (place.axis == trouble->axis) last.kind = place.kind, last.sequence = place.sequence;
    report.gave_up_in = fmt::format("{} on axis '{}'", last.kind, last.axis);
  }
  const Blame missing = read_and_name(last, trouble->global_ranks);
  {
    const std::lock_guard lock(mutex);
    report.failure = missing.text.empty() ? trouble->what : trouble->what + "; " + missing.text;
    blamed_rank = missing.rank;
  }
  publish_failure();
}

void StoreProgress::Impl::beat_until_closed(std::promise<void> ended) {
  try {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, config.interval, [&] { return is_closed; })) {
      lock.unlock();
      publish();
      look_for_trouble();
      watch();
      look_for_failure();
      lock.lock();
      num_waits_for_store = 0;
    }
  } catch (const std::exception& error) {
    tell_lost_store("is lost (" + error_text(error) + ")");
  }
  ended.set_value();
}

/// Speaks when the other thread is stuck in a call to the store. It counts its own rounds, not seconds: a job that was
/// suspended as a whole misses none. Only here nothing but a process that stands still makes a round long.
void StoreProgress::Impl::guard_until_closed() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex);
  for (auto began = Clock::now(); !changed.wait_for(lock, config.interval, [&] { return is_closed; });
       began = Clock::now()) {
    if (const auto took = Clock::now() - began; config.serves_store && took > hw::kSilentReports * config.interval)
      own_pause = took, num_reports_behind_pause = 0;
    if (++num_waits_for_store == config.num_missed_reports) {
      lock.unlock();
      tell_lost_store("does not answer");
      lock.lock();
    }
  }
}

Blame StoreProgress::Impl::read_and_name(const CallMark& mark, const std::vector<int>& global_ranks) {
  std::vector<std::string> keys;
  for (const int rank : global_ranks) keys.push_back(report_name(rank));
  Store own = [&] {
    const std::lock_guard lock(store_mutex);
    return store.another_connection();
  }();
  const auto read = [&] {
    std::vector<RankReport> reports;
    for (const auto& text : own.get_all(keys)) reports.push_back(RankReport::from_json(text));
    return reports;
  };
  const auto earlier = read();
  auto later = earlier;
  const auto may_be_dead = [&](size_t i) {
    return global_ranks[i] != config.rank && later[i].state == "running" && later[i].beat == earlier[i].beat;
  };
  for (int round = 0; round < hw::kSilentReports; ++round) {
    std::this_thread::sleep_for(config.interval);
    later = read();
    bool any_silent = false;
    for (size_t i = 0; i < later.size(); ++i) any_silent = any_silent || may_be_dead(i);
    if (round > 0 && !any_silent) break;
  }
  const Blame missing = name_missing_ranks(mark, config.rank, global_ranks, earlier, later);
  const bool has_own_error = std::any_of(later.begin(), later.end(), [](const RankReport& other) {
    return other.state == "failed" && other.gave_up_in.empty();
  });
  return has_own_error ? missing : behind_own_pause(missing);
}

StoreProgress::StoreProgress(Store store, Config config)
    : impl_(std::make_shared<Impl>(std::move(store), std::move(config))) {
  impl_->publish();
  std::promise<void> ended;
  impl_->beat_ended = ended.get_future();
  std::thread([impl = impl_, ended = std::move(ended)]() mutable {
    impl->beat_until_closed(std::move(ended));
  }).detach();
  try {
    std::thread([impl = impl_] { impl->guard_until_closed(); }).detach();
  } catch (const std::system_error&) {
    impl_->end_threads();
    throw;
  }
}

std::string StoreProgress::report_name(int rank) { return fmt::format("report/{}", rank); }

StoreProgress::~StoreProgress() { close("left", ""); }

void StoreProgress::begin(const CallMark& mark) {
  if (mark.sequence == 0) return;
  const std::lock_guard lock(impl_->mutex);
  auto& places = impl_->report.places;
  auto place = std::find_if(places.begin(), places.end(), [&](const auto& known) { return known.axis == mark.axis; });
  if (place == places.end()) place = places.insert(places.end(), RankReport::Place{.axis = mark.axis, .kind = {}});
  place->kind = mark.kind;
  place->sequence = mark.sequence;
  place->is_finished = false;
}

void StoreProgress::end(const CallMark& mark) {
  if (mark.sequence == 0) return;
  const std::lock_guard lock(impl_->mutex);
  for (auto& place : impl_->report.places)
    if (place.axis == mark.axis && place.sequence == mark.sequence) place.is_finished = true;
}

std::string StoreProgress::failure_elsewhere() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->failure_elsewhere;
}

void StoreProgress::tell_work(const std::string& work) {
  const std::lock_guard lock(impl_->mutex);
  impl_->report.work = work;
}

/// By a thread of its own, left behind where the store does not answer.
std::string StoreProgress::work_of(int rank) {
  std::packaged_task<std::string()> question([impl = impl_, rank] {
    const std::lock_guard lock(impl->store_mutex);
    if (!impl->store.has(report_name(rank))) return std::string();
    return RankReport::from_json(impl->store.get(report_name(rank), impl->patience())).work;
  });
  auto answer = question.get_future();
  std::thread(std::move(question)).detach();
  return answer.wait_for(impl_->patience()) == std::future_status::ready ? answer.get() : "";
}

std::string StoreProgress::diagnose(const CallMark& mark, const std::vector<int>& global_ranks) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->report.gave_up_in = fmt::format("{} on axis '{}'", mark.kind, mark.axis);
  }
  const std::string no_answer = fmt::format(
      "the job's store at {} does not answer, so its process or node is probably gone", impl_->config.store_name);
  std::promise<Blame> promise;
  auto answer = promise.get_future();
  try {
    std::thread([impl = impl_, mark, global_ranks, promise = std::move(promise)]() mutable {
      try {
        promise.set_value(impl->read_and_name(mark, global_ranks));
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    }).detach();
  } catch (const std::system_error& error) {
    return fmt::format("which ranks are missing is not known, no thread can be started to ask: {}", error.what());
  }
  const auto limit = hw::kSilentReports * impl_->config.interval + impl_->patience();
  if (answer.wait_for(limit) != std::future_status::ready) return no_answer;
  try {
    const Blame missing = answer.get();
    const std::lock_guard lock(impl_->mutex);
    impl_->report.failure = missing.text;
    impl_->blamed_rank = missing.rank;
    return missing.text;
  } catch (const std::exception&) {
    return no_answer;
  }
}

std::optional<int> StoreProgress::first_failing_rank() const {
  const std::lock_guard lock(impl_->mutex);
  const bool has_noticed = impl_->has_told || !impl_->report.gave_up_in.empty();
  if (!has_noticed) return std::nullopt;
  return impl_->first_failing_rank ? impl_->first_failing_rank : impl_->blamed_rank;
}

bool StoreProgress::close(const std::string& state, const std::string& failure) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->is_closed) return true;
    impl_->is_closed = true;
    impl_->report.state = state;
    if (impl_->report.gave_up_in.empty()) impl_->report.failure = failure;
  }
  impl_->changed.notify_all();
  if (impl_->beat_ended.wait_for(impl_->patience()) != std::future_status::ready) return false;
  std::promise<void> published;
  auto is_published = published.get_future();
  try {
    std::thread([impl = impl_, has_failed = state == "failed", published = std::move(published)]() mutable {
      try {
        impl->publish();
        if (has_failed) {
          impl->publish_failure();
          const std::lock_guard lock(impl->store_mutex);
          impl->first_failure();
        }
        published.set_value();
      } catch (...) {
        published.set_exception(std::current_exception());
      }
    }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  if (is_published.wait_for(impl_->patience()) != std::future_status::ready) return false;
  try {
    is_published.get();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace lockstep::comm
