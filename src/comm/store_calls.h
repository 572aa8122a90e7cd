#pragma once
#include <atomic>
#include <cstdint>

namespace lockstep::comm {

/// How often a process has asked its job's store for something, itself and through what it gave the store to.
struct StoreCalls {
  std::atomic<int64_t> checks{0};  ///< Whether a name is there: repeated while one waits long.
  std::atomic<int64_t> others{0};  ///< Everything else.
};

}  // namespace lockstep::comm
