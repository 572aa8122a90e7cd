#include "data/text/piece_encoder.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

std::string pieces_path(const std::string& name) { return std::string(LOCKSTEP_GOLDEN_DIR) + "/sentencepiece/" + name; }

TEST(PieceEncoder, IdsAreThoseOfTheHuggingFaceTokenizers) {
  struct Case {
    const char* name;
    PieceFrame frame;
    const char* model = "small.model";
    TextCleaning cleaning = TextCleaning::kWhiteSpace;
    const char* language = "eng_Latn";
  };
  const std::vector<Case> cases = {
      {"t5", PieceFrame::kT5, "small.model", TextCleaning::kCanonical},
      {"gemma", PieceFrame::kGemma, "small.model", TextCleaning::kCanonical},
      {"xlm", PieceFrame::kXlmRoberta},
      {"mt5", PieceFrame::kMt5, "mt5.model"},
      {"nllb", PieceFrame::kNllb, "nllb.model"},
      {"nllb_fra", PieceFrame::kNllb, "nllb.model", TextCleaning::kWhiteSpace, "fra_Latn"}};
  size_t num_cut = 0, num_padded = 0;
  for (const auto& [name, frame, model, cleaning, language] : cases) {
    const TextEncoder encode = make_piece_encoder(
        {.model = pieces_path(model), .frame = frame, .cleaning = cleaning, .vocab_size = 700, .language = language});
    for (const auto& one : read_golden_lines(pieces_path("frames.jsonl.gz"))) {
      const auto want = one.at(name).get<std::vector<int32_t>>();
      std::vector<int32_t> got(want.size(), -1);
      encode(one.at("text").get<std::string>(), got);
      EXPECT_EQ(got, want) << name << ": " << escaped(one.at("text").get<std::string>());
      (want[want.size() - 2] > 2 ? num_cut : num_padded) += 1;
    }
  }
  EXPECT_GT(num_cut, 20u);
  EXPECT_GT(num_padded, 20u);
}

TEST(PieceEncoder, CanonicalTextHasNeitherCaseNorPunctuation) {
  EXPECT_EQ(clean_text("  A_cat's  (red) HAT... &amp; more! ", TextCleaning::kCanonical), "a cats red hat more");
  EXPECT_EQ(clean_text("!?", TextCleaning::kCanonical), "");
}

TEST(PieceEncoder, RefusesWhatDoesNotFit) {
  EXPECT_THROW(make_piece_encoder({.model = pieces_path("cases.jsonl.gz"), .vocab_size = 700}), UsageError);
  EXPECT_THROW(make_piece_encoder({.model = pieces_path("small.model"), .vocab_size = 10}), UsageError);
  EXPECT_THROW(make_piece_encoder({.model = pieces_path("absent.model"), .vocab_size = 700}), UsageError);
  const PieceEncoderConfig nllb{.model = pieces_path("nllb.model"), .frame = PieceFrame::kNllb};
  EXPECT_THROW(make_piece_encoder({.model = nllb.model, .frame = nllb.frame, .vocab_size = 502}), UsageError)
      << "300 pieces, the start, 202 languages";
  EXPECT_NO_THROW(make_piece_encoder({.model = nllb.model, .frame = nllb.frame, .vocab_size = 503}));
  EXPECT_THROW(make_piece_encoder({.model = nllb.model, .frame = nllb.frame, .vocab_size = 700, .language = "english"}),
               UsageError);
}

}  // namespace
}  // namespace lockstep::data
