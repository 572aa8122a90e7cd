// `lockstep train gpt` and its files: indices of samples that ranks and runs share, ids that the model does not have, a
// model that no machine holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "commands/faulty_files.h"
#include "commands/run_program.h"
#include "commands/two_nodes.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "record/reader.h"
#include "support/error_text.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

class TrainTokens : public ::testing::Test {
 protected:
  TrainTokens() {
    std::string lines;
    for (int i = 0; i < 300; ++i)
      lines += core::Json{{"text", "line " + std::to_string(i * 7919 % 1000) + " of a small text about " +
                                       std::to_string(i % 13) + " things"}}
                   .dump() +
               "\n";
    core::write_file_atomic(path("corpus.jsonl"), lines);
    EXPECT_EQ(run_lockstep({"data", "train-bpe", path("corpus.jsonl"), "--output", path("bpe"), "--vocab-size", "280"})
                  .exit_code,
              0);
    EXPECT_EQ(run_lockstep({"data", "tokenize", path("corpus.jsonl"), "--output-prefix", path("data"),
                            "--tokenizer-model", path("bpe"), "--append-eod"})
                  .exit_code,
              0);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  std::vector<std::string> train_args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"train",
                                     "gpt",
                                     "--num-layers",
                                     "1",
                                     "--hidden-size",
                                     "16",
                                     "--num-attention-heads",
                                     "2",
                                     "--seq-length",
                                     "16",
                                     "--global-batch-size",
                                     "4",
                                     "--hidden-dropout",
                                     "0",
                                     "--attention-dropout",
                                     "0",
                                     "--lr",
                                     "1e-2",
                                     "--train-iters",
                                     "3",
                                     "--threads",
                                     "1",
                                     "--device",
                                     "cpu",
                                     "--log-interval",
                                     "1",
                                     "--logs",
                                     path("logs"),
                                     "--name",
                                     name,
                                     "--data-path",
                                     path("data_text_document"),
                                     "--vocab-size",
                                     "280",
                                     "--eval-interval",
                                     "3",
                                     "--eval-iters",
                                     "1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  ProgramResult train_on(int ranks, const std::string& name, const std::vector<std::string>& more = {}) const {
    auto args = train_args(name, more);
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const auto& step : record::read_steps(fs::path(path("logs")) / name).steps) values.push_back(step.loss);
    return values;
  }
  /// Names and times of change of the files of a kind.
  static std::vector<std::pair<std::string, fs::file_time_type>> files_of(const fs::path& folder,
                                                                          const std::string& kind) {
    std::vector<std::pair<std::string, fs::file_time_type>> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with(kind))
        files.emplace_back(entry.path().filename(), entry.last_write_time());
    std::sort(files.begin(), files.end());
    return files;
  }
  static size_t count_of(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  core::TempDir folder_{"lockstep_tokens"};
};

TEST_F(TrainTokens, RanksAndRunsShareTheIndex) {
  const auto first = train_on(2, "first");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const fs::path cache = folder_.path() / "cache" / "lockstep";
  const auto samples = files_of(cache, "samples-"), ids = files_of(cache, "ids-");
  EXPECT_EQ(samples.size(), 2u) << "training and validation";
  EXPECT_EQ(ids.size(), 1u);
  const auto second = train_on(1, "second");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(files_of(cache, "samples-"), samples) << "made again";
  EXPECT_EQ(files_of(cache, "ids-"), ids);
  EXPECT_EQ(fs::file_size(cache / samples[0].first) % 4096, 0u);
  fs::resize_file(cache / samples[0].first, 5000);
  fs::resize_file(cache / samples[1].first, 5000);
  const auto third = train_on(2, "third");
  ASSERT_EQ(third.exit_code, 0) << third.err;
  EXPECT_EQ(count_of(third.err, "it is made again"), 2u) << third.err;
  const auto elsewhere = train_on(1, "elsewhere", {"--data-cache-path", path("indices")});
  ASSERT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_EQ(files_of(path("indices"), "samples-").size(), 2u);
  const auto want = losses("first");
  ASSERT_EQ(want.size(), 3u);
  for (const char* name : {"second", "third", "elsewhere"}) {
    const auto got = losses(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << name << " step " << i;
  }
}

/// As some file systems of clusters are mounted: nothing but the order of the ranks keeps the others from writing, too.
TEST_F(TrainTokens, OneRankMakesTheIndicesWhereFilesCannotBeLocked) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const FaultyFiles faulty;
  const fs::path cache = folder_.path() / "cache" / "lockstep";
  const auto nodes =  // the first rank of each tells what it does
      launch_on_two_nodes(train_args("unlocked", {"--log-local"}), 1, faulty.environment(cache, "nolock 200"));
  for (const ProgramResult& node : nodes) EXPECT_EQ(node.exit_code, 0) << node.err;
  EXPECT_EQ(count_of(nodes[0].err, "data: made '"), 3u) << "tokens, training and validation: " << nodes[0].err;
  EXPECT_EQ(count_of(nodes[1].err, "data: made '"), 0u) << nodes[1].err;
  EXPECT_TRUE(holds(nodes[1].err, " | INFO | ")) << nodes[1].err;
  EXPECT_EQ(losses("unlocked").size(), 3u);
}

