#include "data/text/roberta_tokenizer.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

int32_t require_token(const ByteBpe& bpe, const char* name, const fs::path& path) {
  const auto id = bpe.token_id(name);
  if (!id)
    throw DataError(
        fmt::format("data: tokenizer '{}' has no token {}, expected the tokens <s>, </s> and <pad> of RoBERTa",
                    path.string(), name),
        "is it the tokenizer of another model?");
  return *id;
}

}  // namespace

RobertaTokenizer::RobertaTokenizer(const fs::path& path, std::optional<TextCleaning> cleaning)
    : bpe_(open_bpe_model(path, {"<s>", "</s>", "<pad>", "<unk>", "<mask>"})), cleaning_(cleaning) {
  start_id_ = require_token(bpe_, "<s>", path);
  end_id_ = require_token(bpe_, "</s>", path);
  padding_id_ = require_token(bpe_, "<pad>", path);
}

std::string RobertaTokenizer::cleaned(std::string_view text) const {
  return cleaning_ ? clean_text(text, *cleaning_) : std::string(text);
}

size_t RobertaTokenizer::encode(std::string_view text, std::span<int32_t> out) const {
  LOCKSTEP_CHECK(out.size() >= 2, "context length {} leaves no place for start and end", out.size());
  const size_t places = out.size() - 2;
  std::vector<int32_t> ids;
  bpe_.encode_into(cleaned(text), ids, places);
  const size_t kept = std::min(ids.size(), places);
  out[0] = start_id_;
  std::copy_n(ids.begin(), kept, out.begin() + 1);
  out[kept + 1] = end_id_;
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(kept) + 2, out.end(), padding_id_);
  return kept + 2;
}

std::vector<int32_t> RobertaTokenizer::ids(std::string_view text) const { return bpe_.encode(cleaned(text)); }

std::string RobertaTokenizer::decode(std::span<const int32_t> ids) const { return repair_utf8(bpe_.decode(ids, true)); }

}  // namespace lockstep::data
