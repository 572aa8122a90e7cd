#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/bpe_merge.h"

namespace lockstep::data {

/// The printable spelling that byte-level vocabularies use: printable Latin-1 bytes stand for themselves, the other 68
/// for U+0100 on.
std::string spell_bytes(std::string_view bytes);
/// Whether a byte (0 to 255) is spelled as the Latin-1 character of the same number.
constexpr bool is_spelled_plainly(int byte) { return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD); }
/// The bytes behind a spelling; nothing when a character stands for no byte.
std::optional<std::string> unspell_bytes(std::string_view spelling);

/// A token found in the text before any splitting.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;    ///< Only between characters that belong to no word.
  bool lstrip = false;         ///< Takes the white space before it.
  bool rstrip = false;         ///< Takes the white space behind it.
  bool is_normalized = false;  ///< Looked for in the normalised text, else in the text as given.
  bool is_special = false;     ///< Left out by decode() when asked.
};

enum class TextForm { kAsIs, kNfc, kNfkc };

/// A step that cuts text into smaller pieces; what lies between two matches is a piece, too.
struct SplitStep {
  std::string pattern;  ///< For TextPattern.
};

/// All that a byte-level BPE tokenizer consists of, as read from its files.
struct BpeModel {
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using TokenIds = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

  std::vector<std::string> tokens;      ///< Bytes of each id; of an added token its content; "": the id is not used.
  TokenIds ids_by_bytes;                ///< Tokens of the vocabulary.
  TokenIds ids_by_name;                 ///< Every token as its file spells it.
  std::array<int32_t, 256> byte_ids{};  ///< -1: no token.
  std::unordered_map<uint64_t, BpeMerge> merges;  ///< By bpe_pair_key.
  std::vector<AddedToken> added;
  std::vector<SplitStep> splits;
  std::optional<int32_t> unknown_id;
  bool fuses_unknown = false;
  bool ignores_merges = false;  ///< A piece that is a token as a whole is not taken apart.
  bool adds_prefix_space = false;
  TextForm form = TextForm::kAsIs;
};

/// GPT-2's rule for cutting text into words, as Hugging Face writes it.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The pair of files of GPT-2 and RoBERTa. Of `special_tokens` each that the vocabulary holds becomes a special added
/// token. Damaged files throw DataError with file and place.
BpeModel read_bpe_files(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt,
                        const std::vector<std::string>& special_tokens);
/// A tokenizer.json of Hugging Face that holds a byte-level BPE model; what it asks for beyond that is refused by name.
BpeModel read_tokenizer_json(const std::filesystem::path& path);
/// `path`: a tokenizer.json (any name that ends in .json), or a folder that holds tokenizer.json or else vocab.json and
/// merges.txt. UsageError where there is none of them.
BpeModel open_bpe_model(const std::filesystem::path& path, const std::vector<std::string>& special_tokens);

}  // namespace lockstep::data
