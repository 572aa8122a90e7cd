#include <gtest/gtest.h>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep {
namespace {

using core::Json;
using tests::ProgramResult;
using tests::run_lockstep;

/// A folder with two JSON Lines files of 600 and 100 documents; one document is empty, one is a list.
class TextCommands : public ::testing::Test {
 protected:
  TextCommands() {
    std::string first, second;
    for (int i = 0; i < 600; ++i) {
      const Json text = i == 5   ? Json("")
                        : i == 6 ? Json::array({"one part", "another part"})
                                 : Json("the cat number " + std::to_string(i) + " sat on the mat, don't you see?");
      first += Json{{"id", i}, {"text", text}}.dump() + "\n";
    }
    for (int i = 0; i < 100; ++i) second += Json{{"text", "\u00e4 dog of " + std::to_string(i * i)}}.dump() + "\n";
    core::write_file_atomic(path("a.jsonl"), first);
    core::write_file_atomic(path("b.jsonl"), second);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void train(const std::string& size = "400") const {
    const ProgramResult trained = run_lockstep(
        {"data", "train-bpe", path("a.jsonl"), path("b.jsonl"), "--output", path("bpe"), "--vocab-size", size});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  core::TempDir folder_;
};

TEST_F(TextCommands, TrainTokenizeInspectAndVerify) {
  train();
  const auto tokenize = [&](const std::string& prefix, const std::string& workers) {
    const ProgramResult done =
        run_lockstep({"data", "tokenize", path("a.jsonl"), path("b.jsonl"), "--output-prefix", path(prefix),
                      "--tokenizer-model", path("bpe"), "--append-eod", "--workers", workers, "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.exit_code == 0 ? Json::parse(done.out) : Json();
  };
  const Json one = tokenize("one", "1");
  EXPECT_EQ(one.at("vocab_size"), 400);
  EXPECT_EQ(one.at("files").at(0).at("documents"), 700);
  EXPECT_EQ(one.at("files").at(0).at("empty_documents"), 1);
  EXPECT_EQ(tokenize("three", "3").at("files").at(0).at("tokens"), one.at("files").at(0).at("tokens"));
  for (const char* ending : {".bin", ".idx"})
    EXPECT_EQ(core::read_file(path("one_text_document") + ending),
              core::read_file(path("three_text_document") + ending))
        << ending;

  const ProgramResult shown = run_lockstep({"data", "inspect", path("one_text_document.idx"), "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const Json report = Json::parse(shown.out).at("token_files").at(0);
  EXPECT_EQ(report.at("documents"), 700);
  EXPECT_EQ(report.at("sequences"), 700);  // none for the empty one, two for the list
  EXPECT_EQ(report.at("type"), "u16");
  EXPECT_EQ(report.at("min_id"), 0);
  EXPECT_EQ(report.at("first_ids").back(), 0);  // <|endoftext|>
  EXPECT_NE(run_lockstep({"data", "inspect", path("one_text_document.idx")})
                .out.find("700 documents, 700 sequences (0 empty)"),
            std::string::npos);
  EXPECT_EQ(run_lockstep({"data", "verify", path("one_text_document.idx"), path("three_text_document.idx"),
                          "--vocab-size", "400"})
                .exit_code,
            0);
  EXPECT_EQ(run_lockstep({"data", "verify", path("one_text_document"), "--vocab-size", "400"}).exit_code, 0)
      << "a prefix";
  std::filesystem::remove(path("three_text_document.idx"));
  const ProgramResult halved = run_lockstep({"data", "verify", path("three_text_document")});
  EXPECT_NE(halved.exit_code, 0);
  EXPECT_NE(halved.err.find("token index '" + path("three_text_document.idx") + "' does not exist"), std::string::npos)
      << halved.err << halved.out;
  const ProgramResult neither = run_lockstep({"data", "verify", path("four")});
  EXPECT_EQ(neither.exit_code, 4);
  EXPECT_NE((neither.out + neither.err).find("nor are there token files '" + path("four") + ".idx' and .bin"),
            std::string::npos)
      << neither.err << neither.out;

  const ProgramResult small = run_lockstep({"data", "verify", path("one_text_document.idx"), "--vocab-size", "100"});
  EXPECT_EQ(small.exit_code, 4);
  EXPECT_NE(small.out.find("expected 0 to 99"), std::string::npos) << small.out;
  std::string tokens = core::read_file(path("one_text_document.bin"));
  core::write_file_atomic(path("one_text_document.bin"), tokens.substr(0, tokens.size() - 2));
  const ProgramResult cut = run_lockstep({"data", "verify", path("one_text_document.idx")});
  EXPECT_EQ(cut.exit_code, 4);
  EXPECT_NE(cut.out.find("DAMAGED"), std::string::npos) << cut.out;
  EXPECT_NE(cut.out.find("the file is cut"), std::string::npos) << cut.out;
}

TEST_F(TextCommands, ADamagedLineIsNamedAndNothingIsWritten) {
  train();
  std::string text = core::read_file(path("a.jsonl"));
  text.insert(text.find("number 321"), "\"");
  core::write_file_atomic(path("a.jsonl"), text);
  const ProgramResult result = run_lockstep({"data", "tokenize", path("b.jsonl"), path("a.jsonl"), "--output-prefix",
                                             path("x"), "--tokenizer-model", path("bpe")});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.err.find("a.jsonl:322: not a JSON object"), std::string::npos) << result.err;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_NE(entry.path().filename().string().substr(0, 2), "x_") << entry.path();
  const ProgramResult key =
      run_lockstep({"data", "train-bpe", path("b.jsonl"), "--output", path("y"), "--json-keys", "body"});
  EXPECT_EQ(key.exit_code, 4);
  EXPECT_NE(key.err.find("b.jsonl:1: no key 'body', the keys are text"), std::string::npos) << key.err;
}

TEST_F(TextCommands, TokenizeTakesTheFlagsOfMegatronsScript) {
  train();
  const ProgramResult done = run_lockstep({"data",
                                           "tokenize",
                                           "--input",
                                           path("a.jsonl"),
                                           "--output-prefix",
                                           path("m"),
                                           "--tokenizer-type",
                                           "GPT2BPETokenizer",
                                           "--vocab-file",
                                           path("bpe") + "/vocab.json",
                                           "--merge-file",
                                           path("bpe") + "/merges.txt",
                                           "--append-eod",
                                           "--workers",
                                           "2",
                                           "--partitions",
                                           "1",
                                           "--keep-sequential-samples",
                                           "--log-interval",
                                           "1000"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(std::filesystem::exists(path("m_text_document.idx")));
  EXPECT_NE(done.err.find("--tokenizer-type, --partitions, --keep-sequential-samples, --log-interval change nothing"),
            std::string::npos)
      << done.err;
  const ProgramResult cut = run_lockstep({"data", "tokenize", "--input", path("a.jsonl"), "--split-sentences",
                                          "--output-prefix", path("n"), "--tokenizer-model", path("bpe")});
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_NE(cut.err.find("--split-sentences is not supported"), std::string::npos) << cut.err;
}

TEST_F(TextCommands, PatternsNameFilesInTheirOrder) {
  train();
  const auto tokens = [&](const std::string& name, std::vector<std::string> inputs) {
    inputs.insert(inputs.begin(), {"data", "tokenize", "--input"});
    inputs.insert(inputs.end(), {"--output-prefix", path(name), "--tokenizer-model", path("bpe")});
    const ProgramResult done = run_lockstep(inputs);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return core::read_file(path(name + "_text_document.bin"));
  };
  const std::string all = tokens("p", {path("*.jsonl")});
  EXPECT_FALSE(all.empty());
  EXPECT_EQ(all, tokens("q", {path("a.jsonl"), path("b.jsonl")}));
}

TEST_F(TextCommands, WhatIsNotThereOrPackedIsSaidSo) {
  train();
  const auto error = [&](const std::string& input, const std::string& output) {
    return run_lockstep({"data", "tokenize", path(input), "-o", path(output), "--tokenizer-model", path("bpe")}).err;
  };
  const std::string folder = error("a.jsonl", "no/x");
  EXPECT_NE(folder.find("the folder '" + path("no") + "' of '" + path("no/x") + "' does not exist"), std::string::npos)
      << folder;
  core::write_file_atomic(path("a.jsonl.gz"), "\x1f\x8b");
  EXPECT_NE(error("a.jsonl.gz", "x").find("hint: unpack it first, with gunzip -k"), std::string::npos);
}

TEST_F(TextCommands, WrongUseIsRefused) {
  train();
  EXPECT_EQ(run_lockstep({"data", "tokenize", path("a.jsonl")}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "tokenize", path("a.jsonl"), "--output-prefix", path("x")}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "tokenize", path("none.jsonl"), "--output-prefix", path("x"), "--tokenizer-model",
                          path("bpe")})
                .exit_code,
            2);
  EXPECT_EQ(run_lockstep({"data", "tokenize", path("a.jsonl"), "--output-prefix", path("x"), "--tokenizer-model",
                          path("bpe"), "--append-eod", "--eod-token", "<no>"})
                .exit_code,
            2);
  EXPECT_EQ(run_lockstep({"data", "tokenize", path("a.jsonl"), "--output-prefix", path("no/folder/x"),
                          "--tokenizer-model", path("bpe")})
                .exit_code,
            2);
  EXPECT_EQ(run_lockstep({"data", "train-bpe", path("a.jsonl")}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "train-bpe", path("a.jsonl"), "--output", path("z"), "--vocab-size", "256",
                          "--special-tokens", "<a>"})
                .exit_code,
            2);
  EXPECT_EQ(
      run_lockstep({"data", "train-bpe", path("a.jsonl"), "--output", path("z"), "--split-pattern", "("}).exit_code, 4);
  EXPECT_EQ(run_lockstep({"data", "inspect", path("x.idx"), path("y.tar")}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "inspect", path("x.idx")}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep
