// Random damage for readers of foreign bytes.
#pragma once
#include <cstdlib>
#include <string>

#include "core/rng.h"
#include "core/strings.h"

namespace lockstep::tests {

/// Rounds of a property test: `usual`, or LOCKSTEP_FUZZ_ROUNDS for a long run by hand.
inline uint64_t fuzz_rounds(uint64_t usual) {
  const char* request = std::getenv("LOCKSTEP_FUZZ_ROUNDS");
  const auto rounds = request != nullptr ? core::parse_int(request) : std::nullopt;
  return rounds && *rounds > 0 ? static_cast<uint64_t>(*rounds) : usual;
}

/// One to eight changes: bytes flipped, pieces cut out, doubled or moved, numbers made extreme, the end cut off.
inline std::string damage(std::string bytes, core::CounterRng& rng) {
  static const std::string kNasty[] = {
      "nan", "inf", "-1",     "1e999", "-0", "99999999999999999999", "0", "\r", "\n", "\x1b[", "\"",
      ",",   "{",   "1e-320", "4e18",  ": ", std::string(1, '\0')};
  for (uint64_t left = 1 + rng.below(8); left > 0 && !bytes.empty(); --left) {
    const uint64_t at = rng.below(bytes.size()), length = 1 + rng.below(40);
    switch (rng.below(6)) {
      case 0: bytes[at] = static_cast<char>(rng.below(256)); break;
      case 1: bytes.erase(at, length); break;
      case 2: bytes.insert(at, bytes.substr(rng.below(bytes.size()), rng.below(400))); break;
      case 3: bytes.insert(at, kNasty[rng.below(std::size(kNasty))]); break;
      case 4: {  // a number becomes an extreme one
        const size_t digit = bytes.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const size_t end = bytes.find_first_not_of("0123456789.", digit);
        bytes.replace(digit, end == std::string::npos ? std::string::npos : end - digit,
                      kNasty[rng.below(std::size(kNasty))]);
        break;
      }
      default:
        if (rng.below(4) == 0) bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace lockstep::tests
