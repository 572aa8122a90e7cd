// `lockstep ckpt export` and `convert` of GPTs: folders of Hugging Face and files of Megatron hold what was trained on
// any mesh, in its own type, and what they cannot hold is named.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "checkpoint/manifest.h"
#include "commands/engine_test.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;
using core::Json;
using Args = std::vector<std::string>;

const Args kLlama = {"--swiglu",
                     "--normalization",
                     "RMSNorm",
                     "--position-embedding-type",
                     "rope",
                     "--disable-bias-linear",
                     "--untie-embeddings-and-output-weights",
                     "--group-query-attention",
                     "--num-query-groups",
                     "2"};
const Args kNemotron = {"--squared-relu",
                        "--apply-layernorm-1p",
                        "--position-embedding-type",
                        "rope",
                        "--rotary-percent",
                        "0.5",
                        "--disable-bias-linear",
                        "--untie-embeddings-and-output-weights"};
constexpr const char* kWords[] = {"rain", "wind", "snow"};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

class CkptExportGpt : public EngineTest {
 protected:
  static void SetUpTestSuite() {
    shared_ = new core::TempDir("lockstep_export");
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (int j = 0; j < 4; ++j)
        text += std::string(j == 0 ? "" : " ") + kWords[(i + j) % 3] + " goes before " + kWords[(i + j + 1) % 3] + " .";
      lines += Json{{"text", text}}.dump() + "\n";
    }
    core::write_file_atomic(corpus("c.jsonl"), lines);
    ASSERT_EQ(run_lockstep({"data", "train-bpe", corpus("c.jsonl"), "--output", corpus("bpe"), "--vocab-size", "280"})
                  .exit_code,
              0);
    ASSERT_EQ(run_lockstep({"data", "tokenize", corpus("c.jsonl"), "--output-prefix", corpus("c"), "--tokenizer-model",
                            corpus("bpe"), "--append-eod"})
                  .exit_code,
              0);
  }
  static void TearDownTestSuite() { delete shared_; }
  static std::string corpus(const std::string& name) { return (shared_->path() / name).string(); }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static ProgramResult with(Args args, const Args& more, int ranks = 1) {
    args.insert(args.end(), more.begin(), more.end());
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }

  ProgramResult train(const std::string& name, const Args& more, int ranks = 1) const {
    return with({"train",
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
                 "4",
                 "--global-batch-size",
                 "8",
                 "--hidden-dropout",
                 "0",
                 "--attention-dropout",
                 "0",
                 "--lr",
                 "1e-2",
                 "--eval-iters",
                 "0",
                 "--vocab-size",
                 "300",
                 "--make-vocab-size-divisible-by",
                 "4",
                 "--device",
                 "cpu",
                 "--threads",
                 "1",
                 "--logs",
                 path("logs"),
                 "--name",
                 name},
                more, ranks);
  }
  static Args on_corpus(Args more) {
    more.insert(more.end(),
                {"--data-path", corpus("c_text_document"), "--tokenizer-model", corpus("bpe"), "--train-iters", "40"});
    return more;
  }
  /// The folder of a run, which must have ended well.
  std::string run(const std::string& name, const Args& more, int ranks = 1) const {
    const ProgramResult done = train(name, more, ranks);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return path("logs/" + name);
  }
  void export_as(const std::string& names, const std::string& from, const std::string& to, const Args& more = {},
                 const std::string& job = "export") const {
    const ProgramResult done = with({"ckpt", job, from, path(to), "--names", names}, more);
    ASSERT_EQ(done.exit_code, 0) << done.err;
    EXPECT_NE(done.err.find(" tensors of "), std::string::npos) << done.err;
  }
  /// What weights continue three prompts with, as ids.
  static std::vector<std::vector<int>> continued(const std::string& weights, const Args& prompts,
                                                 const Args& more = {}) {
    Args args = {"infer",        "generate", "--device",         "cpu", "--threads", "1",
                 "--pretrained", weights,    "--max-new-tokens", "16",  "--json",    "--no-stop-at-eod"};
    for (const std::string& prompt : prompts) args.push_back("--prompt=" + prompt);
    const ProgramResult said = with(args, more);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    std::vector<std::vector<int>> all;
    for (const std::string& line : core::split(said.out, "\n"))
      if (!line.empty()) all.push_back(Json::parse(line).at("ids").get<std::vector<int>>());
    EXPECT_EQ(all.size(), prompts.size());
    EXPECT_GT(std::set<std::vector<int>>(all.begin(), all.end()).size(), 1u) << "a comparison of constants";
    return all;
  }
  void expect_refused(const Args& args, int code, const std::string& part) const {
    const auto before = names_in(folder_.path());
    const ProgramResult result = run_lockstep(args);
    EXPECT_EQ(result.exit_code, code) << part << "\n" << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("hint:"), std::string::npos) << result.err;
    EXPECT_EQ(names_in(folder_.path()), before) << "something was left behind";
  }

  core::TempDir folder_{"lockstep_export_out"};
  inline static core::TempDir* shared_ = nullptr;
};