TEST_F(TrainTokens, AFolderThatCannotBeWritten) {
  core::write_file_atomic(path("cache"), "in the place of the folder");
  const auto in_memory = train_on(2, "memory");
  EXPECT_EQ(in_memory.exit_code, 0) << in_memory.err;
  EXPECT_EQ(count_of(in_memory.err, "made in the memory of every rank"), 1u) << in_memory.err;
  const auto asked = train_on(2, "asked", {"--data-cache-path", path("cache/here")});
  EXPECT_EQ(asked.exit_code, 6) << asked.err;
  EXPECT_TRUE(holds(asked.err, "--data-cache-path names a folder")) << asked.err;
}

TEST_F(TrainTokens, AWrongPathMakesNoFolders) {
  const auto wrong =
      run_lockstep({"train", "gpt", "--model", "gpt2", "--seq-length", "16", "--lr", "1e-3", "--train-iters", "1",
                    "--device", "cpu", "--logs", path("logs"), "--name", "wrong", "--data-path", path("typo/data")});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_TRUE(holds(wrong.err, "typo/data.idx' does not exist")) << wrong.err;
  EXPECT_FALSE(fs::exists(path("typo")));
}

TEST_F(TrainTokens, AllMissingFilesAreToldAtOnce) {
  std::vector<std::string> args = core::split(
      "train gpt --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 16 --max-position-embeddings 16 "
      "--lr 1e-3 --train-iters 1 --device cpu",
      " ");
  args.insert(args.end(), {"--logs", path("logs"), "--tokenizer-model", path("no.json"), "--data-path", "1",
                           path("data_text_document"), "2", path("a"), "3", path("b.bin")});
  const auto refused = run_lockstep(args);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_TRUE(holds(refused.err, "5 things are wrong")) << refused.err;
  for (const char* file : {"no.json", "a.idx", "a.bin", "b.idx", "b.bin"})
    EXPECT_TRUE(holds(refused.err, "'" + path(file) + "' does not exist")) << file << " in: " << refused.err;
  EXPECT_FALSE(holds(refused.err, "data_text_document")) << refused.err;
  args.insert(args.end(), {"--dry-run", "--vocab-size", "100"});
  const auto dry = run_lockstep(args);
  EXPECT_EQ(dry.exit_code, 2) << dry.err << dry.out;
  EXPECT_TRUE(holds(dry.out, "--data-path: '" + path("b.idx") + "'") || holds(dry.out, "b.idx' is not here"))
      << dry.out;
}

TEST_F(TrainTokens, IdsThatTheModelDoesNotHaveEndTheRunBeforeItBegins) {
  std::fstream file(path("data_text_document.bin"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(2 * 700);
  file.write("\x2c\x01", 2);  // 300
  file.close();
  const auto refused = train_on(2, "refused");
  EXPECT_EQ(refused.exit_code, 4) << refused.err;
  EXPECT_TRUE(holds(refused.err, "data_text_document.bin': token ")) << refused.err;
  EXPECT_TRUE(holds(refused.err, " is 300, expected 0 to 279")) << refused.err;
  EXPECT_FALSE(fs::exists(path("logs/refused/steps.jsonl")));
}

TEST_F(TrainTokens, AModelThatTheMachineCannotHoldIsRefused) {
  const auto refused = run_lockstep({"launch",      "--nproc-per-node",
                                     "2",           "--",
                                     "train",       "gpt",
                                     "--model",     "gpt3-175b",
                                     "--mock-data", "--lr",
                                     "1e-4",        "--train-iters",
                                     "2",           "--device",
                                     "cpu",         "--tensor-model-parallel-size",
                                     "2",           "--logs",
                                     path("logs"),  "--name",
                                     "large"});
  EXPECT_EQ(refused.exit_code, 6) << refused.err;
  EXPECT_TRUE(holds(refused.err, "model 'gpt3-175b' laid out so takes ")) << refused.err;
  EXPECT_TRUE(holds(refused.err, "TiB of memory, machine '")) << refused.err;
  EXPECT_TRUE(holds(refused.err, "; most of a rank's is optimizer (")) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(path("logs"))) << "a start that was refused leaves no folder";
}

TEST_F(TrainTokens, AnIndexBeyondTheMemoryIsRefusedInWords) {
  const auto start = [this](const std::string& steps) {
    std::vector<std::string> args = core::split(
        "train gpt --mock-data --vocab-size 1000 --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length "
        "16 "
        "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 4096 --lr 1e-3 --device cpu --name "
        "large",
        " ");
    args.insert(args.end(), {"--train-iters", steps, "--logs", path("index_logs")});
    return run_lockstep(args);
  };
  const auto beyond = start("1000000");
  EXPECT_EQ(beyond.exit_code, 6) << beyond.err;
  EXPECT_TRUE(holds(beyond.err, "data: the index of 40")) << beyond.err;  // 4.1e9 samples
  EXPECT_TRUE(holds(beyond.err, "GiB are free")) << beyond.err;
  EXPECT_TRUE(holds(beyond.err, "--train-iters")) << beyond.err;
  const auto unnumbered = start("10000000");
  EXPECT_EQ(unnumbered.exit_code, 4) << unnumbered.err;
  EXPECT_TRUE(holds(unnumbered.err, "40960000000 samples from ")) << unnumbered.err;
  EXPECT_FALSE(std::filesystem::exists(path("index_logs"))) << "a start that was refused leaves no folder";
}

}  // namespace
}  // namespace lockstep::tests
