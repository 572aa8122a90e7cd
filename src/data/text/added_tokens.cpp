#include "data/text/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "core/strings.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

/// What \w means in the reference (Rust's regex crate).
bool is_word(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  return u_hasBinaryProperty(code, UCHAR_ALPHABETIC) || u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(code) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool is_unicode_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

/// The start of the character that ends at `end` (> 0).
size_t last_character(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return decode_utf8_step(text, at).num_bytes == end - at ? at : end - 1;
}

bool ends_with_word(std::string_view text, size_t end) {
  if (end == 0) return false;
  const Utf8Step step = decode_utf8_step(text, last_character(text, end));
  return step.ok && is_word(step.code_point);
}

bool starts_with_word(std::string_view text, size_t begin) {
  if (begin >= text.size()) return false;
  const Utf8Step step = decode_utf8_step(text, begin);
  return step.ok && is_word(step.code_point);
}

size_t strip_left(std::string_view text, size_t begin, size_t lowest) {
  while (begin > lowest) {
    const size_t before = last_character(text, begin);
    const Utf8Step step = decode_utf8_step(text, before);
    if (before < lowest || !step.ok || !is_unicode_space(step.code_point)) break;
    begin = before;
  }
  return begin;
}

size_t strip_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Utf8Step step = decode_utf8_step(text, end);
    if (!step.ok || !is_unicode_space(step.code_point)) break;
    end += step.num_bytes;
  }
  return end;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  for (size_t i = 0; i < tokens_.size(); ++i)
    by_first_byte_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(i);
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t at) const {
  for (const size_t i : by_first_byte_[static_cast<unsigned char>(text[at])])
    if (core::starts_with(text.substr(at), tokens_[i].content)) return &tokens_[i];
  return nullptr;
}

std::vector<AddedTokenFinder::Piece> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Piece> pieces;
  size_t done = 0;  // text before it lies in pieces
  for (size_t at = 0; at < text.size();) {
    const AddedToken* const token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word && (ends_with_word(text, begin) || starts_with_word(text, end))) continue;
    if (token->lstrip) begin = strip_left(text, begin, done);
    if (token->rstrip) end = strip_right(text, end);
    at = end;
    if (done < begin) pieces.push_back({text.substr(done, begin - done)});
    pieces.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done)});
  return pieces;
}

}  // namespace lockstep::data
