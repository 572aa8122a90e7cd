#include "data/shards/shard_list.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"
#include "support/error_text.h"

namespace lockstep::data {
namespace {

using List = std::vector<std::string>;

TEST(ShardList, ExpandsRangesListsNestingAndProducts) {
  EXPECT_EQ(expand_braces("a.tar"), List{"a.tar"});
  EXPECT_EQ(expand_braces(""), List{""});
  EXPECT_EQ(expand_braces("{000..002}"), (List{"000", "001", "002"}));
  EXPECT_EQ(expand_braces("x-{8..11}.tar"), (List{"x-8.tar", "x-9.tar", "x-10.tar", "x-11.tar"}));
  EXPECT_EQ(expand_braces("{08..11}"), (List{"08", "09", "10", "11"}));
  EXPECT_EQ(expand_braces("{2..0}"), (List{"2", "1", "0"}));
  EXPECT_EQ(expand_braces("{0..10..4}"), (List{"0", "4", "8"}));
  EXPECT_EQ(expand_braces("{10..0..4}"), (List{"10", "6", "2"}));
  EXPECT_EQ(expand_braces("{-1..1}"), (List{"-1", "0", "1"}));
  EXPECT_EQ(expand_braces("{a..d..2}"), (List{"a", "c"}));
  EXPECT_EQ(expand_braces("{a,b,c}"), (List{"a", "b", "c"}));
  EXPECT_EQ(expand_braces("{a,}x"), (List{"ax", "x"}));
  EXPECT_EQ(expand_braces("{a,{1..2}}z"), (List{"az", "1z", "2z"}));
  EXPECT_EQ(expand_braces("{a,b}{1..2}"), (List{"a1", "a2", "b1", "b2"}));
  EXPECT_EQ(expand_braces("{x{1..2},y}-{p,q}"), (List{"x1-p", "x1-q", "x2-p", "x2-q", "y-p", "y-q"}));
}

TEST(ShardList, KeepsWhatIsNoAlternative) {
  EXPECT_EQ(expand_braces("{a}"), List{"{a}"});
  EXPECT_EQ(expand_braces("{}"), List{"{}"});
  EXPECT_EQ(expand_braces("{{1..2}}"), (List{"{1}", "{2}"}));
  EXPECT_EQ(expand_braces("{1..}"), List{"{1..}"});
  EXPECT_EQ(expand_braces("\\{a,b\\}"), List{"{a,b}"});
  EXPECT_EQ(expand_braces("{a\\,b,c}"), (List{"a,b", "c"}));
}

TEST(ShardList, RefusesUnbalancedAndHugeLists) {
  for (const char* text : {"{", "}", "a{b", "a}b", "{a,{b}", "{a}}", "{0..1", "{\\}"})
    EXPECT_THROW(expand_braces(text), UsageError) << text;
  EXPECT_THROW(expand_braces("{0..99999999999}"), UsageError);
  EXPECT_THROW(expand_braces("{0..9999}{0..9999}{0..9999}"), UsageError);
  EXPECT_THROW(expand_braces(std::string(5000, '{') + "a,b" + std::string(5000, '}')), UsageError);
  EXPECT_EQ(expand_braces("{000000..041455}").size(), 41456u);
  try {
    expand_braces("x{000..099.tar");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("character 2"), std::string::npos) << error.what();
  }
}

TEST(ShardList, MutationsNeverCrash) {
  core::CounterRng rng(7);
  const std::string letters = "{},.0123ab\\-:x";
  const ExpandLimits limits{.max_count = 2000, .max_bytes = 200000};
  int num_refused = 0, num_taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = rng.below(24); n > 0; --n) text += letters[rng.below(letters.size())];
    try {
      const List list = expand_braces(text, limits);
      EXPECT_GE(list.size(), 1u);
      EXPECT_LE(list.size(), limits.max_count);
      ++num_taken;
    } catch (const UsageError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_GT(num_taken, 1000);
}

TEST(ShardList, WhatStandsBesideALongRangeCountsForEachOfItsPaths) {
  const ExpandLimits limits{.max_count = 2000, .max_bytes = 200'000};
  const std::string beside(200, 'x');
  for (const std::string& pattern :
       {"{0..1999}" + beside, "{0..1999}{" + beside + "}", "{0..1999}{a,{" + beside + "}}"})
    EXPECT_THROW(expand_braces(pattern, limits), UsageError) << pattern.substr(0, 20);
  EXPECT_EQ(expand_braces("{0..9}" + beside, limits).size(), 10u);
}

TEST(ShardList, TheLimitsHoldForAllSourcesTogether) {
  const ExpandLimits limits{.max_count = 100, .max_bytes = 1'000};
  const std::string forty = "{10..49}.tar", long_name(400, 'x');  // 240 bytes
  EXPECT_EQ(parse_shard_sources(forty + "::" + forty, "", limits).size(), 2u);
  EXPECT_THROW(parse_shard_sources(forty + "::" + forty + "::" + forty, "", limits), UsageError);
  EXPECT_EQ(parse_shard_sources(long_name + "::" + long_name, "", limits).size(), 2u);
  EXPECT_THROW(parse_shard_sources(long_name + "::" + long_name + "::" + long_name, "", limits), UsageError);
}

TEST(ShardList, TheListOfAShardHasJustThatShard) {
  for (const std::string shard :
       {"a/0.tar", "a{1,2}.tar", "}{", "a\\{0..3\\}.tar", "s3://b/x.tar", "a::b.tar", "a:::", "::"}) {
    const auto sources = parse_shard_sources(list_of_shard(shard), "");
    ASSERT_EQ(sources.size(), 1u) << shard;
    EXPECT_EQ(sources[0].shards, List{shard});
  }
  EXPECT_EQ(list_of_shard("pipe:cat x"), "pipe:cat x");
}

TEST(ShardList, SplitsSourcesAndFactors) {
  const auto sources = parse_shard_sources("a/{0..2}.tar::b/{0..1}.tar", "2::0.5");
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].shards, (List{"a/0.tar", "a/1.tar", "a/2.tar"}));
  EXPECT_EQ(sources[1].shards.size(), 2u);
  EXPECT_EQ(sources[0].factor, 2);
  EXPECT_EQ(sources[1].factor, 0.5);
  EXPECT_EQ(parse_shard_sources("a::b", "")[1].factor, 1);
  EXPECT_THROW(parse_shard_sources("a::b", "1"), UsageError);
  EXPECT_THROW(parse_shard_sources("a::b", "1::x"), UsageError);
  EXPECT_THROW(parse_shard_sources("a::b", "1::-1"), UsageError);
  EXPECT_THROW(parse_shard_sources("a::b", "1::nan"), UsageError);
  EXPECT_THROW(parse_shard_sources("a::", ""), UsageError);
  EXPECT_TRUE(is_pipe("pipe:cat x"));
  EXPECT_FALSE(is_pipe("x/pipe:"));
}

TEST(ShardList, AStarInAShardThatIsMissingIsToldFromAWrongRange) {
  for (const char* pattern : {"d/train-*.tar", "d/train-00000?.tar"})
    EXPECT_TRUE(tests::holds(missing_shard_hint(pattern), "write the shards as a brace list")) << pattern;
  EXPECT_TRUE(tests::holds(missing_shard_hint("d/train-000009.tar"), "check the range in the braces"));
}

}  // namespace
}  // namespace lockstep::data
