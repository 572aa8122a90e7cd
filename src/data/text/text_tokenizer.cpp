#include "data/text/text_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"
#include "data/text/byte_bpe.h"

namespace lockstep::data {
namespace {

const std::vector<std::string> kEodNames = {"<|endoftext|>", "<|end_of_text|>", "</s>"};

/// The id of the name asked for, or else of the first usual one that the model has.
template <typename IdOf> std::optional<int32_t> find_eod(const std::string& asked, const IdOf& id_of) {
  if (!asked.empty()) {
    const std::optional<int32_t> id = id_of(asked);
    if (!id)
      throw UsageError(fmt::format("data: the tokenizer has no token '{}'", asked),
                       "see its vocabulary for the end-of-document token");
    return id;
  }
  for (const std::string& name : kEodNames)
    if (const std::optional<int32_t> id = id_of(name)) return id;
  return std::nullopt;
}

class BpeTokenizer final : public TextTokenizer {
 public:
  BpeTokenizer(BpeModel model, const std::string& eod_token) : bpe_(std::move(model)) {
    eod_ = find_eod(eod_token, [this](const std::string& name) { return bpe_.token_id(name); });
  }
  std::vector<int32_t> encode(std::string_view text) const override { return bpe_.encode(text); }
  std::string decode(std::span<const int32_t> ids) const override { return bpe_.decode(ids); }
  int64_t vocab_size() const override { return bpe_.vocab_size(); }
  std::optional<int32_t> eod() const override { return eod_; }

 private:
  ByteBpe bpe_;
  std::optional<int32_t> eod_;
};

/// A model of the SentencePiece library.
class SentencePieceTokenizer final : public TextTokenizer {
 public:
  SentencePieceTokenizer(const std::string& path, const std::string& eod_token, bool fuses_bytes)
      : fuses_bytes_(fuses_bytes) {
    core::require_file(path, "SentencePiece model");
    if (const auto status = processor_.Load(path); !status.ok())
      throw DataError(fmt::format("data: SentencePiece model '{}' cannot be read: {}", path, status.ToString()),
                      "copy the file again; it is cut or damaged");
    eod_ = find_eod(eod_token, [this](const std::string& name) -> std::optional<int32_t> {
      const int id = processor_.PieceToId(name);
      return processor_.IsUnknown(id) && name != processor_.IdToPiece(id) ? std::nullopt : std::optional<int32_t>(id);
    });
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int> ids;
    if (const auto status = processor_.Encode({text.data(), text.size()}, &ids); !status.ok())
      throw DataError(
          fmt::format("data: SentencePiece cannot encode a text of {} bytes: {}", text.size(), status.ToString()));
    if (fuses_bytes_) fuse_bytes(ids);
    return {ids.begin(), ids.end()};
  }
  std::string decode(std::span<const int32_t> ids) const override {
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocab_size())
        throw DataError(
            fmt::format("data: token id {} is not in the vocabulary, expected 0 to {}", id, vocab_size() - 1));
    }
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    LOCKSTEP_CHECK(status.ok(), "{}", status.ToString());
    return text;
  }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> eod() const override { return eod_; }

 private:
  void fuse_bytes(std::vector<int>& ids) const {
    const int unknown = processor_.unk_id();
    std::replace_if(
        ids.begin(), ids.end(), [this](int id) { return processor_.IsByte(id); }, unknown);
    const auto both_unknown = [unknown](int a, int b) { return a == unknown && b == unknown; };
    ids.erase(std::unique(ids.begin(), ids.end(), both_unknown), ids.end());
  }

  sentencepiece::SentencePieceProcessor processor_;
  bool fuses_bytes_;
  std::optional<int32_t> eod_;
};

}  // namespace

std::unique_ptr<TextTokenizer> open_text_tokenizer(const TokenizerFiles& files) {
  const bool has_pair = !files.vocab_file.empty() || !files.merge_file.empty();
  if (files.model.empty() == !has_pair)
    throw UsageError(
        has_pair ? "data: --tokenizer-model excludes --vocab-file and --merge-file" : "data: no tokenizer given",
        "give --tokenizer-model (tokenizer.json, its folder or a SentencePiece .model), or --vocab-file and "
        "--merge-file");
  if (has_pair && (files.vocab_file.empty() || files.merge_file.empty()))
    throw UsageError("data: --vocab-file and --merge-file belong together",
                     "GPT-2's are called vocab.json and merges.txt");
  if (has_pair)
    return std::make_unique<BpeTokenizer>(read_bpe_files(files.vocab_file, files.merge_file, kEodNames),
                                          files.eod_token);
  if (core::ends_with(files.model, ".model"))
    return std::make_unique<SentencePieceTokenizer>(files.model, files.eod_token, files.fuses_bytes);
  return std::make_unique<BpeTokenizer>(open_bpe_model(files.model, kEodNames), files.eod_token);
}

}  // namespace lockstep::data
