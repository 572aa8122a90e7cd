#include "data/text/byte_bpe.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "data/text/added_tokens.h"
#include "data/text/text_pattern.h"
#include "data/text/text_unicode.h"
#include "data/text/text_utf8.h"
#include "data/text/word_cache.h"

namespace lockstep::data {
namespace {

std::vector<AddedToken> tokens_of(const BpeModel& model, bool is_normalized) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : model.added) {
    if (token.is_normalized != is_normalized) continue;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::string normalise_valid(std::string_view text, TextForm form) {
  std::u32string characters;
  LOCKSTEP_CHECK(decode_utf8(text, characters), "bytes={}", text.size());
  return encode_utf8(form == TextForm::kNfc ? to_nfc(std::move(characters)) : to_nfkc(characters));
}

/// Normalises what is UTF-8 and keeps other bytes.
std::string normalise(std::string_view text, TextForm form) {
  std::string out;
  while (!text.empty()) {
    const size_t valid = std::min(find_invalid_utf8(text), text.size());
    out += normalise_valid(text.substr(0, valid), form);
    text.remove_prefix(valid);
    if (text.empty()) break;
    const size_t broken = decode_utf8_step(text, 0).num_bytes;
    out += text.substr(0, broken);
    text.remove_prefix(broken);
  }
  return out;
}

}  // namespace

struct ByteBpe::State {
  explicit State(BpeModel read)
      : model(std::move(read)), raw_tokens(tokens_of(model, false)), normal_tokens(normalised_tokens()) {
    for (const SplitStep& split : model.splits)
      patterns.emplace_back(split.pattern, TextPattern::Case::kSensitive, TextPattern::Input::kBytes);
    is_special.resize(model.tokens.size());
    for (const AddedToken& token : model.added) is_special[static_cast<size_t>(token.id)] = token.is_special;
  }

  /// Added tokens that are looked for in normalised text, themselves normalised.
  std::vector<AddedToken> normalised_tokens() const {
    std::vector<AddedToken> tokens = tokens_of(model, true);
    if (model.form != TextForm::kAsIs)
      for (AddedToken& token : tokens) token.content = normalise(token.content, model.form);
    return tokens;
  }

  /// Ids of bytes; bytes without token become the unknown token, or an error.
  std::vector<int32_t> symbols_of(std::string_view word) const {
    std::vector<int32_t> symbols;
    symbols.reserve(word.size());
    bool was_unknown = false;
    for (const char c : word) {
      const int32_t id = model.byte_ids[static_cast<unsigned char>(c)];
      if (id < 0 && !model.unknown_id)
        throw DataError(
            fmt::format("data: the tokenizer has no token for byte 0x{:02x}", static_cast<unsigned char>(c)),
            "a byte-level vocabulary holds all 256 bytes; use another, or train one with `lockstep data train-bpe`");
      const bool is_unknown = id < 0;
      if (!is_unknown) symbols.push_back(id);
      if (is_unknown && !(was_unknown && model.fuses_unknown)) symbols.push_back(*model.unknown_id);
      was_unknown = is_unknown;
    }
    return symbols;
  }

  void append_word(std::string_view word, std::vector<int32_t>& ids) {
    if (cache.append(word, ids)) return;
    std::vector<int32_t> symbols;
    const auto whole = model.ignores_merges ? model.ids_by_bytes.find(word) : model.ids_by_bytes.end();
    if (whole != model.ids_by_bytes.end()) {
      symbols.push_back(whole->second);
    } else {
      symbols = symbols_of(word);
      merge_symbols(symbols, [&](int32_t left, int32_t right) -> std::optional<BpeMerge> {
        const auto found = model.merges.find(bpe_pair_key(left, right));
        if (found == model.merges.end()) return std::nullopt;
        return found->second;
      });
    }
    ids.insert(ids.end(), symbols.begin(), symbols.end());
    cache.remember(word, symbols);
  }

  /// Cuts the piece by the patterns from `step` on and appends the ids of what is left.
  void append_piece(std::string_view piece, size_t step, std::vector<int32_t>& ids, size_t enough) {
    if (step == patterns.size()) return append_word(piece, ids);
    TextPattern::Scan scan(patterns[step], piece);
    size_t done = 0;
    for (TextPattern::Match match; ids.size() < enough && scan.next(match); done = match.end) {
      if (done < match.begin) append_piece(piece.substr(done, match.begin - done), step + 1, ids, enough);
      append_piece(piece.substr(match.begin, match.end - match.begin), step + 1, ids, enough);
    }
    if (done < piece.size() && ids.size() < enough) append_piece(piece.substr(done), step + 1, ids, enough);
  }

  void append_plain(std::string_view text, std::vector<int32_t>& ids, size_t enough) {
    const bool adds_space = model.adds_prefix_space && text.front() != ' ';
    append_piece(adds_space ? " " + std::string(text) : text, 0, ids, enough);
  }

  void append_text(std::string_view text, std::vector<int32_t>& ids, size_t enough) {
    for (const AddedTokenFinder::Piece& outer : raw_tokens.split(text)) {
      if (ids.size() >= enough) return;
      if (outer.id >= 0) {
        ids.push_back(outer.id);
        continue;
      }
      const std::string normal = model.form == TextForm::kAsIs ? std::string() : normalise(outer.text, model.form);
      for (const AddedTokenFinder::Piece& piece :
           normal_tokens.split(model.form == TextForm::kAsIs ? outer.text : normal)) {
        if (ids.size() >= enough) return;
        if (piece.id >= 0) ids.push_back(piece.id);
        if (piece.id < 0) append_plain(piece.text, ids, enough);
      }
    }
  }

  const BpeModel model;
  const AddedTokenFinder raw_tokens, normal_tokens;
  std::vector<TextPattern> patterns;
  std::vector<bool> is_special;
  WordCache cache;
};

ByteBpe::ByteBpe(BpeModel model) : state_(std::make_unique<State>(std::move(model))) {}
ByteBpe::~ByteBpe() = default;
ByteBpe::ByteBpe(ByteBpe&&) noexcept = default;
ByteBpe& ByteBpe::operator=(ByteBpe&&) noexcept = default;

std::vector<int32_t> ByteBpe::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_into(text, ids, std::numeric_limits<size_t>::max());
  return ids;
}

void ByteBpe::encode_into(std::string_view text, std::vector<int32_t>& ids, size_t enough) const {
  const size_t limit = enough > std::numeric_limits<size_t>::max() - ids.size() ? enough : ids.size() + enough;
  state_->append_text(text, ids, limit);
}

std::string ByteBpe::decode(std::span<const int32_t> ids, bool skips_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || state_->model.tokens[static_cast<size_t>(id)].empty())
      throw DataError(
          fmt::format("data: token id {} is not in the vocabulary, expected 0 to {}", id, vocab_size() - 1));
    if (!(skips_special && state_->is_special[static_cast<size_t>(id)]))
      bytes += state_->model.tokens[static_cast<size_t>(id)];
  }
  return bytes;
}

int64_t ByteBpe::vocab_size() const { return static_cast<int64_t>(state_->model.tokens.size()); }

std::optional<int32_t> ByteBpe::token_id(std::string_view name) const {
  const auto found = state_->model.ids_by_name.find(name);
  if (found == state_->model.ids_by_name.end()) return std::nullopt;
  return found->second;
}

}  // namespace lockstep::data