TEST_F(CkptExportGpt, AFolderOfHuggingFaceSpeaksAndTrainsOn) {
  const std::string from = run("run", on_corpus({}));
  export_as("huggingface", from, "hf");
  EXPECT_EQ(names_in(path("hf")),
            (std::set<std::string>{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(core::read_file(path("hf/tokenizer.json")), core::read_file(corpus("bpe/tokenizer.json")));
  const Json config = core::read_json_file(path("hf/config.json"));
  EXPECT_EQ(config.at("architectures").front(), "GPT2LMHeadModel");
  EXPECT_EQ(config.at("vocab_size"), 300);
  EXPECT_EQ(config.at("n_positions"), 32);
  EXPECT_EQ(config.at("torch_dtype"), "float32");
  const Json vocabulary = core::read_json_file(corpus("bpe/vocab.json"));
  EXPECT_EQ(config.at("eos_token_id"), vocabulary.at("<|endoftext|>"));
  EXPECT_EQ(core::read_json_file(path("hf/tokenizer_config.json")).at("eos_token"), "<|endoftext|>");
  const core::SafetensorsFile weights(path("hf/model.safetensors"));
  EXPECT_EQ(weights.metadata().at("format"), "pt");
  EXPECT_EQ(weights.at("transformer.wte.weight").shape, (std::vector<int64_t>{300, 32}));
  EXPECT_EQ(weights.find("lm_head.weight"), nullptr) << "tied";
  const Args prompts = {"rain", "wind goes", ""};
  const auto want = continued(from, prompts);
  fs::rename(path("logs"), path("elsewhere"));  // the folder needs nothing of the run
  EXPECT_EQ(continued(path("hf"), prompts), want);
  // A run that starts from it begins where the other ended, far below the logarithm of the vocabulary.
  const auto start = [&](const std::string& name, const Args& more) {
    Args flags = on_corpus(more);
    flags.back() = "2";
    return record::read_steps(run(name, flags)).steps.front().loss;
  };
  const double fresh = start("fresh", {}), tuned = start("tuned", {"--load", path("hf"), "--finetune"});
  EXPECT_GT(fresh, 5);
  EXPECT_LT(tuned, 2);
}

TEST_F(CkptExportGpt, PartsOfAMeshBecomeWholeTensorsOfTheirOwnType) {
  Args flags = on_corpus({"--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2", "--bf16"});
  flags.insert(flags.end(), kLlama.begin(), kLlama.end());
  const std::string from = run("mesh", flags, /*ranks=*/4);
  const fs::path checkpoint = checkpoint::list_checkpoints(from).front().folder;
  ASSERT_EQ(checkpoint::read_manifest(checkpoint).world_size, 4);
  ASSERT_FALSE(fs::exists(checkpoint / "model.safetensors")) << "each rank wrote a part";
  export_as("huggingface", from, "hf");
  export_as("megatron", checkpoint.string(), "megatron.safetensors");
  const core::SafetensorsFile hf(path("hf/model.safetensors")), megatron(path("megatron.safetensors"));
  for (const auto* file : {&hf, &megatron})
    for (const auto& entry : file->entries()) EXPECT_EQ(entry.dtype, "BF16") << entry.name;
  EXPECT_EQ(hf.at("model.layers.1.self_attn.k_proj.weight").shape, (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(megatron.at("decoder.layers.1.self_attention.linear_qkv.weight").shape, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(core::read_json_file(path("hf/config.json")).at("torch_dtype"), "bfloat16");
  const Args prompts = {"rain", "wind goes", "snow goes before"},
             described = {"--model", path("hf/config.json"), "--tokenizer-model", corpus("bpe")};
  const auto want = continued(from, prompts);
  EXPECT_EQ(continued(path("hf"), prompts), want);
  EXPECT_EQ(continued(path("megatron.safetensors"), prompts, described), want);
  const ProgramResult own = run_lockstep({"ckpt", "export", from, path("own.safetensors")});
  ASSERT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(core::SafetensorsFile(path("own.safetensors")).at("head.weight").shape, (std::vector<int64_t>{300, 32}));
  EXPECT_EQ(continued(path("own.safetensors"), prompts, described), want);
}

TEST_F(CkptExportGpt, NamesThereAndBackGiveTheSameBytes) {
  Args flags = {"--mock-data", "--train-iters", "8", "--make-vocab-size-divisible-by", "128"};
  flags.insert(flags.end(), kNemotron.begin(), kNemotron.end());
  const std::string from = run("run", flags);
  export_as("huggingface", from, "hf");
  EXPECT_EQ(names_in(path("hf")), (std::set<std::string>{"config.json", "model.safetensors"}))
      << "made-up tokens have no tokenizer";
  EXPECT_EQ(core::read_json_file(path("hf/config.json")).at("eos_token_id"), 299);
  EXPECT_EQ(continued(path("hf"), {"5 6 7", "100", "40 41"}), continued(from, {"5 6 7", "100", "40 41"}));
  export_as("megatron", from, "padded.safetensors");
  EXPECT_EQ(core::SafetensorsFile(path("padded.safetensors")).at("output_layer.weight").shape,
            (std::vector<int64_t>{384, 32}));
  export_as("megatron", path("hf"), "plain.safetensors", {}, "convert");
  EXPECT_EQ(core::SafetensorsFile(path("plain.safetensors")).at("output_layer.weight").shape,
            (std::vector<int64_t>{300, 32}));
  fs::create_directories(path("from padded"));  // an empty folder is taken
  for (const std::string name : {"padded", "plain"}) {
    const std::string back = "from " + name;
    export_as("huggingface", path(name + ".safetensors"), back, {"--model", path("hf/config.json")}, "convert");
    EXPECT_TRUE(core::read_file(path(back + "/model.safetensors")) == core::read_file(path("hf/model.safetensors")))
        << name;
    Json want = core::read_json_file(path("hf/config.json"));
    want["bos_token_id"] = want["eos_token_id"] = nullptr;  // weights alone do not say them
    EXPECT_EQ(core::read_json_file(path(back + "/config.json")), want);
  }
}

TEST_F(CkptExportGpt, WhatCannotBeWrittenIsNamed) {
  const std::string from = run("run", on_corpus({"--untie-embeddings-and-output-weights"})), out = path("out");
  expect_refused({"ckpt", "export", from, out, "--names", "huggingface"}, 2, "GPT-2 (its head is untied)");
  EXPECT_EQ(run_lockstep({"ckpt", "export", from, path("m.safetensors"), "--names", "megatron"}).exit_code, 0)
      << "whose names can hold it";
  expect_refused({"ckpt", "export", from, path("m.pt"), "--names", "megatron"}, 2,
                 "m.pt'\n  hint: name a file that ends in .safetensors");
  expect_refused({"ckpt", "export", from, path("m.pt"), "--names", "huggingface"}, 2, "hint: name a folder");
  expect_refused({"ckpt", "export", from, out, "--names", "huggingface", "--format", "openclip-pt"}, 2,
                 "contradicts --format openclip-pt");
  expect_refused({"ckpt", "export", from, out, "--names", "huggingface", "--prefix", "module"}, 2,
                 "contradicts --prefix module");
  expect_refused(
      {"ckpt", "export", from, path("x.safetensors"), "--names", "megatron", "--tokenizer-model", corpus("bpe")}, 2,
      "--tokenizer-model is for a GPT");
  expect_refused({"ckpt", "export", from, out, "--model", "gpt2"}, 2, "needs --names and --model together");
  expect_refused({"ckpt", "export", path("none"), out, "--names", "huggingface"}, 5, "does not exist");
  expect_refused({"ckpt", "convert", path("m.safetensors"), out, "--names", "huggingface"}, 2,
                 "config.json is not there");
  expect_refused({"ckpt", "convert", path("m.safetensors"), out, "--names", "huggingface", "--model", "gpt2"}, 4,
                 "embedding.position_embeddings.weight (file [32, 32], model [1024, 768])");
  expect_refused({"ckpt", "convert", path("m.safetensors"), out, "--names", "huggingface", "--model", "gpt9"}, 2,
                 "gpt9");
  const fs::path checkpoint = folder_.path() / "clip/checkpoints" / checkpoint::checkpoint_name(3, 1);
  fs::create_directories(checkpoint);
  core::write_file_atomic(checkpoint / "model.safetensors", "x");
  checkpoint::CheckpointManifest manifest{.step = 3};
  manifest.files = {checkpoint::describe_file(checkpoint, "model.safetensors")};
  checkpoint::write_manifest(checkpoint, manifest);
  core::write_file_atomic(folder_.path() / "clip/run.json",
                          Json{{"record_version", 1}, {"attempts", {{{"attempt", 1}, {"task", "clip"}}}}}.dump());
  expect_refused({"ckpt", "export", path("clip"), out, "--names", "huggingface"}, 2,
                 "is of a run of `train clip`, and --names huggingface is of CLAP and GPT");
  expect_refused({"ckpt", "export", path("clip"), path("clip.safetensors"), "--names", "megatron"}, 5,
                 "is the record of the task \"clip\", expected \"gpt\"");
}

TEST_F(CkptExportGpt, WhatIsThereIsKeptAndATokenizerThatMovedIsNamed) {
  fs::copy(corpus("bpe"), path("bpe"));
  Args flags = on_corpus({});
  for (std::string& flag : flags)
    if (flag == corpus("bpe")) flag = path("bpe");
  const std::string from = run("run", flags);
  fs::rename(path("bpe"), path("moved"));
  expect_refused({"ckpt", "export", from, path("out"), "--names", "huggingface"}, 2, path("bpe"));
  export_as("huggingface", from, "out", {"--tokenizer-model", path("moved")});
  expect_refused({"ckpt", "export", from, path("out"), "--names", "huggingface", "--tokenizer-model", path("moved")}, 2,
                 "is there already");
  fs::remove(path("moved/tokenizer.json"));
  export_as("huggingface", from, "pair", {"--tokenizer-model", path("moved")});
  EXPECT_EQ(names_in(path("pair")), (std::set<std::string>{"config.json", "model.safetensors", "vocab.json",
                                                           "merges.txt", "tokenizer_config.json"}));
  EXPECT_EQ(continued(path("pair"), {"rain", "wind goes"}), continued(path("out"), {"rain", "wind goes"}));
}

}  // namespace
}  // namespace lockstep::tests
