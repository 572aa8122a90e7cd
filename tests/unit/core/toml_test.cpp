#include "core/toml.h"

#include <gtest/gtest.h>

#include <string>

#include "core/strings.h"

namespace lockstep::core {
namespace {

/// "<part>.<part>. ..."
std::string dotted(size_t parts, const std::string& part = "a") {
  std::string key = part;
  for (size_t i = 1; i < parts; ++i) key += "." + part;
  return key;
}

std::string repeated(size_t times, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string refusal_of(const std::string& text) {
  try {
    parse_toml(text, "f.toml");
  } catch (const toml::parse_error& error) {
    return fmt::format("{}:{}", error.source().begin.line, error.description());
  }
  return "";
}

TEST(Toml, KeysOfManyPartsAreRefusedBeforeTheyBecomeTables) {
  // 200,000 tables inside each other overflow the stack where they are taken apart.
  constexpr size_t kDeep = 200'000;
  for (const std::string& text : {dotted(kDeep) + " = 1\n", "[" + dotted(kDeep) + "]\n", "[[" + dotted(kDeep) + "]]\n",
                                  "x = {" + dotted(kDeep) + " = 1}\n", dotted(kDeep, "\"a\"") + " = 1\n",
                                  dotted(kDeep, "'a'") + " = 1\n", dotted(kDeep, " a ") + " = 1\n"})
    EXPECT_EQ(refusal_of("name = \"x\"\n" + text), "2:a key has more than 64 parts") << text.substr(0, 20);
  EXPECT_EQ(refusal_of(dotted(65) + " = 1\n"), "1:a key has more than 64 parts");
  EXPECT_EQ(refusal_of(dotted(64) + " = 1\n"), "");
}

TEST(Toml, DeepValuesAreRefused) {
  const auto values = [](size_t depth) { return "x = " + repeated(depth, "[") + "1" + repeated(depth, "]") + "\n"; };
  const auto tables = [](size_t depth) {
    return "x = " + repeated(depth, "{a = ") + "1" + repeated(depth, "}") + "\n";
  };
  for (const auto& text : {values(65), tables(65)})
    EXPECT_NE(refusal_of(text).find("deeper than 64 levels"), std::string::npos);
  for (const auto& text : {values(64), tables(64)}) EXPECT_EQ(refusal_of(text), "");
}

TEST(Toml, DotsOfStringsCommentsAndNumbersDoNotCount) {
  const std::string dots(200, '.'), brackets(200, '[');
  for (const std::string& text :
       {"a = \"" + dots + brackets + "\"\n", "a = '" + dots + brackets + "'\n", "# " + dots + brackets + "\na = 1\n",
        "a = \"\"\"\n\"" + dots + "\\\"" + brackets + "\n\"\"\"\n", "a = '''\n" + dots + "'\n" + brackets + "'''\n",
        "\"" + dots + "\" = 1\n", "a = [" + repeated(200, "0.5, ") + "]\n",
        repeated(1, "a.b = 1\n") + repeated(1, "c.d = 0.5\n"), "a = \"\\\\\"\nb = \"" + dots + "\"\n"})
    EXPECT_EQ(refusal_of(text), "") << text.substr(0, 20);
}

TEST(Toml, DamageIsToldByTheParser) {
  EXPECT_NE(refusal_of("a = \"" + std::string(100, '.') + "\nb = 1\n"), "");
  EXPECT_NE(refusal_of("a = \"\"\"x"), "");
  EXPECT_NE(refusal_of("a = \"\\"), "");
}

}  // namespace
}  // namespace lockstep::core
