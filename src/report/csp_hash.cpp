#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "report/page_assets.h"

namespace lockstep::report {
namespace {

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4).
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;

void mix_block(State& state, const unsigned char* block) {
  std::array<uint32_t, 64> words;
  for (size_t at = 0; at < 16; ++at)
    words[at] = uint32_t{block[4 * at]} << 24 | uint32_t{block[4 * at + 1]} << 16 | uint32_t{block[4 * at + 2]} << 8 |
                block[4 * at + 3];
  for (size_t at = 16; at < 64; ++at) {
    const uint32_t near = std::rotr(words[at - 2], 17) ^ std::rotr(words[at - 2], 19) ^ (words[at - 2] >> 10);
    const uint32_t far = std::rotr(words[at - 15], 7) ^ std::rotr(words[at - 15], 18) ^ (words[at - 15] >> 3);
    words[at] = words[at - 16] + far + words[at - 7] + near;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t round = 0; round < 64; ++round) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                           kRound[round] + words[round];
    const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const State mixed = {a, b, c, d, e, f, g, h};
  for (size_t at = 0; at < state.size(); ++at) state[at] += mixed[at];
}

std::string base64(const std::string& bytes) {
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t left = bytes.size() - at;
    const auto byte = [&](size_t offset) {
      return offset < left ? static_cast<unsigned char>(bytes[at + offset]) : 0u;
    };
    const uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (size_t letter = 0; letter < 4; ++letter)
      text += letter <= left ? kLetters[group >> (18 - 6 * letter) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string csp_hash(std::string_view content) {
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded(content);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(uint64_t{content.size()} * 8 >> shift);
  for (size_t at = 0; at < padded.size(); at += 64)
    mix_block(state, reinterpret_cast<const unsigned char*>(padded.data()) + at);
  std::string digest;
  for (const uint32_t word : state)
    for (int shift = 24; shift >= 0; shift -= 8) digest += static_cast<char>(word >> shift);
  return "sha256-" + base64(digest);
}

}  // namespace lockstep::report
