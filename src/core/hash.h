#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::core {

/// XXH3-128 of a byte stream, fed in pieces. Guards against corruption, not against forgery.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  ///< 32 hex digits of everything fed so far.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string xxh3_hex(std::span<const std::byte> bytes);
std::string xxh3_hex(std::string_view text);

/// A 64-bit hash of text that never changes between versions; keys the random streams.
uint64_t stable_hash(std::string_view text);

}  // namespace lockstep::core
