#include "data/text/text_tokenizer.h"

#include "core/error.h"
#include "core/files.h"
#include "data/parallel_for.h"
#include "data/text/json_lines.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

std::string golden_path(const std::string& name) { return std::string(LOCKSTEP_GOLDEN_DIR) + "/" + name; }

TEST(SentencePiece, IdsEqualTheLibrarysInPython) {
  const auto tokenizer = open_text_tokenizer({.model = golden_path("sentencepiece/small.model")});
  EXPECT_EQ(tokenizer->vocab_size(), 600);
  EXPECT_EQ(tokenizer->eod(), 2);
  size_t num_ids = 0;
  for (const json& one : read_golden_lines(golden_path("sentencepiece/cases.jsonl.gz"))) {
    const auto want = one.at("ids").get<std::vector<int32_t>>();
    ASSERT_EQ(tokenizer->encode(one.at("text").get<std::string>()), want) << escaped(one.at("text"));
    ASSERT_EQ(tokenizer->decode(want), one.at("decoded").get<std::string>()) << escaped(one.at("text"));
    num_ids += want.size();
  }
  EXPECT_GT(num_ids, 3000u);
  EXPECT_THROW(tokenizer->decode(std::vector<int32_t>{600}), DataError);
}

TEST(SentencePiece, RefusesADamagedModel) {
  core::TempDir folder;
  const std::string model = core::read_file(golden_path("sentencepiece/small.model"));
  for (const std::string& bytes :
       {std::string(), model.substr(0, model.size() / 2), "x" + model, std::string(1000, '\xff')}) {
    core::write_file_atomic(folder.path() / "x.model", bytes);
    EXPECT_THROW(open_text_tokenizer({.model = (folder.path() / "x.model").string()}), DataError) << bytes.size();
  }
  EXPECT_THROW(open_text_tokenizer({.model = "/nowhere/x.model"}), UsageError);
}

TEST(TextTokenizer, IsChosenByItsFiles) {
  const std::string vocab = golden_path("bpe/roberta/vocab.json"), merges = golden_path("bpe/roberta/merges.txt");
  const auto pair = open_text_tokenizer({.vocab_file = vocab, .merge_file = merges});
  const auto folder = open_text_tokenizer({.model = golden_path("bpe/roberta")});
  EXPECT_EQ(pair->encode("a photo</s>"), folder->encode("a photo</s>"));
  EXPECT_EQ(pair->eod(), 2);  // </s>
  EXPECT_EQ(open_text_tokenizer({.model = golden_path("bpe/gpt2.json")})->eod(), 0);
  EXPECT_EQ(open_text_tokenizer({.model = golden_path("bpe/roberta"), .eod_token = "<mask>"})->eod(), 4);
  EXPECT_THROW(open_text_tokenizer({.model = golden_path("bpe/roberta"), .eod_token = "<none>"}), UsageError);
  EXPECT_THROW(open_text_tokenizer({}), UsageError);
  EXPECT_THROW(open_text_tokenizer({.vocab_file = vocab}), UsageError);
  EXPECT_THROW(open_text_tokenizer({.model = golden_path("bpe/roberta"), .vocab_file = vocab, .merge_file = merges}),
               UsageError);
}

TEST(JsonLines, NumbersLinesAndLeavesBlankOnesOut) {
  core::TempDir folder;
  const auto path = folder.path() / "x.jsonl";
  core::write_file_atomic(path, "{\"text\":\"a\"}\r\n\n  \n{\"text\":[\"b\",\"c\"]}\n{\"text\":\"last\"}");
  JsonLines file(path);
  JsonFieldReader reader;
  std::vector<std::string> seen;
  for (auto lines = file.next(1); !lines.empty(); lines = file.next(1))
    for (const JsonLines::Line& line : lines)
      for (const std::string_view text : reader.read(line, path, "text"))
        seen.push_back(fmt::format("{}:{}", line.number, text));
  EXPECT_EQ(seen, (std::vector<std::string>{"1:a", "4:b", "4:c", "5:last"}));
}

TEST(JsonLines, NamesTheLineOfWhatIsDamaged) {
  core::TempDir folder;
  const auto path = folder.path() / "x.jsonl";
  for (const auto& [line, named] : {std::pair<std::string, const char*>{"{\"text\":\"a\"", "not a JSON object"},
                                    {"[1]", "not a JSON object"},
                                    {"{\"text\":\"\xff\"}", "not a JSON object"},
                                    {"{\"text\":\"\\ud800\"}", "not a JSON object"},
                                    {"{\"txt\":\"a\",\"id\":3}", "no key 'text', the keys are txt, id"},
                                    {"{}", "the keys are none"},
                                    {"{\"text\":\"a\",\"text\":\"b\"}", "occurs twice"},
                                    {"{\"text\":7}", "neither a text nor a list"},
                                    {"{\"text\":[\"a\",7]}", "something other than texts"}}) {
    core::write_file_atomic(path, "{\"text\":\"a\"}\n" + line + "\n");
    JsonLines file(path);
    const auto lines = file.next(1 << 20);
    ASSERT_EQ(lines.size(), 2u);
    try {
      JsonFieldReader().read(lines[1], path, "text");
      ADD_FAILURE() << line << " was accepted";
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find("x.jsonl:2: "), std::string::npos) << error.text();
      EXPECT_NE(error.text().find(named), std::string::npos) << error.text();
    }
  }
}

TEST(ForEachParallel, ThrowsTheErrorOfTheSmallestNumber) {
  for (const int64_t num_threads : {1, 4}) {
    std::vector<int> seen(100);
    for_each_parallel(seen.size(), num_threads, [&](size_t i, size_t worker) {
      EXPECT_LT(worker, static_cast<size_t>(num_threads));
      ++seen[i];
    });
    EXPECT_EQ(seen, std::vector<int>(100, 1));
    try {
      for_each_parallel(1000, num_threads, [](size_t i, size_t) {
        if (i % 10 == 7) throw DataError(fmt::format("at {}", i));
      });
      ADD_FAILURE() << "no error";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "at 7");
    }
  }
}

}  // namespace
}  // namespace lockstep::data
