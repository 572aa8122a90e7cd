#include "data/text/text_clean.h"

#include <random>

#include "core/error.h"
#include "data/text/text_html.h"
#include "data/text/text_mojibake.h"
#include "data/text/text_tables.h"
#include "data/text/text_utf8.h"
#include "support/error_text.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

TEST(TextClean, EqualsOpenClipOnAwkwardStrings) {
  const auto cases = read_text_cases();
  ASSERT_GE(cases.size(), 4000u);
  size_t num_changed = 0, num_wrong = 0;
  for (const TextCase& one : cases) {
    num_changed += one.clean != one.text ? 1 : 0;
    const std::string got = clean_text(one.text);
    if (got == one.clean || ++num_wrong > 10) continue;
    ADD_FAILURE() << "text  " << escaped(one.text) << "\nwant  " << escaped(one.clean) << "\ngot   " << escaped(got);
  }
  EXPECT_EQ(num_wrong, 0u);
  EXPECT_GT(num_changed, cases.size() / 2);
}

TEST(TextClean, CollapsesWhiteSpaceAndLowersPlainText) {
  EXPECT_EQ(clean_text("  A\tPhoto \n of\fa  DOG "), "a photo of a dog");
  EXPECT_EQ(clean_text(""), "");
  EXPECT_EQ(clean_text(" \n\t"), "");
}

TEST(TextClean, RepairsCommonDamage) {
  EXPECT_EQ(clean_text("caf\xC3\x83\xC2\xA9"), "caf\xC3\xA9");                    // UTF-8 read as Latin-1
  EXPECT_EQ(clean_text("it\xC3\xA2\xE2\x82\xAC\xE2\x84\xA2s"), "it's");           // and as Windows 1252
  EXPECT_EQ(clean_text("Tom &amp;amp; Jerry &eacute;"), "tom & jerry \xC3\xA9");  // escaped twice
  EXPECT_EQ(clean_text("P&EACUTE;REZ"), "p\xC3\xA9rez");                          // capital name that HTML lacks
  EXPECT_EQ(clean_text("\x1B[31mred\x1B[0m"), "red");                             // terminal colours
  EXPECT_EQ(clean_text("\xEF\xBC\xA1\xEF\xBC\xA2"), "ab");                        // full width
  EXPECT_EQ(clean_text("\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3"), "\xCE\xBF\xCE\xB4\xCE\xBF\xCF\x82");  // final sigma
}

TEST(TextClean, UnescapesFirstPassUntilATagAppears) {
  EXPECT_EQ(fix_text(U"&eacute;\n<b>&eacute;\n&eacute;"), U"\u00E9\n<b>&eacute;\n&eacute;");
}

TEST(TextClean, RefusesBytesThatAreNotUtf8) {
  try {
    clean_text("abc\xFF");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "data: undecodable text at byte 3: value 0xff, expected UTF-8");
    EXPECT_TRUE(tests::holds(error.hint(), "or leave such samples out with --on-bad-sample skip")) << error.hint();
  }
  EXPECT_THROW(clean_text("\xED\xA0\x80"), DataError);  // a surrogate
  EXPECT_THROW(clean_text("\xC0\x80"), DataError);      // over-long
  EXPECT_THROW(clean_text("\xF4\x90\x80\x80"), DataError);
  EXPECT_THROW(clean_text("ok \xE2\x82"), DataError);  // cut
}

TEST(TextClean, RefusesEndlessEscaping) {
  std::string text = "&";
  for (int i = 0; i < 1500; ++i) text += "amp;";
  EXPECT_THROW(clean_text(text), DataError);
  std::string huge = "&";  // much work in each round
  for (int i = 0; i < 200'000; ++i) huge += "amp;";
  try {
    clean_text(huge);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("still changes after 10"), std::string::npos) << error.what();
  }
}

