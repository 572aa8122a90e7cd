#include "data/text/tokenizer.h"

#include <zlib.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"
#include "data/text/text_clean.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

/// Tests on the real vocabulary; skipped, with the reason, where it has not been fetched.
class ClipTokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      assets_ = find_clip_assets();
    } catch (const EnvironmentError& error) {
      GTEST_SKIP() << error.text();
    }
    tokenizer_ = std::make_unique<ClipTokenizer>(assets_.vocabulary());
  }
  std::string vocabulary_text() const {
    const gzFile file = gzopen(assets_.vocabulary().c_str(), "rb");
    std::string text(5 << 20, '\0');
    text.resize(static_cast<size_t>(gzread(file, text.data(), static_cast<unsigned>(text.size()))));
    gzclose(file);
    return text;
  }
  ClipAssets assets_;
  std::unique_ptr<ClipTokenizer> tokenizer_;
};

TEST_F(ClipTokenizerTest, IdsEqualOpenClipOnAwkwardStrings) {
  const auto cases = read_text_cases();
  ASSERT_GE(cases.size(), 4000u);
  size_t num_wrong = 0, num_ids = 0;
  for (const TextCase& one : cases) {
    const auto got = tokenizer_->ids(one.text);
    num_ids += one.ids.size();
    if (got == one.ids || ++num_wrong > 10) continue;
    ADD_FAILURE() << "text  " << escaped(one.text) << "\nwant  " << fmt::format("{}", fmt::join(one.ids, " "))
                  << "\ngot   " << fmt::format("{}", fmt::join(got, " "));
  }
  EXPECT_EQ(num_wrong, 0u);
  EXPECT_GT(num_ids, 20000u);
}

/// What ref/make_tokenizer_goldens.py wrote of the cleanings that are not the default.
std::vector<nlohmann::json> read_cleanings() {
  return read_golden_lines(std::string(LOCKSTEP_GOLDEN_DIR) + "/tokenizer/cleanings.jsonl.gz");
}
constexpr std::pair<const char*, TextCleaning> kOtherCleanings[] = {{"whitespace", TextCleaning::kWhiteSpace},
                                                                    {"canonicalize", TextCleaning::kCanonical}};

TEST(CleanText, OtherCleaningsEqualOpenClips) {
  const auto cases = read_cleanings();
  ASSERT_GE(cases.size(), 150u);
  size_t num_different = 0;
  for (const auto& one : cases)
    for (const auto& [name, cleaning] : kOtherCleanings) {
      const std::string text = one.at("text"), want = one.at(name).at("clean");
      EXPECT_EQ(clean_text(text, cleaning), want) << name << ": " << escaped(text);
      num_different += clean_text(text) != want ? 1 : 0;
    }
  EXPECT_GT(num_different, 100u);
}

TEST_F(ClipTokenizerTest, IdsOfOtherCleaningsEqualOpenClips) {
  for (const auto& [name, cleaning] : kOtherCleanings) {
    const ClipTokenizer tokenizer(assets_.vocabulary(), cleaning);
    for (const auto& one : read_cleanings()) {
      const std::string text = one.at("text");
      EXPECT_EQ(tokenizer.ids(text), one.at(name).at("ids").get<std::vector<int32_t>>())
          << name << ": " << escaped(text);
    }
  }
}

TEST_F(ClipTokenizerTest, EncodesPadsAndCuts) {
  std::array<int32_t, 6> out;
  tokenizer_->encode("a photo of a dog", std::span(out).first(4));
  EXPECT_EQ((std::vector<int32_t>(out.begin(), out.begin() + 4)), (std::vector<int32_t>{49406, 320, 1125, 49407}));
  out.fill(-1);
  tokenizer_->encode("a photo", out);
  EXPECT_EQ(out, (std::array<int32_t, 6>{49406, 320, 1125, 49407, 0, 0}));
  tokenizer_->encode("a photo a photo", out);
  EXPECT_EQ(out, (std::array<int32_t, 6>{49406, 320, 1125, 320, 1125, 49407}));
  tokenizer_->encode("a photo a photo a", out);
  EXPECT_EQ(out, (std::array<int32_t, 6>{49406, 320, 1125, 320, 1125, 49407}));
  tokenizer_->encode("", std::span(out).first(2));
  EXPECT_EQ(out[0], 49406);
  EXPECT_EQ(out[1], 49407);
}

TEST_F(ClipTokenizerTest, DecodesWhatItEncoded) {
  for (const TextCase& one : read_text_cases()) {
    if (one.clean.find("</w>") != std::string::npos) continue;  // reads as the end of a word, in the reference too
    std::string text = tokenizer_->decode(one.ids), want = one.clean;
    for (std::string* const s : {&text, &want}) {
      *s = core::replace_all(core::replace_all(*s, " ", ""), "\xCD\x85", "");  // U+0345 belongs to no word
    }
    ASSERT_EQ(text, want) << escaped(one.text);
  }
  EXPECT_EQ(tokenizer_->decode(std::vector<int32_t>{49406, 320, 1125, 539, 320, 1929, 49407}),
            "<start_of_text>a photo of a dog <end_of_text>");
  EXPECT_THROW(tokenizer_->decode(std::vector<int32_t>{49408}), DataError);
  EXPECT_THROW(tokenizer_->decode(std::vector<int32_t>{-1}), DataError);
}

