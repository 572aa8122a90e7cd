#include "data/order/python_random.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/error.h"

namespace lockstep::data {
namespace {

/// The state that init_by_array of the Mersenne Twister's authors makes of a key (Matsumoto and Nishimura, 2002), as a
/// seed sequence of the standard library, which takes it over word by word.
class StateOfKey {
 public:
  using result_type = uint32_t;
  explicit StateOfKey(uint64_t seed) : key_{static_cast<uint32_t>(seed)} {
    if (seed >> 32 != 0) key_.push_back(static_cast<uint32_t>(seed >> 32));
  }
  template <typename Iterator> void generate(Iterator begin, Iterator end) const {
    const std::vector<uint32_t> state = mixed();
    LOCKSTEP_CHECK(std::distance(begin, end) == std::ssize(state), "words={}", std::distance(begin, end));
    std::copy(state.begin(), state.end(), begin);
  }

 private:
  static constexpr size_t kWords = std::mt19937::state_size;

  std::vector<uint32_t> mixed() const {
    std::vector<uint32_t> state(kWords);
    state[0] = 19650218;
    for (size_t i = 1; i < kWords; ++i) state[i] = 1812433253 * folded(state[i - 1]) + static_cast<uint32_t>(i);
    size_t i = 1;
    const auto advance = [&] {
      if (++i < kWords) return;
      state[0] = state[kWords - 1];
      i = 1;
    };
    for (size_t turn = 0; turn < kWords; ++turn, advance()) {
      const size_t place = turn % key_.size();
      state[i] = (state[i] ^ folded(state[i - 1]) * 1664525) + key_[place] + static_cast<uint32_t>(place);
    }
    for (size_t turn = 1; turn < kWords; ++turn, advance())
      state[i] = (state[i] ^ folded(state[i - 1]) * 1566083941) - static_cast<uint32_t>(i);
    state[0] = 0x80000000;
    return state;
  }
  static uint32_t folded(uint32_t word) { return word ^ word >> 30; }

  std::vector<uint32_t> key_;
};

std::mt19937 generator_of(uint64_t seed) {
  StateOfKey state(seed);
  return std::mt19937(state);
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) : generator_(generator_of(seed)) {}

uint64_t PythonRandom::below(uint64_t bound) {
  LOCKSTEP_CHECK(bound > 0 && bound >> 32 == 0, "bound={}", bound);
  const int num_bits = static_cast<int>(std::bit_width(bound));
  for (;;) {
    const uint64_t draw = generator_() >> (32 - num_bits);
    if (draw < bound) return draw;
  }
}

}  // namespace lockstep::data
