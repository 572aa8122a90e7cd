#include "data/text/word_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "data/text/text_clean.h"
#include "data/text/text_unicode.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 5> kSpecial{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr size_t kLongestWord = 100;              // characters; a longer word is unknown
constexpr size_t kLargestVocabulary = 64u << 20;  // bytes

fs::path vocabulary_file(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / "vocab.txt" : path;
  if (fs::is_regular_file(file, ignored)) return file;
  throw UsageError(fmt::format("data: no word pieces in '{}'", path.string()),
                   "give bert-base-uncased's vocab.txt, or the folder that holds it (Hugging Face)");
}

std::unordered_map<std::string, int32_t> read_pieces(const fs::path& file) {
  if (fs::file_size(file) > kLargestVocabulary)
    throw DataError(
        fmt::format("data: '{}' is no vocabulary: it has more than {} MiB", file.string(), kLargestVocabulary >> 20));
  std::unordered_map<std::string, int32_t> id_of;
  const std::string text = core::read_file(file);
  if (const size_t place = find_invalid_utf8(text); place != std::string::npos)
    throw DataError(fmt::format("data: '{}': byte {} is not UTF-8", file.string(), place));
  int32_t id = 0;
  for (size_t begin = 0; begin < text.size(); ++id) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string piece = text.substr(begin, end - begin);
    if (!piece.empty() && piece.back() == '\r') piece.pop_back();
    if (!id_of.emplace(piece, id).second)
      throw DataError(fmt::format("data: '{}', line {}: '{}' stands there twice", file.string(), id + 1, piece));
    begin = end + 1;
  }
  return id_of;
}

AddedTokenFinder special_tokens(const std::unordered_map<std::string, int32_t>& id_of) {
  std::vector<AddedToken> tokens;
  for (const std::string_view name : kSpecial)
    if (const auto found = id_of.find(std::string(name)); found != id_of.end())
      tokens.push_back({.id = found->second, .content = found->first, .is_special = true});
  return AddedTokenFinder(std::move(tokens));
}

/// Blocks of characters of which each is a word.
bool is_ideograph(char32_t c) {
  constexpr std::array<std::array<char32_t, 2>, 8> kBlocks{{{0x4E00, 0x9FFF},
                                                            {0x3400, 0x4DBF},
                                                            {0x20000, 0x2A6DF},
                                                            {0x2A700, 0x2B73F},
                                                            {0x2B740, 0x2B81F},
                                                            {0x2B920, 0x2CEAF},
                                                            {0xF900, 0xFAFF},
                                                            {0x2F800, 0x2FA1F}}};
  return std::any_of(kBlocks.begin(), kBlocks.end(), [&](const auto& block) { return c >= block[0] && c <= block[1]; });
}

bool is_space(char32_t c) { return is_white_space(c) && !(c >= 0x1C && c <= 0x1F); }

/// BERT's normaliser: no control characters, one kind of space, ideographs apart, no accents, lower case.
std::u32string normalised(std::string_view utf8) {
  std::u32string text, spaced;
  if (!decode_utf8(utf8, text)) throw DataError("data: a text is not UTF-8");
  for (const char32_t c : text) {
    const bool is_kept_control = c == U'\t' || c == U'\n' || c == U'\r';
    if (c == 0 || c == kReplacementCharacter || (is_control(c) && !is_kept_control)) continue;
    if (is_space(c)) {
      spaced += U' ';
    } else if (is_ideograph(c)) {
      spaced += U' ';
      spaced += c;
      spaced += U' ';
    } else {
      spaced += c;
    }
  }
  std::u32string plain = to_nfd(std::move(spaced));
  std::erase_if(plain, is_nonspacing_mark);
  std::transform(plain.begin(), plain.end(), plain.begin(), to_lower);
  return plain;
}

}  // namespace

WordPieces::WordPieces(const fs::path& path)
    : id_of_(read_pieces(vocabulary_file(path))), special_(special_tokens(id_of_)) {
  const auto id_of = [&](const char* name) {
    const auto found = id_of_.find(name);
    if (found == id_of_.end())
      throw DataError(fmt::format("data: '{}' has no {}", vocabulary_file(path).string(), name),
                      "expected bert-base-uncased's vocab.txt");
    return found->second;
  };
  start_id_ = id_of("[CLS]");
  end_id_ = id_of("[SEP]");
  padding_id_ = id_of("[PAD]");
  unknown_id_ = id_of("[UNK]");
  for (const auto& [piece, id] : id_of_) longest_ = std::max(longest_, piece.size());  // bytes are no fewer
}

std::vector<int32_t> WordPieces::ids(std::string_view utf8) const {
  std::vector<int32_t> ids;
  for (const AddedTokenFinder::Piece& piece : special_.split(utf8)) {
    if (piece.id >= 0)
      ids.push_back(piece.id);
    else
      append_plain(piece.text, ids);
  }
  return ids;
}

void WordPieces::append_plain(std::string_view utf8, std::vector<int32_t>& ids) const {
  std::u32string word;
  const auto end_word = [&] {
    if (!word.empty()) append_word(word, ids);
    word.clear();
  };
  for (const char32_t c : normalised(utf8)) {
    if (is_space(c)) {
      end_word();
    } else if (is_punctuation(c)) {
      end_word();
      append_word(std::u32string(1, c), ids);
    } else {
      word += c;
    }
  }
  end_word();
}

void WordPieces::append_word(const std::u32string& word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  size_t begin = 0;
  while (begin < word.size() && word.size() <= kLongestWord) {
    const auto piece_to = [&](size_t end) {
      return id_of_.find((begin > 0 ? "##" : "") + encode_utf8(std::u32string_view(word).substr(begin, end - begin)));
    };
    size_t end = std::min(word.size(), begin + longest_);
    while (end > begin && piece_to(end) == id_of_.end()) --end;
    if (end == begin) break;
    ids.push_back(piece_to(end)->second);
    begin = end;
  }
  if (begin == word.size()) return;
  ids.resize(before);
  ids.push_back(unknown_id_);
}

TextEncoder make_word_piece_encoder(const fs::path& path, int64_t vocab_size, TextCleaning cleaning) {
  const auto pieces = std::make_shared<const WordPieces>(path);
  if (pieces->vocab_size() > vocab_size)
    throw UsageError(fmt::format("data: the vocabulary '{}' has {} pieces, the model takes {}", path.string(),
                                 pieces->vocab_size(), vocab_size),
                     "give the vocabulary that belongs to --model");
  return [pieces, cleaning](std::string_view utf8, std::span<int32_t> out) {
    LOCKSTEP_CHECK(out.size() >= 2, "context length {} leaves no place for start and end", out.size());
    std::vector<int32_t> ids = pieces->ids(clean_text(utf8, cleaning));
    ids.resize(std::min(ids.size(), out.size() - 2));  // the end has a place of its own, though padding fills it
    std::replace(ids.begin(), ids.end(), pieces->end_id(), 0);
    out[0] = pieces->start_id();
    std::copy(ids.begin(), ids.end(), out.begin() + 1);
    const auto rest = out.subspan(ids.size() + 1);
    rest.front() = 0;
    std::fill(rest.begin() + 1, rest.end(), pieces->padding_id());
  };
}

}  // namespace lockstep::data
