#include "core/strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/rng.h"

namespace lockstep::core {
namespace {

/// Edits that make one text of the other, by the whole table.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j)
      table[i][j] =
          i == 0   ? j
          : j == 0 ? i
                   : std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
  return table[a.size()][b.size()];
}

TEST(ReplaceAll, GoesOverATextOnce) {
  EXPECT_EQ(replace_all("a,b,,c,", ",", ""), "abc");
  EXPECT_EQ(replace_all(",a", ",", ",,"), ",,a");
  EXPECT_EQ(replace_all("aaa", "aa", "b"), "ba");
  EXPECT_EQ(replace_all("none", ",", "x"), "none");
  // Where each replacement moves the rest of the text, these take hours.
  constexpr size_t kMany = 8'000'000;
  EXPECT_EQ(replace_all(std::string(kMany, ','), ",", "").size(), 0u);
  EXPECT_EQ(replace_all(std::string(kMany, '"'), "\"", "\"\"").size(), 2 * kMany);
}

TEST(NearestName, SlipsAreFoundAndOtherWordsNot) {
  const std::vector<std::string> names = {"batch-size", "lr", "warmup", "precision", "Precise"};
  EXPECT_EQ(nearest_name("batchsize", names), "batch-size");
  EXPECT_EQ(nearest_name("PRECISON", names), "precision");
  EXPECT_EQ(nearest_name("precis", names), "Precise");
  EXPECT_EQ(nearest_name("rl", names), "lr") << "two edits are always near";
  EXPECT_EQ(nearest_name("warm", names), "warmup");
  EXPECT_EQ(nearest_name("xyz", names), std::nullopt) << "three edits";
  EXPECT_EQ(nearest_name("checkpoint", names), std::nullopt);
  EXPECT_EQ(nearest_name("lr", {}), std::nullopt);
}

TEST(NearestName, ItIsTheFirstOfThoseWithFewestEdits) {
  CounterRng rng(2026, 15);
  size_t num_found = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto word = [&] {
      std::string text(1 + rng.below(9), 'a');
      for (char& c : text) c = static_cast<char>('a' + rng.below(round % 2 == 0 ? 3 : 12));
      return text;
    };
    std::vector<std::string> names(1 + rng.below(6));
    std::generate(names.begin(), names.end(), word);
    const std::string typed = word();
    const auto best = std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
      return edits(typed, a) < edits(typed, b);
    });
    const bool is_near = edits(typed, *best) <= std::max<size_t>(2, typed.size() / 3);
    num_found += is_near;
    ASSERT_EQ(nearest_name(typed, names), is_near ? std::optional(*best) : std::nullopt) << typed;
  }
  EXPECT_GT(num_found, 200u);
  EXPECT_LT(num_found, 1800u);
}

TEST(Strings, SchemesOfAddressesAreFoundDespiteASlip) {
  for (const char* text : {"s3://bucket/x", "s3:/bucket/x"}) EXPECT_EQ(scheme_of(text), "s3") << text;
  EXPECT_EQ(scheme_of("git+https://host/x"), "git+https");
  for (const char* text : {"", "folder/x", "/a/b:/c", "C:/folder", "name:x", ":/x", "pipe:cat x"})
    EXPECT_EQ(scheme_of(text), "") << text;
}

}  // namespace
}  // namespace lockstep::core
