#include "data/text/bpe_trainer.h"

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "data/text/byte_bpe.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

std::string golden_corpus_path(const std::string& name) { return std::string(LOCKSTEP_GOLDEN_DIR) + "/bpe/" + name; }

/// Words of the corpus that ref/make_bpe_goldens.py trained on.
WordCounter count_corpus() {
  WordCounter counter(kGpt2Pattern);
  for (const std::string& line : core::split(read_golden_text(golden_corpus_path("corpus.txt.gz")), "\n"))
    counter.add(line);
  return counter;
}

TEST(BpeTrainer, FindsTheMergesOfHuggingFace) {
  const WordCounter counter = count_corpus();
  ASSERT_GT(counter.counts().size(), 1000u);
  size_t num_cases = 0;
  for (const json& one : read_golden_lines(golden_corpus_path("trainer.jsonl.gz"))) {
    const TrainedBpe trained =
        train_bpe(counter.counts(), {.vocab_size = one.at("vocab_size"),
                                     .min_frequency = one.at("min_frequency"),
                                     .special_tokens = one.at("special").get<std::vector<std::string>>()});
    EXPECT_EQ(trained.vocab, one.at("vocab").get<std::vector<std::string>>()) << one.at("vocab_size");
    const auto want = one.at("merges").get<std::vector<std::pair<std::string, std::string>>>();
    ASSERT_EQ(trained.merges.size(), want.size()) << one.at("vocab_size");
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(trained.merges[i], want[i]) << one.at("vocab_size") << " merge " << i;
    ++num_cases;
  }
  EXPECT_EQ(num_cases, 4u);
}

TEST(BpeTrainer, CountsOfThreadsAddUp) {
  const std::vector<std::string> lines = core::split(read_golden_text(golden_corpus_path("corpus.txt.gz")), "\n");
  WordCounter first(kGpt2Pattern), second(kGpt2Pattern);
  for (size_t i = 0; i < lines.size(); ++i) (i % 3 == 0 ? first : second).add(lines[i]);
  first.merge(second);
  EXPECT_EQ(first.counts(), count_corpus().counts());
}

TEST(BpeTrainer, WritesFilesThatTokenizeAlike) {
  const WordCounter counter = count_corpus();
  const TrainedBpe trained = train_bpe(counter.counts(), {.vocab_size = 600, .special_tokens = {"<|endoftext|>"}});
  core::TempDir folder;
  write_trained_bpe(trained, kGpt2Pattern, folder.path() / "new");
  const ByteBpe whole(read_tokenizer_json(folder.path() / "new/tokenizer.json"));
  const ByteBpe pair(
      read_bpe_files(folder.path() / "new/vocab.json", folder.path() / "new/merges.txt", {"<|endoftext|>"}));
  EXPECT_EQ(whole.vocab_size(), 600);
  EXPECT_EQ(whole.token_id("<|endoftext|>"), 0);
  size_t num_ids = 0, num_bytes = 0;
  for (const std::string& line : core::split(read_golden_text(golden_corpus_path("corpus.txt.gz")), "\n")) {
    const std::vector<int32_t> ids = whole.encode(line + "<|endoftext|>");
    ASSERT_EQ(ids, pair.encode(line + "<|endoftext|>"));
    ASSERT_EQ(whole.decode(ids, true), line);
    num_ids += ids.size();
    num_bytes += line.size();
  }
  EXPECT_LT(2 * num_ids, num_bytes);  // the merges shorten text
  const std::string digits = R"(\p{N}{1,3}|[^\p{N}]+)";
  write_trained_bpe(trained, digits, folder.path());
  EXPECT_EQ(ByteBpe(read_tokenizer_json(folder.path() / "tokenizer.json")).decode(std::vector<int32_t>{}), "");
}

TEST(BpeTrainer, RefusesWhatCannotBe) {
  const WordCounter::Counts words = {{"ab", 3}};
  EXPECT_THROW(train_bpe(words, {.vocab_size = 255}), UsageError);
  EXPECT_THROW(train_bpe(words, {.vocab_size = 256, .special_tokens = {"<s>"}}), UsageError);
  EXPECT_THROW(train_bpe(words, {.vocab_size = 300, .special_tokens = {"<s>", "<s>"}}), UsageError);
  EXPECT_THROW(train_bpe(words, {.vocab_size = 300, .special_tokens = {""}}), UsageError);
  EXPECT_EQ(train_bpe(words, {.vocab_size = 300}).vocab.size(), 257u);
  EXPECT_EQ(train_bpe(words, {.vocab_size = 300, .min_frequency = 4}).vocab.size(), 256u);
  EXPECT_THROW(WordCounter("("), DataError);
}

}  // namespace
}  // namespace lockstep::data
