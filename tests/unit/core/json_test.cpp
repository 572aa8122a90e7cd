#include "core/json.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::core {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "a.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(Json, KeepsOrderAndValues) {
  const std::string text =
      R"({"b":[1,-2,2.5,true,null,"x",{"deep":[[],{}]}],"a":{"z":18446744073709551615,"y":""},"":0})";
  EXPECT_EQ(parse_json(text, "a.json").dump(), text);
  for (const char* scalar : {"7", "\"a\\u00e9\"", "null", "[]", "{}"})
    EXPECT_EQ(parse_json(scalar, "a.json"), Json::parse(scalar)) << scalar;
}

TEST(Json, IntegersBeyondTheRangeAreNone) {
  const Json json = parse_json(R"({"a": -9223372036854775808, "b": 9223372036854775807, "c": 9223372036854775808,
                                   "d": 18446744073709551615, "e": 1.0, "f": "1", "g": true, "h": null})",
                               "a.json");
  EXPECT_EQ(integer_at(json, "a"), INT64_MIN);
  EXPECT_EQ(integer_at(json, "b"), INT64_MAX);
  for (const char* key : {"c", "d", "e", "f", "g", "h", "absent"}) EXPECT_FALSE(integer_at(json, key)) << key;
  EXPECT_FALSE(integer_at(Json(3), "a"));
}

TEST(Json, EqualsTheLibrarysOwnBuilder) {
  CounterRng rng(stream_key(7, "json"));
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (uint64_t i = 0; i < 40; ++i) {  // half of them are no JSON
      constexpr const char* kParts[] = {"{", "}", "[", "]", "\"k\":", "\"x\"", "1", ",", ",\"j\":", "true"};
      text += kParts[rng.below(std::size(kParts))];
    }
    for (const std::string& each : {text, "[" + text + "]", text.substr(0, 5)}) {
      const Json expected = Json::parse(each, nullptr, /*allow_exceptions=*/false);
      if (expected.is_discarded()) {
        EXPECT_NE(refusal(each), "") << each;
      } else if (refusal(each).empty()) {
        EXPECT_EQ(parse_json(each, "a.json"), expected) << each;
      } else {
        EXPECT_NE(refusal(each).find("occurs twice"), std::string::npos) << each;
      }
    }
  }
}

TEST(Json, AsManyKeysAsAFileCanHold) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"k{}\":{},", i, i);
  const Json parsed = parse_json(text + "\"last\":{}}", "a.json");  // minutes where each key is compared with all
  EXPECT_EQ(parsed.size(), 300'001u);
  EXPECT_EQ(refusal(text + "\"k299\":0}"), "json: key 'k299' occurs twice in one object of 'a.json'");
  EXPECT_NE(refusal(R"({"a":{"b":1,"b":2}})").find("key 'b' occurs twice"), std::string::npos);
}

TEST(Json, DeepNestingAndCutTextAreRefused) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(refusal(nested(200)), "");
  EXPECT_NE(refusal(nested(201)).find("nested deeper than 200 levels"), std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[')), "");
  EXPECT_NE(refusal("{\"a\": 1").find("cannot parse 'a.json': parse error at line 1, column 8"), std::string::npos)
      << refusal("{\"a\": 1");
}

}  // namespace
}  // namespace lockstep::core
