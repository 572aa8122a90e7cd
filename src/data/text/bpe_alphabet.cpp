#include <array>

#include "data/text/bpe_model.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr size_t kNumSpellings = 324;  // 256 + the 68 bytes that are not printable Latin-1

struct Alphabet {
  std::array<char32_t, 256> spelling_of{};
  std::array<int, kNumSpellings> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t spelling = is_spelled_plainly(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.spelling_of[static_cast<size_t>(byte)] = spelling;
    alphabet.byte_of[spelling] = byte;
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char c : bytes) append_utf8(spelling, kAlphabet.spelling_of[static_cast<unsigned char>(c)]);
  return spelling;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string bytes;
  for (size_t i = 0; i < spelling.size();) {
    const Utf8Step step = decode_utf8_step(spelling, i);
    if (!step.ok || step.code_point >= kNumSpellings || kAlphabet.byte_of[step.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte_of[step.code_point]));
    i += step.num_bytes;
  }
  return bytes;
}

}  // namespace lockstep::data
