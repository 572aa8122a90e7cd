#include "hw/hostlist.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::hw {
namespace {

using Names = std::vector<std::string>;

TEST(Hostlist, ExpandsWhatScontrolExpands) {
  const std::vector<std::pair<std::string, Names>> cases{
      {"node1", {"node1"}},
      {"node[1-3,7]", {"node1", "node2", "node3", "node7"}},
      {"node[08-11],gpu1", {"node08", "node09", "node10", "node11", "gpu1"}},
      {"a[1-2]b[3-4]", {"a1b3", "a1b4", "a2b3", "a2b4"}},
      {"n1,n1,n2", {"n1", "n1", "n2"}},
      {"n[1-3]x", {"n1x", "n2x", "n3x"}},
      {"r[1-2]c[0,2]-ib", {"r1c0-ib", "r1c2-ib", "r2c0-ib", "r2c2-ib"}},
      {"n[9-11]", {"n9", "n10", "n11"}},
      {"[1-2]", {"1", "2"}},
      {"n[000000000000000007]", {"n000000000000000007"}},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(expand_hostlist(text), expected) << text;
}

TEST(Hostlist, RefusesWhatIsMalformedAndSaysWhere) {
  for (const char* text : {"",
                           "x[2-1]",
                           "a[]",
                           "a[1-2]]",
                           "a[1-3",
                           "a[",
                           "a,,b",
                           "a,",
                           ",a",
                           "a[1-]",
                           "a[-2]",
                           "a[1,]",
                           "a[x]",
                           "a[1-2-3]",
                           "a[1]b]",
                           "a b",
                           "a\n",
                           "a[1 -2]",
                           "a[1234567890123456789]",
                           "a[1][[2]]"}) {
    try {
      expand_hostlist(text);
      FAIL() << "accepted '" << text << "'";
    } catch (const EnvironmentError& error) {
      EXPECT_NE(std::string(error.what()).find("at character"), std::string::npos) << error.what();
    }
  }
}

TEST(Hostlist, CapsTheCount) {
  EXPECT_EQ(expand_hostlist("n[1-100]", 100).size(), 100u);
  for (const char* text : {"n[1-101]", "n[1-11]m[1-10]", "n[1-60],m[1-60]", "n[0-999999999999999999]", "a[1-60,1-60]"})
    EXPECT_THROW(expand_hostlist(text, 100), EnvironmentError) << text;
}

TEST(Hostlist, CapsTheLengthOfNames) {
  const std::string longest(255, 'n'), first(253, 'n');
  EXPECT_EQ(expand_hostlist(longest), Names{longest});
  EXPECT_EQ(expand_hostlist(first + "[01-02]"), (Names{first + "01", first + "02"}));
  std::string brackets = "n[0-65535]";
  for (int i = 0; i < 300; ++i) brackets += "[0]";
  for (const std::string& text :
       {longest + "n", first + "n[01-02]", first + "[1-2]nn", "n[0-65535]" + longest, brackets})
    EXPECT_THROW(expand_hostlist(text), EnvironmentError) << text;
}

TEST(Hostlist, MutatedTextIsReadOrRefused) {
  core::CounterRng rng(core::stream_key(2, "hostlist"));
  const std::string alphabet = "an019[],- (x\n\xff";
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = "node[08-11,13],a[1-2]b[3-4]";
    for (uint64_t edits = 1 + rng.below(4); edits > 0; --edits)
      text[rng.below(text.size())] = alphabet[rng.below(alphabet.size())];
    text.resize(rng.below(text.size() + 1));
    try {
      EXPECT_LE(expand_hostlist(text, 1000).size(), 1000u);
      ++accepted;
    } catch (const EnvironmentError&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

TEST(TaskCounts, ReadsRepeats) {
  EXPECT_EQ(parse_task_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_task_counts("4"), (std::vector<int>{4}));
  EXPECT_EQ(parse_task_counts("5,1(x3)"), (std::vector<int>{5, 1, 1, 1}));
}

TEST(TaskCounts, RefusesTheRest) {
  for (const char* text :
       {"", "x", "2(x)", "2(x0)", "2(3)", "2(x3", "2(x3),", "-1", "2(x-1)", "2(x3)4", "99999999999", "1(x99999999)"})
    EXPECT_THROW(parse_task_counts(text), EnvironmentError) << text;
}

}  // namespace
}  // namespace lockstep::hw
