#include <cstring>
#include <limits>

#include "core/error.h"
#include "data/tokens/indexed_dataset.h"

namespace lockstep::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

struct TokenRange {
  int64_t lowest, highest;
};

TokenRange range_of(TokenType type) {
  switch (type) {
    case TokenType::kU8: return {0, std::numeric_limits<uint8_t>::max()};
    case TokenType::kI8: return {0, std::numeric_limits<int8_t>::max()};
    case TokenType::kI16: return {0, std::numeric_limits<int16_t>::max()};
    case TokenType::kU16: return {0, std::numeric_limits<uint16_t>::max()};
    default: return {0, std::numeric_limits<int32_t>::max()};
  }
}

template <typename T> void append_bytes(std::vector<std::byte>& buffer, T value) {
  const size_t at = buffer.size();
  buffer.resize(at + sizeof value);
  std::memcpy(buffer.data() + at, &value, sizeof value);
}

/// A file under construction, written in large pieces.
class BufferedFile {
 public:
  explicit BufferedFile(const std::filesystem::path& path) : file_(path) {}
  template <typename T> void put(T value) {
    append_bytes(buffer_, value);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void commit() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }
  core::AtomicFile file_;
  std::vector<std::byte> buffer_;
};

}  // namespace

struct IndexedDatasetWriter::State {
  State(const std::filesystem::path& given, TokenType token_type)
      : prefix(given), type(token_type), tokens(given.string() + ".bin") {}

  void put_token(int32_t id) {
    switch (token_bytes(type)) {
      case 1: return tokens.put(static_cast<uint8_t>(id));
      case 2: return tokens.put(static_cast<uint16_t>(id));
      case 4: return tokens.put(id);
      default: return tokens.put(int64_t{id});
    }
  }

  void write_index() const {
    BufferedFile file(prefix.string() + ".idx");
    for (const char c : std::string_view("MMIDIDX\0\0", 9)) file.put(c);
    file.put(uint64_t{1});
    file.put(static_cast<uint8_t>(type));
    file.put(uint64_t{lengths.size()});
    file.put(uint64_t{document_bounds.size()});
    for (const int32_t length : lengths) file.put(length);
    int64_t pointer = 0;
    for (const int32_t length : lengths) {
      file.put(pointer);
      pointer += int64_t{length} * token_bytes(type);
    }
    for (const int64_t bound : document_bounds) file.put(bound);
    file.commit();
  }

  std::filesystem::path prefix;
  TokenType type;
  BufferedFile tokens;
  std::vector<int32_t> lengths;
  std::vector<int64_t> document_bounds = {0};
  int64_t num_tokens = 0;
};

IndexedDatasetWriter::IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type)
    : state_(std::make_unique<State>(prefix, type)) {
  LOCKSTEP_CHECK(type != TokenType::kF32 && type != TokenType::kF64, "type {}", token_type_name(type));
}
IndexedDatasetWriter::~IndexedDatasetWriter() = default;

void IndexedDatasetWriter::add_sequence(std::span<const int32_t> ids) {
  const auto [lowest, highest] = range_of(state_->type);
  if (ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw DataError(fmt::format("data: a sequence of {} tokens, expected at most {}", ids.size(),
                                std::numeric_limits<int32_t>::max()),
                    "cut the text into shorter documents");
  for (const int32_t id : ids) {
    if (id < lowest || id > highest)
      throw DataError(fmt::format("data: token id {} does not fit type {} ({} to {})", id,
                                  token_type_name(state_->type), lowest, highest));
    state_->put_token(id);
  }
  state_->lengths.push_back(static_cast<int32_t>(ids.size()));
  state_->num_tokens += static_cast<int64_t>(ids.size());
}

void IndexedDatasetWriter::end_document() {
  state_->document_bounds.push_back(static_cast<int64_t>(state_->lengths.size()));
}

void IndexedDatasetWriter::finish() {
  LOCKSTEP_CHECK(state_->document_bounds.back() == static_cast<int64_t>(state_->lengths.size()),
                 "a document has not ended");
  state_->tokens.commit();
  state_->write_index();
}

int64_t IndexedDatasetWriter::num_documents() const { return static_cast<int64_t>(state_->document_bounds.size()) - 1; }
int64_t IndexedDatasetWriter::num_tokens() const { return state_->num_tokens; }

}  // namespace lockstep::data
