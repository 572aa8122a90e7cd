#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

namespace lockstep::data {

/// First-in first-out queue between threads that holds at most `capacity` items.
template <typename T> class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  /// Waits for room; false (and the item dropped) once the queue is closed.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [&] { return is_closed_ || items_.size() < capacity_; });
    if (is_closed_) return false;
    items_.push_back(std::move(item));
    lock.unlock();
    has_item_.notify_one();
    return true;
  }

  /// Waits for an item; nothing once the queue is closed (items still inside are dropped).
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    has_item_.wait(lock, [&] { return is_closed_ || !items_.empty(); });
    if (is_closed_) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    has_room_.notify_one();
    return item;
  }

  /// Wakes everybody; push and pop return at once from now on.
  void close() {
    std::deque<T> dropped;  // destroyed outside the lock
    {
      const std::scoped_lock lock(mutex_);
      is_closed_ = true;
      dropped.swap(items_);
    }
    has_item_.notify_all();
    has_room_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable has_item_, has_room_;
  std::deque<T> items_;
  bool is_closed_ = false;
};

}  // namespace lockstep::data
