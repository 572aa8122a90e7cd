#include "data/text/piece_encoder.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/strings.h"
#include "data/text/nllb_languages.h"
#include "data/text/text_clean.h"
#include "data/text/text_tokenizer.h"

namespace lockstep::data {
namespace {

struct FrameIds {
  std::optional<int32_t> start;
  int32_t end, padding;
  bool is_shifted;  ///< Ids are one above the model's; its unknown piece, 0, is 3.
};

FrameIds ids_of(PieceFrame frame) {
  switch (frame) {
    case PieceFrame::kT5: return {.start = {}, .end = 1, .padding = 1, .is_shifted = false};
    case PieceFrame::kMt5:
    case PieceFrame::kGemma: return {.start = {}, .end = 1, .padding = 0, .is_shifted = false};
    case PieceFrame::kNllb: return {.start = {}, .end = 2, .padding = 1, .is_shifted = true};
    case PieceFrame::kXlmRoberta: break;
  }
  return {.start = 0, .end = 2, .padding = 1, .is_shifted = true};
}

int32_t shifted(int32_t piece) {
  constexpr int32_t kUnknown = 3;
  return piece == 0 ? kUnknown : piece + 1;
}

/// NLLB's number of a language: in the order of the list, behind the pieces.
int32_t language_id(const std::string& language, int64_t num_ids) {
  const auto languages = nllb_languages();
  const auto found = std::find(languages.begin(), languages.end(), language);
  if (found == languages.end())
    throw UsageError(fmt::format("data: NLLB's tokenizer has no language '{}'", language),
                     "give one of the 202 of FLORES-200, for example eng_Latn or deu_Latn");
  return static_cast<int32_t>(num_ids + (found - languages.begin()));
}

}  // namespace

TextEncoder make_piece_encoder(const PieceEncoderConfig& config) {
  const std::string path = config.model.string();
  if (!core::ends_with(path, ".model"))
    throw UsageError(fmt::format("data: '{}' is no SentencePiece model", path),
                     "this model's texts are cut by a SentencePiece file, whose name ends in .model");
  const std::shared_ptr<const TextTokenizer> pieces =
      open_text_tokenizer({.model = path, .fuses_bytes = config.frame == PieceFrame::kMt5});
  FrameIds frame = ids_of(config.frame);
  int64_t num_ids = pieces->vocab_size() + (frame.is_shifted ? 1 : 0);
  if (config.frame == PieceFrame::kNllb) {
    frame.start = language_id(config.language, num_ids);
    num_ids += std::ssize(nllb_languages());
  }
  if (num_ids > config.vocab_size)
    throw UsageError(
        fmt::format("data: the tokenizer '{}' has {} ids, the model takes {}", path, num_ids, config.vocab_size),
        "give the tokenizer that belongs to --model");
  return [pieces, frame, cleaning = config.cleaning](std::string_view utf8, std::span<int32_t> out) {
    std::vector<int32_t> ids = pieces->encode(clean_text(utf8, cleaning));
    if (frame.is_shifted) std::transform(ids.begin(), ids.end(), ids.begin(), shifted);
    const size_t before = frame.start ? 1 : 0;
    LOCKSTEP_CHECK(out.size() > before, "context length {} leaves no place for the end", out.size());
    const size_t kept = std::min(ids.size(), out.size() - before - 1);
    if (frame.start) out[0] = *frame.start;
    std::copy_n(ids.begin(), kept, out.begin() + static_cast<std::ptrdiff_t>(before));
    out[before + kept] = frame.end;
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(before + kept) + 1, out.end(), frame.padding);
  };
}

}  // namespace lockstep::data
