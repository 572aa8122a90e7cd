#pragma once
#include <atomic>
#include <cstdint>
#include <thread>

#include "core/files.h"
#include "doctor/sockets.h"

namespace lockstep::doctor {

/// Answers other nodes until it is destroyed: greets, takes what they send, and tells how fast it came.
class Answerer {
 public:
  explicit Answerer(Interfaces interfaces);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;
  uint16_t port() const { return listener_.port; }

 private:
  void run();
  void answer(const core::Fd& guest) const;

  Listener listener_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

/// Bytes that are sent to measure a way, and what of it is not counted: connections begin slowly.
inline constexpr size_t kStreamBytes = 12 << 20, kWarmUpBytes = 2 << 20;

/// Sends as many, for two seconds at most, over a connection to an Answerer that has greeted. The rate at which they
/// came, in GB/s; CommError where the other end does not tell it.
double measure_stream(const core::Fd& socket);

}  // namespace lockstep::doctor
