#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/text/text_clean.h"
#include "data/text/text_encoder.h"

namespace lockstep::data {

/// How a text tower frames and numbers the pieces of a SentencePiece model.
enum class PieceFrame {
  kT5,          ///< pieces </s>, padded with </s> (1): SigLIP.
  kMt5,         ///< pieces </s> (1), padded with 0; characters without a piece are unknown, not bytes.
  kGemma,       ///< pieces <eos> (1), padded with 0: SigLIP2.
  kNllb,        ///< language pieces </s> (2), padded with 1; numbers as the next.
  kXlmRoberta,  ///< <s> (0) pieces </s> (2), padded with 1; numbers are those of Hugging Face, one above the model's.
};

struct PieceEncoderConfig {
  std::filesystem::path model;  ///< A SentencePiece .model file.
  PieceFrame frame = PieceFrame::kT5;
  TextCleaning cleaning = TextCleaning::kWhiteSpace;
  int64_t vocab_size = 0;             ///< Of the text tower: a model with more pieces is a UsageError.
  std::string language = "eng_Latn";  ///< Of kNllb. UsageError for one that it does not know.
};

/// Ids equal those of OpenCLIP 3.3.0's HFTokenizer: for mT5 and NLLB with the tokenizers of transformers 5, for the
/// others with the slow (SentencePiece) tokenizers of Hugging Face. Texts that
/// are too long are cut, and keep their end. UsageError or DataError for a file that is no such model.
TextEncoder make_piece_encoder(const PieceEncoderConfig& config);

}  // namespace lockstep::data
