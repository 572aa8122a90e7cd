#include "data/tokens/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <ranges>

#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// Header: 9 bytes of magic, u64 version, u8 type, u64 sequences, u64 document bounds; then i32 lengths, i64 byte
// offsets, i64 bounds and perhaps i8 modes. All little endian; the arrays of 8-byte numbers are not aligned.
constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr size_t kHeaderBytes = 34;
constexpr uint64_t kIndexedVersion = 1;

template <typename T> T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

fs::path index_path(const fs::path& prefix) { return prefix.string() + ".idx"; }
fs::path tokens_path(const fs::path& prefix) { return prefix.string() + ".bin"; }

fs::path require_both(fs::path prefix) {
  constexpr const char* kIndexHint =
      "a tokenized corpus is a pair PREFIX.idx and PREFIX.bin; `lockstep data tokenize` writes one";
  core::require_file(index_path(prefix), "token index", kIndexHint);
  core::require_file(tokens_path(prefix), "token file", kIndexHint);
  return prefix;
}

/// Copies tokens of type T; returns the place of the first that is outside [0, limit), or out.size().
template <typename T> size_t copy_tokens(const std::byte* from, std::span<int32_t> out, int64_t limit) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    if (!(value >= T{0}) || !(static_cast<double>(value) < static_cast<double>(limit))) return i;
    out[i] = static_cast<int32_t>(value);  // NOLINT(bugprone-signed-char-misuse): not negative, see above
  }
  return out.size();
}

size_t copy_tokens(TokenType type, const std::byte* from, std::span<int32_t> out, int64_t limit) {
  switch (type) {
    case TokenType::kU8: return copy_tokens<uint8_t>(from, out, limit);
    case TokenType::kI8: return copy_tokens<int8_t>(from, out, limit);
    case TokenType::kI16: return copy_tokens<int16_t>(from, out, limit);
    case TokenType::kI32: return copy_tokens<int32_t>(from, out, limit);
    case TokenType::kI64: return copy_tokens<int64_t>(from, out, limit);
    case TokenType::kF64: return copy_tokens<double>(from, out, limit);
    case TokenType::kF32: return copy_tokens<float>(from, out, limit);
    case TokenType::kU16: return copy_tokens<uint16_t>(from, out, limit);
  }
  return 0;
}

std::string value_text(TokenType type, const std::byte* at) {
  switch (type) {
    case TokenType::kU8: return fmt::format("{}", load<uint8_t>({at, 1}, 0));
    case TokenType::kI8: return fmt::format("{}", load<int8_t>({at, 1}, 0));
    case TokenType::kI16: return fmt::format("{}", load<int16_t>({at, 2}, 0));
    case TokenType::kI32: return fmt::format("{}", load<int32_t>({at, 4}, 0));
    case TokenType::kI64: return fmt::format("{}", load<int64_t>({at, 8}, 0));
    case TokenType::kF64: return fmt::format("{}", load<double>({at, 8}, 0));
    case TokenType::kF32: return fmt::format("{}", load<float>({at, 4}, 0));
    case TokenType::kU16: return fmt::format("{}", load<uint16_t>({at, 2}, 0));
  }
  return "";
}

}  // namespace

int64_t token_bytes(TokenType type) {
  constexpr std::array<int64_t, 9> kBytes = {0, 1, 1, 2, 4, 8, 8, 4, 2};
  return kBytes[static_cast<size_t>(type)];
}

const char* token_type_name(TokenType type) {
  constexpr std::array<const char*, 9> kNames = {"", "u8", "i8", "i16", "i32", "i64", "f64", "f32", "u16"};
  return kNames[static_cast<size_t>(type)];
}

TokenType token_type_for(int64_t vocab_size) { return vocab_size < 65500 ? TokenType::kU16 : TokenType::kI32; }

fs::path indexed_prefix(const fs::path& path) {
  const bool has_ending = path.extension() == ".idx" || path.extension() == ".bin";
  return has_ending ? fs::path(path).replace_extension() : path;
}

IndexedDataset::IndexedDataset(const fs::path& path)
    : prefix_(require_both(indexed_prefix(path))), index_(index_path(prefix_)), tokens_(tokens_path(prefix_)) {
  check_header();
  check_sequences();
  check_documents();
}

void IndexedDataset::refuse(std::string_view what, std::string_view hint) const {
  throw DataError(
      fmt::format("data: token index '{}': {}", index_path(prefix_).string(), what),
      hint.empty() ? "copy both files again, or write them anew with `lockstep data tokenize`" : std::string(hint));
}

