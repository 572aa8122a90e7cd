// `lockstep infer generate`: a GPT trained on a small grammar speaks it; folders of Hugging Face continue token ids as
// Hugging Face does; bad input is named.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "checkpoint/manifest.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;
using core::Json;

constexpr const char* kCauses[] = {"rain", "wind", "snow"};
constexpr const char* kEffects[] = {"floods", "dust", "silence"};

/// Sentences of two words, of which the first decides the second.
std::string document(int number) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += std::string(i == 0 ? "" : " ") + kCauses[(number + i) % 3] + " " + kEffects[(number + i) % 3] + " .";
  return text;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : core::split(text, "\n"))
    if (!line.empty()) lines.push_back(Json::parse(line));
  return lines;
}

/// A golden model as a folder of Hugging Face, whole or in two files.
void write_folder(const fs::path& folder, const std::string& golden, bool in_two_files) {
  const core::SafetensorsFile file(fs::path(LOCKSTEP_GOLDEN_DIR) / "gpt" / (golden + ".safetensors"));
  fs::create_directories(folder);
  core::write_file_atomic(folder / "config.json", file.metadata().at("config"));
  std::vector<core::SafetensorsEntry> parts[2];
  Json map = Json::object();
  for (core::SafetensorsEntry entry : file.entries()) {
    if (!core::starts_with(entry.name, "param/")) continue;
    entry.name = entry.name.substr(6);
    const size_t part = in_two_files ? map.size() % 2 : 0;
    map[entry.name] = fmt::format("model-{:05}-of-00002.safetensors", part + 1);
    parts[part].push_back(entry);
  }
  if (!in_two_files) {
    core::write_safetensors(folder / "model.safetensors", parts[0]);
    return;
  }
  for (const size_t part : {0u, 1u})
    core::write_safetensors(folder / fmt::format("model-{:05}-of-00002.safetensors", part + 1), parts[part]);
  core::write_file_atomic(folder / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

std::vector<int64_t> golden_ids(const std::string& golden, const std::string& name) {
  const core::SafetensorsFile file(fs::path(LOCKSTEP_GOLDEN_DIR) / "gpt" / (golden + ".safetensors"));
  const auto& entry = file.at(name);
  std::vector<int64_t> ids(entry.bytes.size() / sizeof(int64_t));
  std::memcpy(ids.data(), entry.bytes.data(), entry.bytes.size());
  return ids;
}

class Generate : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static ProgramResult generate(const std::string& weights, std::vector<std::string> more) {
    std::vector<std::string> args = {"infer", "generate", "--device", "cpu", "--threads", "1", "--pretrained", weights};
    args.insert(args.end(), more.begin(), more.end());
    return run_lockstep(args);
  }
  static void expect_refused(const std::string& weights, std::vector<std::string> more, int code,
                             const std::string& part) {
    const ProgramResult result = generate(weights, std::move(more));
    EXPECT_EQ(result.exit_code, code) << part << "\n" << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("hint:"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
  /// A run of `train gpt` on the sentences, on one rank or with these flags on two: <folder>/logs/run.
  std::string trained_run(const std::vector<std::string>& mesh = {}) const {
    std::string lines;
    for (int i = 0; i < 60; ++i) lines += Json{{"text", document(i)}}.dump() + "\n";
    core::write_file_atomic(path("c.jsonl"), lines);
    EXPECT_EQ(
        run_lockstep({"data", "train-bpe", path("c.jsonl"), "--output", path("bpe"), "--vocab-size", "280"}).exit_code,
        0);
    EXPECT_EQ(run_lockstep({"data", "tokenize", path("c.jsonl"), "--output-prefix", path("c"), "--tokenizer-model",
                            path("bpe"), "--append-eod"})
                  .exit_code,
              0);
    std::vector<std::string> args = {"train",
                                     "gpt",
                                     "--num-layers",
                                     "2",
                                     "--hidden-size",
                                     "32",
                                     "--num-attention-heads",
                                     "4",
                                     "--seq-length",
                                     "32",
                                     "--micro-batch-size",
                                     "8",
                                     "--hidden-dropout",
                                     "0",
                                     "--attention-dropout",
                                     "0",
                                     "--lr",
                                     "1e-2",
                                     "--lr-warmup-iters",
                                     "5",
                                     "--train-iters",
                                     "120",
                                     "--eval-iters",
                                     "0",
                                     "--data-path",
                                     path("c_text_document"),
                                     "--tokenizer-model",
                                     path("bpe"),
                                     "--vocab-size",
                                     "300",
                                     "--device",
                                     "cpu",
                                     "--threads",
                                     "1",
                                     "--logs",
                                     path("logs"),
                                     "--name",
                                     "run"};
    args.insert(args.end(), mesh.begin(), mesh.end());
    if (!mesh.empty()) args.insert(args.begin(), {"launch", "--nproc-per-node", "2", "--"});
    const auto run = run_lockstep(args);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return path("logs/run");
  }
  core::TempDir folder_{"lockstep_generate"};
};

/// What the model says to each cause: as JSON lines, whose continuations begin with the right effect.
std::vector<Json> expect_speech(const ProgramResult& said) {
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const auto lines = json_lines(said.out);
  EXPECT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string text = lines[i].at("text"), want = std::string(" ") + kEffects[i] + " .";
    EXPECT_EQ(text.substr(0, want.size()), want) << "prompt " << i;
    EXPECT_TRUE(lines[i].at("stopped") == "eod" || lines[i].at("stopped") == "positions") << lines[i];
  }
  return lines;
}

TEST_F(Generate, ATrainedModelSpeaks) {
  const std::string run = trained_run();
  const auto lines = expect_speech(
      generate(run, {"--prompt", "rain", "--prompt", "wind", "--prompt", "snow", "--max-new-tokens", "200", "--json"}));
  // The same, as text, of the checkpoint, into a file, with prompts from a file.
  core::write_file_atomic(path("prompts.txt"), "wind\nsnow\n");
  const std::string checkpoint = checkpoint::list_checkpoints(run).front().folder.string();
  const ProgramResult written =
      generate(checkpoint, {"--prompt", "rain", "--prompt-file", path("prompts.txt"), "--max-new-tokens", "200",
                            "--output", path("out.txt"), "--batch-size", "2"});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.out, "");
  std::string want;
  for (const Json& line : lines)
    want +=
        (want.empty() ? "" : "\n") + line.at("prompt").get<std::string>() + line.at("text").get<std::string>() + "\n";
  EXPECT_EQ(core::read_file(path("out.txt")), want);
}

TEST_F(Generate, AModelThatTensorRanksTrainedSpeaks) {
  const std::string run = trained_run({"--tensor-model-parallel-size", "2", "--sequence-parallel"});
  ASSERT_FALSE(fs::exists(checkpoint::list_checkpoints(run).front().folder / "model.safetensors"))
      << "each rank wrote a part";
  expect_speech(generate(run, {"--prompt", "rain", "wind", "snow", "--json"}));
}

TEST_F(Generate, DrawsDependOnTheSeedAlone) {
  const std::string run = trained_run();
  const auto drawn = [&](std::vector<std::string> more) {
    more.insert(more.end(),
                {"--prompt", "", "--prompt", "rain", "--temperature", "3", "--max-new-tokens", "20", "--json"});
    const ProgramResult result = generate(run, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string first = drawn({"--seed", "1"});
  EXPECT_EQ(drawn({"--seed", "1", "--batch-size", "1"}), first);
  EXPECT_NE(drawn({"--seed", "2"}), first);
  EXPECT_NE(drawn({"--seed", "1", "--top-k", "2"}), first);
  for (const Json& line : json_lines(first))
    for (const Json& id : line.at("ids")) EXPECT_LT(id.get<int>(), 280) << "beyond the tokenizer";
  EXPECT_EQ(json_lines(first).at(0).at("prompt"), "");
  // What the run recorded goes on to count: its tokenizer is looked for where it was.
  fs::rename(path("bpe"), path("elsewhere"));
  expect_refused(run, {"--prompt", "rain"}, 2, path("bpe"));
  EXPECT_EQ(generate(run, {"--prompt", "rain", "--tokenizer-model", path("elsewhere")}).exit_code, 0);
}

TEST_F(Generate, FoldersOfHuggingFaceContinueAsThere) {
  for (const std::string golden : {"gpt2", "llama", "nemotron"}) {
    std::string results[2];
    for (const bool in_two_files : {false, true}) {
      const fs::path folder = folder_.path() / (golden + (in_two_files ? "-two" : "-one"));
      write_folder(folder, golden, in_two_files);
      std::vector<std::string> flags = {"--max-new-tokens", "18", "--no-stop-at-eod", "--json"};
      for (int i = 0; i < 3; ++i)
        flags.push_back(
            fmt::format("--prompt={}", fmt::join(golden_ids(golden, fmt::format("generate/prompt/{}", i)), " ")));
      const ProgramResult result = generate(folder.string(), flags);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const auto lines = json_lines(result.out);
      ASSERT_EQ(lines.size(), 3u);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(lines[i].at("ids").get<std::vector<int64_t>>(), golden_ids(golden, fmt::format("generate/ids/{}", i)))
            << golden;
      results[in_two_files ? 1 : 0] = result.out;
    }
    EXPECT_EQ(results[0], results[1]);
  }
  const ProgramResult text = generate(path("llama-one"), {"--prompt", "5  7", "--max-new-tokens", "3"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 4), "5 7 ");
  const ProgramResult bos = generate(path("llama-one"), {"--prompt", "5 7", "--add-bos", "--max-new-tokens", "3"}),
                      written = generate(path("llama-one"), {"--prompt", "0 5 7", "--max-new-tokens", "3"});
  EXPECT_EQ("0 " + bos.out, written.out) << "bos_token_id is 0";
  EXPECT_EQ(generate(path("llama-one"), {"--prompt", "5 7", "--precision", "bf16", "--max-new-tokens", "3"}).exit_code,
            0);
}

TEST_F(Generate, BadPromptsAreNamed) {
  write_folder(folder_.path() / "gpt2", "gpt2", false);
  expect_refused(path("gpt2"), {"--prompt", "5 97"}, 4, "prompt 1 '5 97' has the token id 97, expected 0 to 96");
  expect_refused(path("gpt2"), {"--prompt", "5", "--prompt=-4"}, 4, "prompt 2 '-4' has the token id -4");
  expect_refused(path("gpt2"), {"--prompt", "5 hello"}, 2, "has the word 'hello', expected token ids");
  std::string longer;
  for (int i = 0; i < 33; ++i) longer += "1 ";
  expect_refused(path("gpt2"), {"--prompt", longer}, 4, "has 33 tokens, the model 32 positions");
  expect_refused(path("gpt2"), {"--prompt-file", path("none.txt")}, 2, "none.txt");
  core::write_file_atomic(path("empty.txt"), "");
  expect_refused(path("gpt2"), {"--prompt-file", path("empty.txt")}, 4, "holds no text");
  expect_refused(path("gpt2"), {"--prompt", "5", "--eod-token", "<x>"}, 2, "--eod-token without a tokenizer");
  expect_refused(path("gpt2"), {"--prompt", "5", "--greedy", "--temperature", "1"}, 2,
                 "--greedy contradicts --temperature");
  expect_refused(path("gpt2"), {"--prompt", "5", "--tokenizer-model", path("none.json")}, 2, "none.json");
  core::write_file_atomic(path("c.jsonl"), "{\"text\": \"some text and some more\"}\n");
  ASSERT_EQ(
      run_lockstep({"data", "train-bpe", path("c.jsonl"), "--output", path("bpe"), "--vocab-size", "260"}).exit_code,
      0);
  expect_refused(path("gpt2"), {"--prompt", "5", "--tokenizer-model", path("bpe")}, 2, "tokens, the model 97");
}

TEST_F(Generate, BadWeightsAreNamed) {
  expect_refused(path("none"), {"--prompt", "5"}, 5, "does not exist");
  fs::create_directories(folder_.path() / "empty");
  expect_refused(path("empty"), {"--prompt", "5"}, 2, "config.json is not there");
  expect_refused(path("empty"), {"--prompt", "5", "--model", "gpt2"}, 5, "holds no weights");
  write_folder(folder_.path() / "other", "llama", false);
  write_folder(folder_.path() / "gpt2", "gpt2", false);
  fs::copy_file(path("gpt2/config.json"), path("other/config.json"), fs::copy_options::overwrite_existing);
  expect_refused(path("other"), {"--prompt", "5"}, 4, "transformer.h.0.ln_1.weight");
  expect_refused(path("gpt2"), {"--prompt", "5", "--model", "gpt9"}, 2, "gpt9");
  for (const char* ids : {"\"x\"", "[0, -1]", "1e10"}) {
    core::write_file_atomic(path("gpt2/generation_config.json"), fmt::format("{{\"eos_token_id\": {}}}", ids));
    expect_refused(path("gpt2"), {"--prompt", "5"}, 4, "generation_config.json': eos_token_id is ");
  }
  fs::remove(path("gpt2/generation_config.json"));
  std::string bytes = core::read_file(path("gpt2/model.safetensors"));
  core::write_file_atomic(path("gpt2/model.safetensors"), bytes.substr(0, bytes.size() - 100));
  expect_refused(path("gpt2"), {"--prompt", "5"}, 4, "model.safetensors");
  std::fill(bytes.end() - 128, bytes.end(), '\xff');  // bf16 of all ones is no number
  core::write_file_atomic(path("gpt2/model.safetensors"), bytes);
  expect_refused(path("gpt2"), {"--prompt", "5"}, 4, "the model gives token");
}

TEST_F(Generate, RunsThatHoldNoWholeGptAreNamed) {
  const auto make_run = [&](const std::string& name, const std::string& task) {
    const fs::path checkpoint = folder_.path() / name / "checkpoints" / checkpoint::checkpoint_name(3, 1);
    fs::create_directories(checkpoint);
    core::write_file_atomic(checkpoint / "model.safetensors", "x");
    checkpoint::CheckpointManifest manifest{.step = 3};
    manifest.files = {checkpoint::describe_file(checkpoint, "model.safetensors")};
    checkpoint::write_manifest(checkpoint, manifest);
    core::write_file_atomic(folder_.path() / name / "run.json",
                            Json{{"record_version", 1}, {"attempts", {{{"attempt", 1}, {"task", task}}}}}.dump());
    return checkpoint;
  };
  make_run("clip", "clip");
  expect_refused(path("clip"), {"--prompt", "5"}, 5, "is the record of the task \"clip\", expected \"gpt\"");
  make_run("shapeless", "gpt");
  expect_refused(path("shapeless"), {"--prompt", "5"}, 2, "the model is not described");
  fs::remove(make_run("unrecorded", "gpt").parent_path().parent_path() / "run.json");
  expect_refused(path("unrecorded"), {"--prompt", "5"}, 2, "the run's run.json is not there");
  fs::create_directories(folder_.path() / "fresh/checkpoints");
  expect_refused(path("fresh"), {"--prompt", "5"}, 5, "holds no whole checkpoint");
  for (const char* name : {"epoch_2.pt", "epoch_10.pt"})
    core::write_file_atomic(path("fresh/checkpoints/") + name, "x");
  expect_refused(
      path("fresh"), {"--prompt", "5"}, 5,
      "weights in OpenCLIP's format lie there: give their file, '" + path("fresh/checkpoints/epoch_10.pt") + "'");
}

}  // namespace
}  // namespace lockstep::tests
