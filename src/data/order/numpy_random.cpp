#include "data/order/numpy_random.h"

#include <bit>

#include "core/error.h"

namespace lockstep::data {
namespace {

using Wide = unsigned __int128;

constexpr Wide wide(uint64_t high, uint64_t low) { return Wide{high} << 64 | low; }

/// PCG64 (O'Neill 2014: a linear congruential generator of 128 bits, XSL-RR output), seeded as NumPy's SeedSequence(0)
/// does.
class Pcg64 {
 public:
  Pcg64() {
    step();
    state_ += wide(kSeedWords[0], kSeedWords[1]);
    step();
  }
  /// NumPy hands out the low half of a word first and keeps the high half.
  uint32_t next32() {
    if (has_high_) {
      has_high_ = false;
      return high_;
    }
    const uint64_t word = next64();
    high_ = static_cast<uint32_t>(word >> 32);
    has_high_ = true;
    return static_cast<uint32_t>(word);
  }

 private:
  // SeedSequence(0).generate_state(4, uint64)
  static constexpr uint64_t kSeedWords[4] = {0xDB2CD7E7B0F478BE, 0xABF4641A2C71BA49, 0x20C6ED6D9D7B8D41,
                                             0x2C4099DE223C39D4};
  static constexpr Wide kMultiplier = wide(0x2360ED051FC65DA4, 0x4385DF649FCCF645);
  static constexpr Wide kIncrement = wide(kSeedWords[2], kSeedWords[3]) << 1 | 1;

  void step() { state_ = state_ * kMultiplier + kIncrement; }
  uint64_t next64() {
    step();
    const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

  Wide state_ = 0;
  uint32_t high_ = 0;
  bool has_high_ = false;
};

}  // namespace

uint64_t NumpyRandomState::interval(uint64_t highest) {
  const uint64_t mask = std::bit_ceil(highest + 1) - 1;
  for (;;) {
    uint64_t draw = generator_();
    if (highest > 0xFFFFFFFF) draw = draw << 32 | generator_();
    if ((draw & mask) <= highest) return draw & mask;
  }
}

std::vector<int32_t> numpy_default_integers(int32_t low, int32_t high, int64_t count) {
  LOCKSTEP_CHECK(low < high, "low={} high={}", low, high);
  const auto range = static_cast<uint32_t>(int64_t{high} - low);
  const uint32_t biased =
      (0xFFFFFFFF - (range - 1)) % range;  // low products below it would come up too often (Lemire 2019)
  Pcg64 generator;
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  for (int32_t& number : numbers) {
    uint64_t product;
    do {
      product = uint64_t{generator.next32()} * range;
    } while (static_cast<uint32_t>(product) < biased);
    number = low + static_cast<int32_t>(product >> 32);
  }
  return numbers;
}

}  // namespace lockstep::data
