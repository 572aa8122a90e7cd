#include "core/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/hash.h"

namespace lockstep::core {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  constexpr uint32_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57, kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> x{static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                            static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiply0} * x[0], product1 = uint64_t{kMultiply1} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

namespace {
uint64_t mix(uint64_t state, uint64_t part) {
  const auto x = philox(state, part, 0x6c6f636b73746570);  // "lockstep": apart from the data streams
  return (uint64_t{x[1]} << 32) | x[0];
}
}  // namespace

uint64_t stream_key(std::initializer_list<uint64_t> parts) {
  uint64_t state = parts.size();
  for (const uint64_t part : parts) state = mix(state, part);
  return state;
}

uint64_t stream_key(uint64_t seed, std::string_view name) { return stream_key({seed, stable_hash(name)}); }

double to_unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

uint64_t CounterRng::next_u64() {
  const auto x = philox(key_, position_++);
  return uint64_t{x[1]} << 32 | x[0];
}

double CounterRng::uniform() {
  const auto x = philox(key_, position_++);
  return to_unit(x[1], x[0]);
}

double CounterRng::uniform(double low, double high) { return low + (high - low) * uniform(); }

double CounterRng::normal() {
  const auto x = philox(key_, position_++);
  const double radius = std::sqrt(-2.0 * std::log1p(-to_unit(x[1], x[0])));
  return radius * std::cos(2.0 * std::numbers::pi * to_unit(x[3], x[2]));
}

uint64_t CounterRng::below(uint64_t bound) {
  LOCKSTEP_CHECK(bound > 0, "bound={}", bound);
  for (;;) {
    const auto product = static_cast<unsigned __int128>(next_u64()) * bound;
    const auto low = static_cast<uint64_t>(product);
    if (low >= bound || low >= (0 - bound) % bound) return static_cast<uint64_t>(product >> 64);
  }
}

Permutation::Permutation(uint64_t count, uint64_t key) : count_(count), key_(key) {
  LOCKSTEP_CHECK(count > 0 && count <= uint64_t{1} << 62, "count={}", count);
  const unsigned bits = std::max(2u, static_cast<unsigned>(std::bit_width(count - 1)));
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::operator()(uint64_t index) const {
  LOCKSTEP_CHECK(index < count_, "index={} count={}", index, count_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = index;
  do {  // values that leave the range walk on; the walk ends because index itself lies in the range
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const auto x = philox(key_, right, round);
      left ^= ((uint64_t{x[1]} << 32) | x[0]) & mask;
      std::swap(left, right);
    }
    value = left << half_bits_ | right;
  } while (value >= count_);
  return value;
}

}  // namespace lockstep::core
