#include "data/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/log.h"

namespace lockstep::data {

void for_each_parallel(size_t count, int64_t num_threads, const std::function<void(size_t, size_t)>& use) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failed = std::numeric_limits<size_t>::max();
  std::exception_ptr error;
  const auto work = [&](size_t worker) {
    for (size_t i = next++; i < count; i = next++) {
      try {
        use(i, worker);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
        next = count;  // those already begun, all with smaller numbers or running now, come to their end
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const int64_t most = std::min(num_threads, static_cast<int64_t>(count));
    try {
      for (int64_t worker = 1; worker < most; ++worker) threads.emplace_back(work, static_cast<size_t>(worker));
    } catch (const std::system_error& failure) {  // fewer do as well
      core::log_warning("data: {} of {} threads cannot be started, the work takes longer: {}",
                        most - 1 - std::ssize(threads), most, failure.what());
    }
    work(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::data
