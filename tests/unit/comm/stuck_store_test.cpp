// A store whose process stands still answers nobody, and closes no connection either.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/store_internal.h"
#include "comm/store_progress.h"

namespace lockstep::comm {
namespace {

class StuckStore final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& keys) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_stuck_; });
    lock.unlock();
    return c10d::HashStore::check(keys);
  }
  void stick(bool is_stuck) {
    const std::lock_guard lock(mutex_);
    is_stuck_ = is_stuck;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stuck_ = false;
};

/// Who writes a checkpoint asks so whether others are still writing, and the end of the process waits for it.
TEST(StuckStore, NobodyWaitsForItsWordOnTheWorkOfARank) {
  const auto stuck = c10::make_intrusive<StuckStore>();
  const Store store(std::make_unique<Store::Impl>(Store::Impl{.store = stuck}));
  StoreProgress::Config config{.rank = 0, .host = "a", .store_name = "here", .interval = std::chrono::milliseconds(20)};
  StoreProgress own(store.another_connection(), config);
  config.rank = 1;
  StoreProgress other(store.another_connection(), config);
  stuck->stick(true);
  EXPECT_EQ(own.work_of(1), "");
  while (own.failure_elsewhere().empty()) std::this_thread::sleep_for(config.interval);
  EXPECT_NE(own.failure_elsewhere().find("does not answer"), std::string::npos) << own.failure_elsewhere();
  EXPECT_EQ(own.work_of(1), "") << "while another thread of this rank stands in a call to it";
  stuck->stick(false);
}

}  // namespace
}  // namespace lockstep::comm
