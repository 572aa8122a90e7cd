#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::data {

/// NumPy's legacy RandomState, as far as Megatron shuffles with it.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed) : generator_(seed) {}
  /// The permutation that RandomState.shuffle gives an array of this length.
  template <typename T> void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  /// Uniform in [0, highest]: draws under the smallest covering mask until one fits.
  uint64_t interval(uint64_t highest);
  std::mt19937 generator_;
};

/// `count` numbers of numpy.random.default_rng(0).integers(low, high, dtype=int32): the lengths of Megatron's mock
/// documents.
std::vector<int32_t> numpy_default_integers(int32_t low, int32_t high, int64_t count);

}  // namespace lockstep::data
