#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace lockstep::core {

/// Philox4x32-10 (Salmon et al., SC 2011): four random words as a pure function of (key, counter). No state, so any
/// element of any stream can be computed on any rank in any order.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high = 0);

/// A 64-bit key from parts, for example stream_key({seed, epoch, sample, kPurposeCrop}). Order matters.
uint64_t stream_key(std::initializer_list<uint64_t> parts);
/// The key of a named stream: all draws of a parameter, say.
uint64_t stream_key(uint64_t seed, std::string_view name);

/// Uniform in [0, 1) with 53 bits, from two words.
double to_unit(uint32_t high, uint32_t low);

/// A sequence of draws from one key: the n-th draw depends on the key and n alone.
class CounterRng {
 public:
  explicit CounterRng(uint64_t key, uint64_t position = 0) : key_(key), position_(position) {}
  uint64_t next_u64();
  double uniform();                         ///< [0, 1)
  double uniform(double low, double high);  ///< [low, high)
  double normal();                          ///< Mean 0, deviation 1 (Box-Muller, both words of one draw).
  uint64_t below(uint64_t bound);           ///< [0, bound), bound > 0, without modulo bias (Lemire).
  uint64_t position() const { return position_; }

 private:
  uint64_t key_;
  uint64_t position_;  // draws so far
};

/// A keyed bijection on [0, count): index j of a shuffled order, computed in O(1) (balanced Feistel network, 6 rounds,
/// cycle walking).
class Permutation {
 public:
  Permutation(uint64_t count, uint64_t key);
  uint64_t operator()(uint64_t index) const;  ///< index < count
  uint64_t count() const { return count_; }

 private:
  uint64_t count_;
  uint64_t key_;
  unsigned half_bits_;
};

}  // namespace lockstep::core