TEST(TextClean, RefusesEndlessEscapingOnManyLines) {
  // Each line stays below the limits of its own; together they were 500 times as much work.
  std::string line = "&";
  for (int i = 0; i < 300; ++i) line += "amp;";
  EXPECT_EQ(clean_text(line), "&");
  std::string text;
  for (int i = 0; i < 100; ++i) text += line + "\n";
  try {
    clean_text(text);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("still changes after 100"), std::string::npos) << error.what();
  }
  std::string calm;  // a long text that needs no repair is one round
  for (int i = 0; i < 100'000; ++i) calm += "caf\u00e9\n";
  EXPECT_NO_THROW(clean_text(calm));
}

TEST(TextHtml, FollowsHtml5) {
  EXPECT_EQ(unescape_html(U"&ampx &notit; &notin; &zzz; &#38;#38; &"), U"&x \u00ACit; \u2209 &zzz; &#38; &");
  EXPECT_EQ(unescape_html(U"&#0;&#x80;&#13;&#xD800;&#x1;&#1114112;&#99999999999999999999;"),
            U"\uFFFD\u20AC\r\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(unescape_certain_html(U"&amp &notit; &#x3b; &#65;"), U"&amp &notit; &#x3b; A");
}

TEST(TextMojibake, LeavesGoodTextAlone) {
  const std::u32string good[] = {U"caf\u00E9 \u00C0 la carte", U"\u041F\u0440\u0438\u0432\u0435\u0442", U"\u6771\u4EAC",
                                 U"5 \u00B0C"};
  for (const std::u32string& text : good) {
    EXPECT_FALSE(looks_misdecoded(text)) << encode_utf8(text);
    EXPECT_EQ(repair_encoding(text), text);
  }
}

TEST(TextMojibake, RepairsEveryEncodingThatItKnows) {
  const std::u32string meant = U"na\u00EFve \u201Cquote\u201D \u2014 it\u2019s \U0001F600";
  const std::string bytes = encode_utf8(meant);
  for (int page = -1; page < kNumCodePages; ++page) {
    std::u32string misread;
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      misread.push_back(byte < 0x80 || page < 0 ? byte : kCodePages[page].upper_half[byte - 0x80]);
    }
    const char* const name = page < 0 ? "latin-1" : kCodePages[page].name;
    EXPECT_TRUE(looks_misdecoded(misread)) << name;
    EXPECT_EQ(repair_encoding(misread), meant) << name << ": " << encode_utf8(misread);
  }
}

/// Random bytes, and golden texts with bytes changed and doubled: an answer or a DataError, never a crash; and what
/// comes out is clean UTF-8.
TEST(TextClean, SurvivesMutatedInput) {
  const auto cases = read_text_cases();
  std::mt19937 random(7);
  size_t num_clean = 0, num_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = cases[random() % cases.size()].text.substr(0, 400);
    if (i % 4 == 0) {
      text.resize(random() % 40);
      for (char& c : text) c = static_cast<char>(random());
    }
    for (uint32_t edits = random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      if (edits % 2 == 0) {
        text.insert(at, text, random() % text.size(), random() % 6);
      } else {
        text[at] = static_cast<char>(random());
      }
    }
    try {
      const std::string clean = clean_text(text);
      ++num_clean;
      ASSERT_EQ(find_invalid_utf8(clean), std::string::npos) << escaped(text);
      ASSERT_EQ(clean.find("  "), std::string::npos) << escaped(text);
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_clean, 5000u);
  EXPECT_GT(num_refused, 1000u);
}

TEST(TextUtf8, DecodesEveryCodePointAndNoOther) {
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 13) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string bytes = encode_utf8(std::u32string(1, c));
    const Utf8Step step = decode_utf8_step(bytes, 0);
    ASSERT_TRUE(step.ok);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.num_bytes, bytes.size());
  }
  EXPECT_EQ(repair_utf8("a\xE2\x82z\xF0\x9F\x92\xFF\xC0\x80"),
            "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace lockstep::data
