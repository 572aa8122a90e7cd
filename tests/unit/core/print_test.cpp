#include "core/print.h"

#include <gtest/gtest.h>

#include "core/json.h"

namespace lockstep::core {
namespace {

TEST(Printable, TextStaysAsItIs) {
  const std::string text = "a line\n\tanother: caf\u00e9 \u732b \U0001F408 100 %";
  EXPECT_EQ(printable(text), text);
}

TEST(Printable, NothingSteersATerminal) {
  EXPECT_EQ(printable("\x1b[2Jx\x07\r\b\x7f"), "\\u001b[2Jx\\u0007\\u000d\\u0008\\u007f");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m") << "control characters of two bytes";
  EXPECT_EQ(printable("\u202egnp.exe\u2066"), "\\u202egnp.exe\\u2066") << "marks that turn the writing direction";
  EXPECT_EQ(printable(std::string("\x9b"
                                  "31m\xc3\0",
                                  6)),
            "\\u009b31m\\u00c3\\u0000")
      << "no UTF-8";
}

TEST(Printable, MarksOfDirectionAreShown) { EXPECT_EQ(printable("a\u061c\u200e\u200fb"), "a\\u061c\\u200e\\u200fb"); }

TEST(Printable, ANameCannotBeginALine) {
  EXPECT_EQ(printable_line("run\n2026-01-01,00:00:00 | INFO | done\ttab"),
            "run\\u000a2026-01-01,00:00:00 | INFO | done\ttab");
  EXPECT_EQ(printable_line("a\u2028b\u2029c"), "a\\u2028b\\u2029c");
  EXPECT_EQ(printable("a\nb"), "a\nb");
}

TEST(Print, ANameInASentenceBeginsNoLineAndAWholeTextKeepsItsLines) {
  const std::string forged = "run\n2026-01-01,00:00:00 | INFO | done";
  testing::internal::CaptureStdout();
  print("{:<4}: {} of {}\n", forged, forged.c_str(), 3);
  print("  {}\n", std::string_view(forged));
  print("{}\n", "a table\nof two lines");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "run\\u000a2026-01-01,00:00:00 | INFO | done: run\\u000a2026-01-01,00:00:00 | INFO | done of 3\n"
            "  run\\u000a2026-01-01,00:00:00 | INFO | done\na table\nof two lines\n");
}

TEST(Printable, JsonKeepsItsMeaning) {
  const Json json{{"name", "a\u009b\u202e\x7f"}};
  EXPECT_NE(printable(json.dump()), json.dump());
  EXPECT_EQ(parse_json(printable(json.dump()), "a.json"), json);
}

}  // namespace
}  // namespace lockstep::core
