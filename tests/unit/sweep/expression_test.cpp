#include "sweep/expression.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"

namespace lockstep::sweep {
namespace {

const std::map<std::string, Scalar> kNames{
    {"nodes", 4.0}, {"model", std::string("ViT-B-32")}, {"batch_size", 64.0}, {"is_big", true}};

Scalar value_of(const std::string& text) {
  return Expression::parse(text, "f.toml:3").evaluate([](const std::string& name) -> std::optional<Scalar> {
    const auto found = kNames.find(name);
    return found == kNames.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string text_of(const std::string& text) { return to_text(value_of(text)); }

std::string expression_error_of(const std::string& text) {
  try {
    value_of(text);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST(Expression, ComputesLikeArithmetic) {
  EXPECT_EQ(text_of("nodes * 2"), "8");
  EXPECT_EQ(text_of("2 + 3 * 4 - 1"), "13");
  EXPECT_EQ(text_of("(2 + 3) * 4"), "20");
  EXPECT_EQ(text_of("2 ** 3 ** 2"), "512");
  EXPECT_EQ(text_of("-2 ** 2"), "-4");
  EXPECT_EQ(text_of("7 // 2 + 7 % 4 + 1 / 4"), "6.25");
  EXPECT_EQ(text_of("-7 // 2"), "-4");
  EXPECT_EQ(text_of("-7 % 4"), "1");
  EXPECT_EQ(text_of("10 - 4 - 3"), "3");
  EXPECT_EQ(text_of("1e-3 * sqrt(nodes)"), "0.002");
  EXPECT_EQ(text_of("max(1, nodes, 2) + min(5, 3) + abs(-1) + floor(1.9) + ceil(1.1) + round(2.4) + log2(8)"), "16");
}

TEST(Expression, ComparesAndChooses) {
  EXPECT_EQ(text_of("nodes >= 4 and model == 'ViT-B-32'"), "true");
  EXPECT_EQ(text_of("nodes < 4 or not is_big"), "false");
  EXPECT_EQ(text_of("not nodes == 3 and model != \"RN50\""), "true");
  EXPECT_EQ(text_of("if(nodes > 2, 25, 15)"), "25");
  EXPECT_EQ(text_of("if(nodes > 8, 'a', model)"), "ViT-B-32");
}

TEST(Expression, LooksAtNothingItDoesNotNeed) {
  EXPECT_EQ(text_of("if(true, 1, unknown)"), "1");
  EXPECT_EQ(text_of("false and unknown"), "false");
  EXPECT_EQ(text_of("nodes == 4 or 1 / 0 > 1"), "true");
}

TEST(Expression, PointsAtTheColumn) {
  EXPECT_NE(expression_error_of("nodes * * 2")
                .find("f.toml:3: formula 'nodes * * 2', column 9: expected a number, a name or '(', found '*'"),
            std::string::npos)
      << expression_error_of("nodes * * 2");
  EXPECT_NE(expression_error_of("nodes * * 2").find("nodes * * 2\n                ^"), std::string::npos)
      << expression_error_of("nodes * * 2");
}

TEST(Expression, RefusesWhatHasNoMeaning) {
  const std::map<std::string, std::string> cases{{"", "found the end"},
                                                 {"2 +", "found the end"},
                                                 {"(1 + 2", "the bracket of column 1 is not closed"},
                                                 {"1 2", "column 3: expected an operator or the end"},
                                                 {"nodes = 4", "column 7: '=' does not compare"},
                                                 {"unknown + 1", "column 1: the name 'unknown' is unknown here"},
                                                 {"system('ls')", "no function 'system'"},
                                                 {"min()", "expected a number"},
                                                 {"sqrt(1, 2)", "'sqrt' got 2 values, expected 1"},
                                                 {"sqrt(0 - 1)", "sqrt of -1 does not exist"},
                                                 {"log2(0)", "log2 of 0 does not exist"},
                                                 {"1 / 0", "column 3: division by zero"},
                                                 {"1 % 0", "division by zero"},
                                                 {"10 ** 400", "no finite number"},
                                                 {"model * 2", "expected a number, got a text (ViT-B-32)"},
                                                 {"nodes == model", "a number (4) is compared with a text"},
                                                 {"nodes and true", "expected true or false, got a number (4)"},
                                                 {"'open", "the text is not closed"},
                                                 {"1e5x", "'1e5x' is not a number"},
                                                 {"3..4", "'3..4' is not a number"},
                                                 {"a $ b", "found '$'"}};
  for (const auto& [text, expected] : cases)
    EXPECT_NE(expression_error_of(text).find(expected), std::string::npos)
        << text << " -> " << expression_error_of(text);
}

TEST(Expression, HostileDepthAndLengthAreRefused) {
  EXPECT_NE(expression_error_of(std::string(300, '(') + "1" + std::string(300, ')')).find("nested deeper than 64"),
            std::string::npos);
  EXPECT_NE(expression_error_of(std::string(900, '-') + "1").find("nested deeper than 64"), std::string::npos);
  std::string deep_power = "2";
  for (int i = 0; i < 200; ++i) deep_power += "**2";
  EXPECT_NE(expression_error_of(deep_power).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(expression_error_of(std::string(2000, '1')).find("longer than 1000"), std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 240; ++i) sum += " + 1";
  EXPECT_EQ(text_of(sum), "241");
}

TEST(Expression, ConditionMustBeTrueOrFalse) {
  const auto condition = Expression::parse("nodes * 2", "f.toml:9");
  try {
    condition.is_true([](const std::string&) { return Scalar(2.0); });
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("expected true or false, got a number (4)"), std::string::npos)
        << error.what();
  }
}

TEST(Scalar, TextsReadBack) {
  EXPECT_EQ(to_text(scalar_from_text("64")), "64");
  EXPECT_EQ(to_text(scalar_from_text("1e-3")), "0.001");
  EXPECT_EQ(to_text(scalar_from_text("ViT")), "ViT");
  EXPECT_EQ(to_json(Scalar(64.0)).dump(), "64");
  EXPECT_EQ(to_json(Scalar(0.5)).dump(), "0.5");
  EXPECT_EQ(scalar_from_json(core::Json(true)), Scalar(true));
  EXPECT_THROW(scalar_from_json(core::Json::array()), DataError);
}

}  // namespace
}  // namespace lockstep::sweep