void IndexedDataset::check_header() {
  const std::span<const std::byte> bytes = index_.bytes();
  if (bytes.size() < kHeaderBytes)
    refuse(fmt::format("cut: bytes={}, expected at least {}", bytes.size(), kHeaderBytes));
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), kMagic.size());
  if (core::starts_with(magic, "TNTIDX"))
    refuse("it has the old format TNTIDX, expected MMIDIDX",
           "tokenize the text again; Megatron has dropped that format, too");
  if (magic != kMagic)
    refuse("it does not begin with MMIDIDX, so it is no token index", "is it another program's .idx file?");
  const auto version = load<uint64_t>(bytes, 9);
  if (version != kIndexedVersion) refuse(fmt::format("version={}, expected {}", version, kIndexedVersion));
  const auto code = load<uint8_t>(bytes, 17);
  if (code < 1 || code > 8) refuse(fmt::format("token type code={}, expected 1 to 8", code));
  type_ = static_cast<TokenType>(code);
  const auto sequences = load<uint64_t>(bytes, 18), bounds = load<uint64_t>(bytes, 26);
  const uint64_t most = bytes.size() / 8;  // before any product can overflow
  if (sequences > most || bounds > most || bounds < 1)
    refuse(fmt::format("it promises {} sequences and {} document bounds in {} bytes", sequences, bounds, bytes.size()));
  const uint64_t implied = kHeaderBytes + 12 * sequences + 8 * bounds;
  if (bytes.size() != implied &&
      bytes.size() != implied + sequences)  // multimodal: one more byte per sequence, not interpreted
    refuse(fmt::format("bytes={}, expected {} for {} sequences and {} documents", bytes.size(), implied, sequences,
                       bounds - 1));
  num_sequences_ = static_cast<int64_t>(sequences);
  num_documents_ = static_cast<int64_t>(bounds) - 1;
}

int32_t IndexedDataset::length(int64_t sequence) const {
  return load<int32_t>(index_.bytes(), kHeaderBytes + 4 * static_cast<size_t>(sequence));
}

int64_t IndexedDataset::pointer(int64_t sequence) const {
  return load<int64_t>(index_.bytes(),
                       kHeaderBytes + 4 * static_cast<size_t>(num_sequences_) + 8 * static_cast<size_t>(sequence));
}

int64_t IndexedDataset::document_begin(int64_t document) const {
  return load<int64_t>(index_.bytes(),
                       kHeaderBytes + 12 * static_cast<size_t>(num_sequences_) + 8 * static_cast<size_t>(document));
}

void IndexedDataset::check_sequences() {
  const int64_t item_bytes = token_bytes(type_);
  int64_t expected = 0;  // at most 2^63: fewer than 2^60 / 8 sequences of less than 2^31 tokens would not fit a file
  for (int64_t i = 0; i < num_sequences_; ++i) {
    const int32_t tokens = length(i);
    if (tokens < 0) refuse(fmt::format("sequence {} has length={}, expected 0 or more", i, tokens));
    if (pointer(i) != expected)
      refuse(fmt::format("sequence {} begins at byte {} of the .bin file, expected {}", i, pointer(i), expected));
    expected += item_bytes * tokens;
  }
  num_tokens_ = expected / item_bytes;
  const auto size = static_cast<int64_t>(tokens_.bytes().size());
  if (size != expected)
    throw DataError(
        fmt::format("data: token file '{}' does not fit its index: bytes={}, expected {} for {} tokens of type {}",
                    tokens_path(prefix_).string(), size, expected, num_tokens_, token_type_name(type_)),
        size < expected ? "the file is cut; copy it again" : "do both files come from the same corpus?");
}

void IndexedDataset::check_documents() const {
  int64_t previous = 0;
  for (int64_t i = 0; i <= num_documents_; ++i) {
    const int64_t begin = document_begin(i);
    if (begin < previous || begin > num_sequences_ || (i == 0 && begin != 0))
      refuse(fmt::format("document {} begins at sequence {}, expected {} to {}", i, begin, previous,
                         i == 0 ? 0 : num_sequences_));
    previous = begin;
  }
  if (previous != num_sequences_)
    refuse(fmt::format("the last document ends at sequence {}, expected {}", previous, num_sequences_));
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<int32_t> out, int64_t vocab_size) const {
  LOCKSTEP_CHECK(sequence >= 0 && sequence < num_sequences_ && offset >= 0 &&
                     offset + static_cast<int64_t>(out.size()) <= length(sequence),
                 "sequence {} offset {} tokens {}", sequence, offset, out.size());
  const std::byte* const from = tokens_.bytes().data() + pointer(sequence) + offset * token_bytes(type_);
  const int64_t limit = std::min<int64_t>(vocab_size, int64_t{1} << 31);
  const size_t good = copy_tokens(type_, from, out, limit);
  if (good != out.size())
    refuse_token(pointer(sequence) / token_bytes(type_) + offset + static_cast<int64_t>(good), vocab_size);
}

void IndexedDataset::refuse_token(int64_t token, int64_t vocab_size) const {
  const int64_t at = token * token_bytes(type_);
  // The last that begins at or before: the only one there that is not empty.
  const auto last_from = [](int64_t count, auto begin_of, int64_t place) {
    const auto numbers = std::views::iota(int64_t{0}, count);
    return *(std::ranges::upper_bound(numbers, place, {}, begin_of) - 1);
  };
  const int64_t sequence = last_from(
      num_sequences_, [this](int64_t i) { return pointer(i); }, at);
  const int64_t document = last_from(
      num_documents_, [this](int64_t i) { return document_begin(i); }, sequence);
  const std::string where =
      fmt::format("token {} of sequence {}{}", (at - pointer(sequence)) / token_bytes(type_), sequence,
                  num_documents_ == num_sequences_ ? " (a document)" : fmt::format(" in document {}", document));
  throw DataError(
      fmt::format("data: token file '{}': {} is {}, expected 0 to {}", tokens_path(prefix_).string(), where,
                  value_text(type_, tokens_.bytes().data() + at), std::min<int64_t>(vocab_size, int64_t{1} << 31) - 1),
      "was the text tokenized with this tokenizer, and is the vocabulary size right?");
}

}  // namespace lockstep::data