TEST_F(ClipTokenizerTest, ManyThreadsAgreeWhileTheCacheOverflows) {
  const auto cases = read_text_cases();
  std::vector<std::jthread> threads;
  std::vector<size_t> num_wrong(4, 0);
  for (size_t t = 0; t < num_wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < cases.size(); ++i) {
        const TextCase& one = cases[(i + t * 997) % cases.size()];
        if (tokenizer_->ids(one.text) != one.ids) ++num_wrong[t];
      }
      for (int i = 0; i < 50000; ++i) {  // 200,000 different words over all threads: more than the cache holds
        std::string word = "q";
        for (int rest = i * 4 + static_cast<int>(t); rest > 0; rest /= 26)
          word.push_back(static_cast<char>('a' + rest % 26));
        if (tokenizer_->ids(word).empty()) ++num_wrong[t];
      }
    });
  }
  threads.clear();
  EXPECT_EQ(num_wrong, std::vector<size_t>(4, 0));
  EXPECT_EQ(tokenizer_->ids("a photo"), (std::vector<int32_t>{320, 1125}));
}

TEST_F(ClipTokenizerTest, LongWordsStayFast) {
  const std::string word(200'000, 'a');
  const auto ids = tokenizer_->ids(word);
  EXPECT_EQ(core::replace_all(tokenizer_->decode(ids), " ", ""), word);
}

TEST_F(ClipTokenizerTest, RandomBytesGiveIdsOrAnError) {
  std::mt19937 random(11);
  std::array<int32_t, 77> out;
  for (int i = 0; i < 5000; ++i) {
    std::string text(random() % 60, '\0');
    for (char& c : text) c = static_cast<char>(i % 2 == 0 ? random() : random() % 128);
    try {
      tokenizer_->encode(text, out);
      ASSERT_EQ(out[0], ClipTokenizer::kStartOfText);
      ASSERT_TRUE(std::find(out.begin(), out.end(), ClipTokenizer::kEndOfText) != out.end());
      for (const int32_t id : out) ASSERT_TRUE(id >= 0 && id < ClipTokenizer::kVocabularySize);
    } catch (const DataError&) {
    }
  }
}

TEST_F(ClipTokenizerTest, ReadsThePlainVocabularyToo) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "vocabulary.txt", vocabulary_text());
  const ClipTokenizer plain(folder.path() / "vocabulary.txt");
  EXPECT_EQ(plain.ids("a photo of jalape\xC3\xB1os"), tokenizer_->ids("a photo of jalape\xC3\xB1os"));
}

TEST_F(ClipTokenizerTest, NamesTheLineOfADamagedVocabulary) {
  const core::TempDir folder;
  const auto path = folder.path() / "vocabulary.txt";
  const std::string good = vocabulary_text();
  const auto expect_refused = [&](const std::string& content, const std::string& part) {
    core::write_file_atomic(path, content);
    try {
      const ClipTokenizer tokenizer(path);
      FAIL() << "no error; expected " << part;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  };
  const auto with_line = [&](size_t number, const std::string& line) {
    size_t start = 0;
    for (size_t i = 1; i < number; ++i) start = good.find('\n', start) + 1;
    std::string content = good;
    return content.replace(start, content.find('\n', start) - start, line);
  };
  expect_refused(with_line(100, "onlyone"), "line 100: two symbols");
  expect_refused(with_line(7, "zzzzz q"), "line 7: the first symbol");
  expect_refused(with_line(7, "q zzzzz"), "line 7: the second symbol");
  expect_refused(with_line(3, "i n"), "line 3: a line before makes the same symbol");
  expect_refused(good.substr(0, 1000), "line ");
  expect_refused("", "it ends before line 2");
  const std::string packed = core::read_file(assets_.vocabulary());
  expect_refused(packed.substr(0, packed.size() / 2), "gzip data broken or cut");
  std::string flipped = packed;
  flipped[packed.size() / 2] ^= 0x10;
  expect_refused(flipped, "");
  EXPECT_THROW(ClipTokenizer(folder.path() / "missing"), UsageError);
}

TEST_F(ClipTokenizerTest, FetchedListsAreWhole) {
  EXPECT_EQ(read_class_names(assets_.imagenet_class_names()).size(), 1000u);
  EXPECT_EQ(read_class_names(assets_.imagenet_class_names()).front(), "tench");
  EXPECT_EQ(read_templates(assets_.openai_templates()).size(), 80u);
  EXPECT_EQ(read_templates(assets_.folder / "simple_templates.txt").front(), "itap of a {}.");
}

}  // namespace
}  // namespace lockstep::data
