#pragma once
#include <cstdint>
#include <random>

namespace lockstep::data {

/// Python's random.Random(seed), as far as OpenCLIP shuffles shards with it.
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);
  /// randint(0, bound - 1); the bound is from 1 to 2^32 - 1.
  uint64_t below(uint64_t bound);

 private:
  std::mt19937 generator_;
};

}  // namespace lockstep::data
