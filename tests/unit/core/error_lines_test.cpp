#include "core/error_lines.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::string kForged = "a\n  hint: run \x1b[31mthis\nlockstep: error: none";
const std::string kShown = "a\\u000a  hint: run \\u001b[31mthis\\u000alockstep: error: none";

TEST(ShownText, NamesInAnErrorBeginNoLine) {
  const DataError error("data: '" + kForged + "' is no shard", "look at " + kForged);
  EXPECT_EQ(shown_text(error), "data: '" + kShown + "' is no shard\n  hint: look at " + kShown);
  EXPECT_EQ(one_line_text(error), "data: '" + kShown + "' is no shard (look at " + kShown + ")");
  EXPECT_EQ(one_line_text(DataError("data: none")), "data: none");
}

TEST(ShownText, ANulByteEndsNoMessage) {
  const DataError error("data: '" + std::string("a\0b", 3) + "' is no shard", std::string("\0", 1));
  EXPECT_EQ(std::string(error.what()), "data: 'a\\u0000b' is no shard");
  EXPECT_EQ(shown_text(error), "data: 'a\\u0000b' is no shard\n  hint: \\u0000");
}

TEST(ShownText, ListsOfErrorsKeepTheirLinesAndNoOthers) {
  const auto raised = [](const std::vector<UsageError>& errors) {
    UsageProblems problems;
    for (const UsageError& error : errors) problems.collect([&] { throw error; });
    try {
      problems.raise();
    } catch (const UsageError& error) {
      return std::pair(std::string(error.what()), shown_text(error));
    }
    return std::pair(std::string(), std::string());
  };
  const UsageError first("options: --name '" + kForged + "'", kForged), second("--lr is no number");
  const auto [what, shown] = raised({first, second});
  const std::string expected =
      "options: 2 things are wrong:\n  --name '" + kShown + "'\n    hint: " + kShown + "\n  --lr is no number";
  EXPECT_EQ(shown, expected);
  EXPECT_EQ(raised({UsageError(what)}).second, expected) << "a list alone stays one";
  EXPECT_EQ(raised({UsageError(what), second}).second, "options: 3 things are wrong:\n  --name '" + kShown +
                                                           "'\n    hint: " + kShown +
                                                           "\n  --lr is no number\n  --lr is no number");
  EXPECT_EQ(raised({first}).second, "options: --name '" + kShown + "'\n  hint: " + kShown);
  EXPECT_EQ(raised({UsageError("x 2 things are wrong:\nforged")}).second, "x 2 things are wrong:\\u000aforged");
}

}  // namespace
}  // namespace lockstep
