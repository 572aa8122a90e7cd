#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::bench {

/// One batch size that was tried.
struct BatchProbe {
  int64_t samples = 0;
  bool fits = false;
  int64_t peak_bytes = 0;  ///< As far as it came.
  std::string reason{};    ///< Why it does not fit.
};

struct BatchSearch {
  int64_t best = 0;                  ///< Largest size that fits, a multiple; 0: not even the smallest.
  std::vector<BatchProbe> probes{};  ///< In the order tried.
};

/// Doubles from `multiple` until a size does not fit (or `most` is reached), then halves the gap in whole multiples.
/// Sizes that fit are taken to be all those up to some limit.
BatchSearch find_largest_batch(int64_t multiple, int64_t most, const std::function<BatchProbe(int64_t samples)>& probe);

struct ProbeLimits {
  int64_t memory_bytes = 0;  ///< CPU: a child that holds more is ended; 0: no limit but its own failure.
};

/// Runs `lockstep-engine` (this program) with `args`, which end in an attempt at `samples` and print a bench document.
/// A failure for want of memory, or more than the limit, means that it does not fit; any other failure throws the
/// child's error.
BatchProbe probe_in_child(const std::vector<std::string>& args, int64_t samples, const ProbeLimits& limits);

}  // namespace lockstep::bench
