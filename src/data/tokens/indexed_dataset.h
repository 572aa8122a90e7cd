#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"

namespace lockstep::data {

/// How tokens lie in a .bin file; the numbers are those of Megatron's .idx header.
enum class TokenType : uint8_t { kU8 = 1, kI8 = 2, kI16 = 3, kI32 = 4, kI64 = 5, kF64 = 6, kF32 = 7, kU16 = 8 };

int64_t token_bytes(TokenType type);
const char* token_type_name(TokenType type);
/// The type that Megatron's preprocessing chooses for a vocabulary: u16 below 65,500, else i32.
TokenType token_type_for(int64_t vocab_size);

/// "x/data" of "x/data", "x/data.idx" and "x/data.bin".
std::filesystem::path indexed_prefix(const std::filesystem::path& path);

/// A tokenized corpus in Megatron's format, PREFIX.idx and PREFIX.bin, memory-mapped. Opening checks every field of the
/// index and the size of both files; whatever does not fit throws DataError with the file, the field, the value seen
/// and the value expected. A document is one or more sequences. All members are const and thread safe.
class IndexedDataset {
 public:
  explicit IndexedDataset(const std::filesystem::path& path);

  const std::filesystem::path& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  /// Tokens of a sequence.
  int32_t length(int64_t sequence) const;
  /// First sequence of a document; of num_documents(): the number of sequences.
  int64_t document_begin(int64_t document) const;
  /// Copies out.size() tokens of a sequence from `offset` on, which must lie inside it. Values that are no int32 >= 0
  /// throw DataError, as do those from `vocab_size` on.
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out, int64_t vocab_size) const;
  /// All tokens as they lie in the .bin file.
  std::span<const std::byte> token_data() const { return tokens_.bytes(); }
  /// DataError for a token of the .bin file, counted from its begin: names its document, place and value.
  [[noreturn]] void refuse_token(int64_t token, int64_t vocab_size) const;

 private:
  void check_header();
  void check_sequences();
  void check_documents() const;
  [[noreturn]] void refuse(std::string_view what, std::string_view hint = "") const;
  int64_t pointer(int64_t sequence) const;

  std::filesystem::path prefix_;
  core::MappedFile index_, tokens_;
  TokenType type_ = TokenType::kI32;
  int64_t num_sequences_ = 0, num_documents_ = 0, num_tokens_ = 0;
};

/// Writes a pair of files that Megatron and IndexedDataset read. Nothing is visible before finish().
class IndexedDatasetWriter {
 public:
  /// The folder must exist. Float types are an internal error.
  IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  /// Adds a sequence to the document under construction. An id that does not fit the type throws DataError.
  void add_sequence(std::span<const int32_t> ids);
  void end_document();
  /// Makes both files visible.
  void finish();
  int64_t num_documents() const;
  int64_t num_tokens() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
