#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"

namespace lockstep::comm {

/// When somebody who looks at a start that waits is told what for.
struct NoticeTimes {
  std::chrono::milliseconds first{std::chrono::seconds(5)};      ///< Nothing is said about waiting less than this.
  std::chrono::milliseconds distance{std::chrono::seconds(30)};  ///< Between two notices.
};

/// The next notice about waiting that began when this was made.
class NoticeClock {
 public:
  explicit NoticeClock(const NoticeTimes& times) : times_(times), next_(core::Clock::now() + times.first) {}
  std::chrono::milliseconds left() const;  ///< At least 1 ms.
  bool is_due() const { return core::Clock::now() >= next_; }
  void told() { next_ = core::Clock::now() + times_.distance; }

 private:
  NoticeTimes times_;
  core::Clock::time_point next_;
};

/// Warns with one text at the times of a NoticeClock, from a thread of its own, until it is destroyed: for calls that
/// only return at their end.
class NoticeThread {
 public:
  NoticeThread(const NoticeTimes& times, std::string text);
  ~NoticeThread();
  NoticeThread(const NoticeThread&) = delete;
  NoticeThread& operator=(const NoticeThread&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable is_over_;
  bool is_ending_ = false;
  std::thread thread_;
};

/// "rank 1", "ranks 2-3,6", "ranks 4-7 (node 1)" of ascending ranks. Nodes are told where each has `ranks_per_node` and
/// lacks all of them; 0: not known. Long lists are cut with "and N more".
std::string ranks_text(const std::vector<int>& ranks, int ranks_per_node);

}  // namespace lockstep::comm
