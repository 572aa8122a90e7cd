#include "infer/bad_samples.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep::infer {
namespace {

constexpr int32_t kEnd = 9, kWord = 5;

/// As many words as the key has characters, then the end, which a text that is too long has in the last column.
void decode_words(const data::RawSample& sample, data::SampleSlot& slot) {
  if (sample.key.empty()) throw DataError("no caption");
  if (slot.text_T.empty()) return;
  const size_t num_words = std::min(sample.key.size(), slot.text_T.size() - 1);
  std::fill_n(slot.text_T.begin(), num_words, kWord);
  slot.text_T[num_words] = kEnd;
}

TEST(BadSamples, CaptionsThatDoNotFitAreNotedAndKept) {
  BadSamples cut, bad;
  const auto decode = tolerant_decoder(cut_noting_decoder(decode_words, cut), bad);
  uint64_t id = 0;
  for (const char* key : {"abc", "abcd", "", "abcdefg", "ab"}) {
    std::vector<int32_t> text(4, 0);
    data::SampleSlot slot;
    slot.text_T = text;
    data::RawSample sample;
    sample.key = key;
    sample.id = id++;
    decode(sample, slot);
    EXPECT_EQ(slot.label, sample.key.empty() ? kBadLabel : 0) << key;
    if (sample.key.empty()) continue;
    EXPECT_EQ(text[std::min<size_t>(3, sample.key.size())], kEnd) << key;
  }
  ASSERT_EQ(cut.in_order().size(), 2u) << "three words and the end fit";
  EXPECT_EQ(cut.in_order()[0].key, "abcd");
  EXPECT_EQ(cut.in_order()[1].key, "abcdefg");
  EXPECT_EQ(cut.in_order()[0].reason, "its caption is cut to 4 tokens");
  EXPECT_EQ(bad.in_order().size(), 1u);
}

TEST(BadSamples, WithoutTextsNothingIsCut) {
  BadSamples cut;
  data::SampleSlot slot;
  data::RawSample sample;
  sample.key = "abcdefg";
  cut_noting_decoder(decode_words, cut)(sample, slot);
  EXPECT_TRUE(cut.in_order().empty());
}

}  // namespace
}  // namespace lockstep::infer
