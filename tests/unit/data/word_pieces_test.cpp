#include "data/text/word_pieces.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "support/error_text.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

using tests::holds;
using tests::message_of;

std::string word_pieces_path(const std::string& name) {
  return std::string(LOCKSTEP_GOLDEN_DIR) + "/word_pieces/" + name;
}

TEST(WordPieces, IdsAndRowsAreThoseOfHuggingFaceAndOpenClip) {
  const WordPieces pieces(word_pieces_path("vocab.txt"));
  const TextEncoder encode = make_word_piece_encoder(word_pieces_path(""), 1000);
  size_t num_cut = 0, num_padded = 0;
  for (const auto& one : read_golden_lines(word_pieces_path("cases.jsonl.gz"))) {
    const auto text = one.at("text").get<std::string>();
    EXPECT_EQ(pieces.ids(text), one.at("ids").get<std::vector<int32_t>>()) << escaped(text);
    const auto want = one.at("row").get<std::vector<int32_t>>();
    std::vector<int32_t> got(want.size(), -1);
    encode(text, got);
    EXPECT_EQ(got, want) << escaped(text);
    (want[want.size() - 2] != 0 ? num_cut : num_padded) += 1;
  }
  EXPECT_GT(num_cut, 20u);
  EXPECT_GT(num_padded, 20u);
}

TEST(WordPieces, RefusesWhatIsNoVocabulary) {
  const core::TempDir dir;
  const auto said = [&](const std::string& vocabulary) {
    core::write_file_atomic(dir.path() / "vocab.txt", vocabulary);
    return message_of([&] { WordPieces pieces(dir.path()); });
  };
  EXPECT_TRUE(holds(said("[PAD]\n[UNK]\n[CLS]\na\n"), "has no [SEP]"));
  EXPECT_TRUE(holds(said("[PAD]\na\n[UNK]\na\n"), "line 4: 'a' stands there twice"));
  EXPECT_TRUE(holds(said("[PAD]\n\xff\n"), "byte 6 is not UTF-8"));
  EXPECT_TRUE(holds(message_of([&] { WordPieces pieces(dir.path() / "absent"); }), "no word pieces in"));
  EXPECT_TRUE(
      holds(message_of([&] { make_word_piece_encoder(word_pieces_path("vocab.txt"), 10); }), "the model takes 10"));
  const WordPieces pieces(word_pieces_path("vocab.txt"));
  EXPECT_TRUE(holds(message_of([&] { pieces.ids("broken \xc3"); }), "not UTF-8"));
}

}  // namespace
}  // namespace lockstep::data
