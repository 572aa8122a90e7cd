#include "data/text/json_caption.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "data/pictures/clip_decoder.h"

namespace lockstep::data {
namespace {

const std::string kSample = R"({"url": "x", "short": " a cat ", "long": "a grey cat", "empty": "  ", "number": 7})";

std::string first(std::vector<std::string> keys) { return json_caption(kSample, {.keys = std::move(keys)}, 0); }

TEST(JsonCaption, IsTheFirstTextThatIsNotEmpty) {
  EXPECT_EQ(first({"short", "long"}), "a cat");
  EXPECT_EQ(first({"none", "empty", "number", "long"}), "a grey cat");
}

TEST(JsonCaption, OfASampleWithoutOneIsAnError) {
  const auto text_of = [](const std::string& bytes, std::vector<std::string> keys) {
    try {
      json_caption(bytes, {.keys = std::move(keys)}, 0);
    } catch (const DataError& error) {
      return error.text();
    }
    return std::string();
  };
  EXPECT_NE(text_of(kSample, {"empty", "none"}).find("none of [empty, none] is a text"), std::string::npos);
  EXPECT_NE(text_of("[1]", {"a"}).find("expected an object"), std::string::npos);
  EXPECT_NE(text_of("{", {"a"}).find("no valid JSON"), std::string::npos);
}

TEST(JsonCaption, IsDrawnByTheWeightsAndThoseOfWeightZeroComeLast) {
  const JsonCaptionKeys keys = {.keys = {"none", "long", "short"}, .weights = {1, 0, 3}};
  EXPECT_EQ(json_caption(kSample, keys, 5), "a cat") << "before one of weight 0, though that stands first";
  std::map<std::string, int> counts;
  constexpr int kDraws = 4000;
  for (uint64_t draw = 0; draw < kDraws; ++draw)
    ++counts[json_caption(kSample, {.keys = {"long", "short"}, .weights = {1, 3}}, draw)];
  EXPECT_NEAR(counts["a cat"], 0.75 * kDraws, 0.03 * kDraws);
  EXPECT_EQ(counts["a cat"] + counts["a grey cat"], kDraws);
  EXPECT_EQ(json_caption(kSample, {.keys = {"long", "short"}, .weights = {0, 1}}, 5), "a cat");
}

TEST(JsonCaption, IsWhatThePictureDecoderEncodes) {
  RawSample sample;
  sample.members = {{.extension = "txt", .bytes = "not this"}, {.extension = "json", .bytes = kSample}};
  std::string seen;
  const auto decode = make_clip_decoder({.transform = {}, .json_keys = {.keys = {"long"}}},
                                        [&seen](std::string_view text, std::span<int32_t>) { seen = text; });
  std::vector<int32_t> ids(4);
  SampleSlot slot;
  slot.text_T = ids;
  decode(sample, slot);
  EXPECT_EQ(seen, "a grey cat");
}

}  // namespace
}  // namespace lockstep::data
