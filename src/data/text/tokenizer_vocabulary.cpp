#include "data/text/tokenizer_vocabulary.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"
#include "data/text/bpe_merge.h"
#include "data/text/bpe_model.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;
constexpr std::string_view kWordEnd = "</w>";
const char* const kVocabularyHint =
    "fetch the files again with tools/fetch_clip_assets.py, or name another with --tokenizer-vocab";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw DataError(fmt::format("data: vocabulary '{}' is damaged: {}", path.string(), what), kVocabularyHint);
}

std::string gunzip(const std::string& packed, const std::filesystem::path& path) {
  z_stream stream{};
  LOCKSTEP_CHECK(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK, "zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib takes no pointer to const here
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  int status = Z_OK;
  while (status == Z_OK && text.size() <= kMaxVocabularyBytes) {
    std::array<char, 1 << 16> block;
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = block.size();
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(block.data(), block.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (text.size() > kMaxVocabularyBytes)
    refuse(path, fmt::format("more than {} bytes when unpacked", kMaxVocabularyBytes));
  if (status != Z_STREAM_END) {
    refuse(path,
           fmt::format("gzip data broken or cut after {} of its bytes and {} unpacked", stream.total_in, text.size()));
  }
  return text;
}

std::string read_vocabulary(const std::filesystem::path& path) {
  std::string content = core::read_named_file(path, "vocabulary");
  if (content.size() > kMaxVocabularyBytes) {
    refuse(path, fmt::format("bytes={}, expected at most {}", content.size(), kMaxVocabularyBytes));
  }
  const bool packed = core::starts_with(content, "\x1f\x8b");
  return packed ? gunzip(content, path) : content;
}

/// The ids that no line makes: of all bytes, and of all bytes that end a word.
struct ByteSymbols {
  std::vector<std::string> tokens{};               // by their ids
  std::unordered_map<std::string, int32_t> ids{};  // as they are spelled in the file
  std::array<int32_t, BpeVocabulary::kNumBytes> of_byte{};
};

ByteSymbols make_byte_symbols() {
  constexpr int kNumBytes = BpeVocabulary::kNumBytes;
  ByteSymbols symbols;
  std::vector<int> order;
  for (int byte = 0; byte < kNumBytes; ++byte) {
    if (is_spelled_plainly(byte)) order.push_back(byte);
  }
  for (int byte = 0; byte < kNumBytes; ++byte) {
    if (!is_spelled_plainly(byte)) order.push_back(byte);
  }
  for (const std::string_view ending : {std::string_view{}, kWordEnd}) {
    char32_t next_spelling = kNumBytes;
    for (const int byte : order) {
      const auto id = static_cast<int32_t>(symbols.tokens.size());
      std::string spelling;
      append_utf8(spelling, is_spelled_plainly(byte) ? static_cast<char32_t>(byte) : next_spelling++);
      symbols.ids.emplace(spelling.append(ending), id);
      symbols.tokens.push_back(std::string(1, static_cast<char>(byte)).append(ending));
      if (ending.empty()) symbols.of_byte[static_cast<size_t>(byte)] = id;
    }
  }
  return symbols;
}

const ByteSymbols& byte_symbols() {
  static const ByteSymbols symbols = make_byte_symbols();
  return symbols;
}

}  // namespace

BpeVocabulary::BpeVocabulary(const std::filesystem::path& path) {
  const std::string text = read_vocabulary(path);
  const auto most_merges =
      std::min<size_t>(kNumMerges, static_cast<size_t>(std::count(text.begin(), text.end(), '\n')));
  tokens_.reserve(most_merges + kNumIds - kNumMerges);  // a file that is cut off early costs little
  symbols_.reserve(most_merges);
  merges_.reserve(most_merges);
  byte_ids_ = byte_symbols().of_byte;
  tokens_.assign(byte_symbols().tokens.begin(), byte_symbols().tokens.end());
  size_t start = text.find('\n') + 1;  // the first line is a title
  for (int32_t merge = 0; merge < kNumMerges; ++merge) {
    const int64_t line_number = merge + 2;
    if (start == 0 || start >= text.size()) {
      refuse(path, fmt::format("it ends before line {}, expected at least {} lines", line_number, kNumMerges + 1));
    }
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = core::trim(std::string_view(text).substr(start, end - start));
    try {
      add_merge(line);
    } catch (const DataError& error) {
      refuse(path, fmt::format("line {}: {}", line_number, error.what()));
    }
    start = end + 1;
  }
  symbols_ = {};
  tokens_.emplace_back("<start_of_text>");
  tokens_.emplace_back("<end_of_text>");
}

void BpeVocabulary::add_merge(std::string_view line) {
  const size_t gap = line.find(' ');
  if (gap == std::string_view::npos || line.find(' ', gap + 1) != std::string_view::npos) {
    throw DataError(fmt::format("two symbols and one space expected, bytes={}", line.size()));
  }
  const std::string left_spelling(line.substr(0, gap)), right_spelling(line.substr(gap + 1));
  const auto id_of = [&](const std::string& spelling) -> std::optional<int32_t> {
    for (const auto* ids : {&std::as_const(symbols_), &byte_symbols().ids})
      if (const auto found = ids->find(spelling); found != ids->end()) return found->second;
    return std::nullopt;
  };
  const auto left = id_of(left_spelling), right = id_of(right_spelling);
  if (!left || !right)
    throw DataError(fmt::format("the {} symbol is made by no line before", left ? "second" : "first"));
  const std::string spelling = left_spelling + right_spelling;
  if (id_of(spelling)) throw DataError("a line before makes the same symbol");
  const auto id = static_cast<int32_t>(tokens_.size());
  std::string bytes = tokens_[static_cast<size_t>(*left)];
  bytes += tokens_[static_cast<size_t>(*right)];
  merges_.emplace(bpe_pair_key(*left, *right), id);
  symbols_.emplace(spelling, id);
  tokens_.push_back(std::move(bytes));
}

void BpeVocabulary::append_word(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<int32_t> symbols(word.size());
  for (size_t i = 0; i < word.size(); ++i) symbols[i] = byte_ids_[static_cast<unsigned char>(word[i])];
  symbols.back() += kNumBytes;
  merge_symbols(symbols, [this](int32_t left, int32_t right) -> std::optional<BpeMerge> {
    const auto found = merges_.find(bpe_pair_key(left, right));
    if (found == merges_.end()) return std::nullopt;
    return BpeMerge{found->second, found->second};  // ids rise with the rank
  });
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace lockstep::data
