// `lockstep train gpt` on made-up data and on a generated language: it learns on every kind of mesh, stops and resumes
// bit for bit, and refuses what it cannot lay out or has no engine for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "checkpoint/manifest.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

/// Sentences of a small grammar: what follows a word is never certain, yet far from even.
std::string sentence(uint64_t& state) {
  static const std::vector<std::vector<std::string>> kPlaces = {
      {"the", "a", "one"},
      {"small", "large", "red", "old", "quick", "quiet"},
      {"cat", "dog", "bird", "ship", "house", "river", "tree", "stone"},
      {"sees", "finds", "passes", "likes"},
      {"the", "a", "one"},
      {"cat", "dog", "bird", "ship", "house", "river", "tree", "stone"}};
  std::string text;
  for (const auto& words : kPlaces) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    text += (text.empty() ? "" : " ") + words[(state >> 33) % words.size()];
  }
  return text + ".";
}

class TrainGpt : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new core::TempDir("lockstep_gpt");
    std::string lines;
    uint64_t state = 3;
    for (int i = 0; i < 600; ++i) {
      std::string text;
      for (int j = 0; j < 4; ++j) text += sentence(state) + " ";
      lines += core::Json{{"text", text}}.dump() + "\n";
    }
    core::write_file_atomic(path("corpus.jsonl"), lines);
    ASSERT_EQ(run_lockstep({"data", "train-bpe", path("corpus.jsonl"), "--output", path("bpe"), "--vocab-size", "300"})
                  .exit_code,
              0);
    const auto made = run_lockstep({"data", "tokenize", path("corpus.jsonl"), "--output-prefix", path("corpus"),
                                    "--tokenizer-model", path("bpe"), "--append-eod"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete shared_; }
  static std::string path(const std::string& name) { return (shared_->path() / name).string(); }

  /// Entropy of a token of the corpus by its frequency alone, in nats.
  static double unigram_entropy() {
    const std::string bytes = core::read_file(path("corpus_text_document.bin"));
    std::map<uint16_t, double> counts;
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      uint16_t token = 0;
      std::memcpy(&token, bytes.data() + i, 2);
      ++counts[token];
    }
    const double total = static_cast<double>(bytes.size()) / 2;
    double entropy = 0;
    for (const auto& [token, count] : counts) entropy -= count / total * std::log(count / total);
    return entropy;
  }

  ProgramResult train_on(int ranks, const std::string& name, const std::vector<std::string>& more) const {
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
                                     "4",
                                     "--hidden-dropout",
                                     "0",
                                     "--attention-dropout",
                                     "0",
                                     "--lr",
                                     "1e-2",
                                     "--lr-decay-style",
                                     "cosine",
                                     "--lr-warmup-iters",
                                     "2",
                                     "--weight-decay",
                                     "0.01",
                                     "--threads",
                                     "1",
                                     "--device",
                                     "cpu",
                                     "--log-interval",
                                     "2",
                                     "--logs",
                                     logs_.path().string(),
                                     "--name",
                                     name};
    args.insert(args.end(), more.begin(), more.end());
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }
  static std::vector<std::string> on_corpus(std::vector<std::string> more) {
    more.insert(more.end(), {"--data-path", path("corpus_text_document"), "--tokenizer-model", path("bpe"),
                             "--vocab-size", "300", "--make-vocab-size-divisible-by", "4"});
    return more;
  }
  static std::vector<std::string> on_mock(std::vector<std::string> more) {
    more.insert(more.end(), {"--mock-data", "--vocab-size", "96", "--make-vocab-size-divisible-by", "4"});
    return more;
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const auto& step : record::read_steps(logs_.path() / name).steps) values.push_back(step.loss);
    return values;
  }

  /// Lines of one of the record's files.
  std::vector<core::Json> lines_of(const std::string& name, const char* file) const {
    return record::read_json_lines(logs_.path() / name / file).lines;
  }

  /// Largest values of the newest checkpoints' parameters, put together from all ranks, differ by 1e-4 at most.
  void expect_equal_parameters(const std::string& name, const std::string& want) const {
    const auto whole = [&](const std::string& run) {
      const std::string file = (logs_.path() / (run + ".safetensors")).string();
      if (!fs::exists(file)) {
        const auto done = run_lockstep({"ckpt", "export", (logs_.path() / run).string(), file, "--names", "megatron"});
        EXPECT_EQ(done.exit_code, 0) << done.err;
      }
      return core::SafetensorsFile(file);
    };
    const core::SafetensorsFile got = whole(name), reference = whole(want);
    ASSERT_GT(got.entries().size(), 20u);
    ASSERT_EQ(got.entries().size(), reference.entries().size());
    for (const core::SafetensorsEntry& entry : got.entries()) {
      const auto a = floats_of(entry), b = floats_of(reference.at(entry.name));
      ASSERT_EQ(a.size(), b.size()) << entry.name;
      float largest = 0, difference = 0;
      for (size_t i = 0; i < a.size(); ++i)
        largest = std::max(largest, std::abs(b[i])), difference = std::max(difference, std::abs(a[i] - b[i]));
      EXPECT_LE(difference, 1e-4f * largest) << name << " " << entry.name;
    }
  }
  static std::vector<float> floats_of(const core::SafetensorsEntry& entry) {
    EXPECT_EQ(entry.dtype, "F32");
    std::vector<float> values(entry.bytes.size() / sizeof(float));
    std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
    return values;
  }

  core::TempDir logs_{"lockstep_gpt_logs"};
  inline static core::TempDir* shared_ = nullptr;
};

TEST_F(TrainGpt, LearnsALanguageOnOneRankAndOnTensorAndPipelineRanks) {
  const std::vector<std::string> length = {"--train-iters",   "80", "--global-batch-size", "16",
                                           "--eval-interval", "80", "--eval-iters",        "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), length.begin(), length.end());
    return on_corpus(more);
  };
  const auto alone = train_on(1, "alone", with({}));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const auto tensor = train_on(2, "tensor", with({"--tensor-model-parallel-size", "2", "--sequence-parallel"}));
  ASSERT_EQ(tensor.exit_code, 0) << tensor.err;
  const auto pipeline = train_on(2, "pipeline", with({"--pipeline-model-parallel-size", "2"}));
  ASSERT_EQ(pipeline.exit_code, 0) << pipeline.err;
  const double entropy = unigram_entropy();
  const auto want = losses("alone");
  ASSERT_EQ(want.size(), 80u);
  EXPECT_NEAR(want.front(), std::log(300.0), 0.3);
  EXPECT_LT(want.back(), entropy - 1);
  for (const char* name : {"tensor", "pipeline"}) {
    const auto got = losses(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 2e-3 * want[i]) << name << " step " << i;  // fp32, sums in another order
  }
  const size_t last_line = alone.err.find("iteration       80/      80 |");
  ASSERT_NE(last_line, std::string::npos) << alone.err;
  const size_t printed = alone.err.find("| lm loss: ", last_line);
  ASSERT_NE(printed, std::string::npos) << alone.err;
  EXPECT_NEAR(std::stod(alone.err.substr(printed + 11, 12)), (want[78] + want[79]) / 2, 2e-6) << "of --log-interval 2";
  EXPECT_NE(alone.err.find("tokens per second per device:"), std::string::npos) << alone.err;
  EXPECT_NE(alone.err.find("validation loss at iteration 80 | lm loss value:"), std::string::npos) << alone.err;
  const auto results = record::read_json_lines(logs_.path() / "pipeline" / "results.jsonl").lines;
  ASSERT_FALSE(results.empty());
  EXPECT_LT(results.back().at("metrics").at("lm loss").get<double>(), entropy - 1);
  EXPECT_EQ(record::read_run(logs_.path() / "tensor").attempts.back().at("setup").at("layout"), "dp=1 tp=2 pp=1");
  // Counters of the machine belong to the steps that ran between two readings, though times of steps are read later.
  int64_t begin = 0;
  const auto intervals = lines_of("tensor", "system.jsonl");
  for (const core::Json& line : intervals) {
    EXPECT_EQ(line.at("step").get<int64_t>() + 1 - line.at("num_steps").get<int64_t>(), begin);
    begin = line.at("step").get<int64_t>() + 1;
  }
  EXPECT_EQ(begin, 80);
  ASSERT_GT(intervals.size(), 30u);
  EXPECT_EQ(intervals.back().at("num_steps"), 2) << "no interval of two steps is told to hold those before it";
}

TEST_F(TrainGpt, ProcessesOfEveryModeComputeWhatOneComputes) {
  const std::vector<std::string> two_stages = {"--pipeline-model-parallel-size", "2"};
  const auto with = [](std::vector<std::string> more, std::initializer_list<const char*> rest) {
    more.insert(more.end(), {"--train-iters", "3", "--global-batch-size", "16", "--num-layers", "4", "--hidden-dropout",
                             "0.1", "--lr-warmup-iters", "0", "--adam-eps", "1e-3"});
    more.insert(more.end(), rest.begin(), rest.end());
    return on_mock(more);
  };
  ASSERT_EQ(train_on(1, "tied", with({}, {})).exit_code, 0);
  ASSERT_EQ(train_on(1, "untied", with({}, {"--untie-embeddings-and-output-weights"})).exit_code, 0);
  for (const auto& [ranks, name, want, args] :
       {std::tuple(2, "gpipe", "tied", with(two_stages, {"--pipeline-schedule", "gpipe"})),
        std::tuple(
            2, "interleaved", "untied",
            with(two_stages, {"--num-virtual-stages-per-pipeline-rank", "2", "--untie-embeddings-and-output-weights"})),
        std::tuple(8, "all", "tied",
                   with(two_stages, {"--tensor-model-parallel-size", "2", "--sequence-parallel",
                                     "--use-distributed-optimizer"}))}) {
    const auto done = train_on(ranks, name, args);
    ASSERT_EQ(done.exit_code, 0) << name << done.err;
    const auto alone = losses(want), got = losses(name);
    ASSERT_EQ(alone.size(), 3u);
    ASSERT_EQ(got.size(), 3u) << name;
    const auto steps = record::read_steps(logs_.path() / name).steps,
               steps_alone = record::read_steps(logs_.path() / want).steps;
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(got[i], alone[i], 1e-5 * alone[i]) << name << " step " << i;
      EXPECT_NEAR(steps[i].grad_norm.value(), steps_alone[i].grad_norm.value(), 1e-4 * steps_alone[i].grad_norm.value())
          << name << " step " << i;
      EXPECT_GT(steps[i].lr, 0);
    }
    expect_equal_parameters(name, want);
  }
  std::map<std::string, std::set<int>> group_sizes;
  for (const core::Json& line : lines_of("all", "comm.jsonl"))
    group_sizes[line.at("axis")].insert(line.at("group_size").get<int>());
  for (const char* axis : {"tp", "dp", "pp"}) EXPECT_EQ(group_sizes[axis], std::set<int>{2}) << axis;
  EXPECT_EQ(group_sizes["world"], std::set<int>{8});
}

TEST_F(TrainGpt, StopsAndResumesBitForBit) {
  for (const auto& [ranks, name, layout] :
       {std::tuple(1, "one", std::vector<std::string>{}),
        std::tuple(2, "tensor", std::vector<std::string>{"--tensor-model-parallel-size", "2"}),
        std::tuple(2, "pipeline", std::vector<std::string>{"--pipeline-model-parallel-size", "2"}),
        std::tuple(2, "fp8",
                   std::vector<std::string>{"--tensor-model-parallel-size", "2", "--bf16", "--fp8-format", "hybrid",
                                            "--fp8-amax-history-len", "3", "--fp8-amax-compute-algo", "max"})}) {
    const auto run = [&, ranks = ranks, layout = layout](const std::string& folder, std::vector<std::string> more,
                                                         const std::string& last_words) {
      more.insert(more.end(), layout.begin(), layout.end());
      more.insert(more.end(), {"--train-iters", "6", "--global-batch-size", "8", "--hidden-dropout", "0.1"});
      const auto done = train_on(ranks, folder, on_mock(more));
      ASSERT_EQ(done.exit_code, 0) << done.err;
      EXPECT_NE(done.err.find(last_words), std::string::npos) << done.err;
    };
    const std::string whole = std::string("whole-") + name, parts = std::string("parts-") + name;
    run(whole, {"--exit-interval", "6"}, "finished after 6 steps");
    run(parts, {"--exit-interval", "4"},
        "stopped by --exit-interval 4 after 4 steps of 6: the checkpoint of step 4 is saved; the same command with "
        "--resume latest continues the run");
    ASSERT_EQ(losses(parts).size(), 4u);
    run(parts, {"--resume", "latest", "--exit-interval", "4"}, "finished after 6 steps");
    ASSERT_EQ(losses(whole).size(), 6u);
    EXPECT_NE(losses(whole).front(), losses(whole).back());
    EXPECT_EQ(losses(whole), losses(parts)) << name;
    const auto a = checkpoint::list_checkpoints(logs_.path() / whole).at(0),
               b = checkpoint::list_checkpoints(logs_.path() / parts).at(0);
    ASSERT_EQ(a.step, 6);
    ASSERT_EQ(b.step, 6);
    ASSERT_EQ(a.manifest->files.size(), static_cast<size_t>(2 * ranks)) << name;
    for (size_t i = 0; i < a.manifest->files.size(); ++i)
      EXPECT_EQ(a.manifest->files[i].xxh3, b.manifest->files.at(i).xxh3) << name << " " << a.manifest->files[i].name;
  }
}

/// The time is up before the first step ends: one rank ends behind it, several two steps later, all in the same one.
TEST_F(TrainGpt, EndsWhenItsTimeIsUpAndGoesOn) {
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--train-iters", "6", "--eval-interval", "6", "--eval-iters", "1"});
    if (ranks > 1) more.insert(more.end(), {"--pipeline-model-parallel-size", "2"});
    return train_on(ranks, name, on_mock(more));
  };
  for (const int ranks : {1, 2}) {
    const std::string name = fmt::format("hurried{}", ranks);
    const size_t num_steps = ranks == 1 ? 1 : 3;
    const auto hurried = run(ranks, name, {"--exit-duration-in-mins", "0.0001"});
    ASSERT_EQ(hurried.exit_code, 0) << hurried.err;
    const std::string stopped = fmt::format(
        "stopped by --exit-duration-in-mins after {} of 6: the checkpoint of step {} is saved; the same "
        "command with --resume latest continues the run",
        num_steps == 1 ? "1 step" : "3 steps", num_steps);
    EXPECT_NE(hurried.err.find(stopped), std::string::npos) << hurried.err;
    EXPECT_EQ(hurried.err.find("validation loss"), std::string::npos) << hurried.err;
    EXPECT_EQ(losses(name).size(), num_steps);
    EXPECT_EQ(checkpoint::list_checkpoints(logs_.path() / name).at(0).step, static_cast<int64_t>(num_steps));
    EXPECT_EQ(record::read_status(logs_.path() / name).state, "finished");
    const auto rest = run(ranks, name, {"--exit-duration-in-mins", "10000", "--resume", "latest"});
    ASSERT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_NE(rest.err.find("finished after 6 steps"), std::string::npos) << rest.err;
    EXPECT_EQ(losses(name).size(), 6u);
  }
}

/// In Megatron's line, the record and TensorBoard's file; of the steps that are logged alone.
TEST_F(TrainGpt, LogsTheNormOfParametersAndZerosInTheGradientOnEveryMesh) {
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--train-iters", "5", "--global-batch-size", "8", "--log-params-norm",
                             "--log-num-zeros-in-grad", "--untie-embeddings-and-output-weights", "--squared-relu",
                             "--disable-bias-linear", "--report-to", "tensorboard"});
    const auto done = train_on(ranks, name, on_mock(more));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.err;
  };
  const std::string text = run(1, "alone", {});
  run(2, "tensor", {"--tensor-model-parallel-size", "2"});
  run(2, "sharded", {"--use-distributed-optimizer"});
  const auto want = record::read_steps(logs_.path() / "alone").steps;
  ASSERT_EQ(want.size(), 5u);
  for (const auto& step : want) {
    EXPECT_EQ(step.params_norm.has_value(), step.step % 2 == 1 || step.step == 4) << step.step;
    EXPECT_EQ(step.num_zeros.has_value(), step.params_norm.has_value()) << step.step;
  }
  EXPECT_NE(text.find(fmt::format("| num zeros: {:.1f} | params norm: {:.3f} |",
                                  static_cast<double>(want[4].num_zeros.value_or(0)), want[4].params_norm.value_or(0))),
            std::string::npos)
      << text;
  EXPECT_GT(want[3].num_zeros, 0);
  EXPECT_NE(want[1].params_norm, want[3].params_norm);
  for (const char* name : {"tensor", "sharded"}) {
    const auto got = record::read_steps(logs_.path() / name).steps;
    ASSERT_EQ(got.size(), 5u) << name;
    EXPECT_EQ(got[3].num_zeros, want[3].num_zeros) << name;
    EXPECT_NEAR(got[3].params_norm.value_or(0), *want[3].params_norm, 1e-5 * *want[3].params_norm) << name;
  }
  std::string events;
  for (const auto& entry : fs::directory_iterator(logs_.path() / "alone" / "tensorboard"))
    events += core::read_file(entry.path());
  for (const char* tag : {"params-norm", "num-zeros"}) EXPECT_NE(events.find(tag), std::string::npos) << tag;
}

/// Ends of documents, which do not count, are spread unevenly over micro-batches.
TEST_F(TrainGpt, TheLossPerTokenDoesNotDependOnMicroBatches) {
  const auto run = [&](int ranks, const std::string& name, const std::string& micro_batch_size) {
    const auto done = train_on(
        ranks, name,
        on_corpus({"--eod-mask-loss", "--calculate-per-token-loss", "--train-iters", "4", "--global-batch-size", "16",
                   "--micro-batch-size", micro_batch_size, "--eval-interval", "4", "--eval-iters", "2"}));
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  const auto validation = [&](const std::string& name) {
    return record::read_json_lines(logs_.path() / name / "results.jsonl")
        .lines.at(0)
        .at("metrics")
        .at("lm loss")
        .get<double>();
  };
  run(1, "coarse", "16");
  run(2, "fine", "2");
  const auto want = losses("coarse"), got = losses("fine");
  ASSERT_EQ(want.size(), 4u);
  ASSERT_EQ(got.size(), 4u);
  EXPECT_LT(want.back(), want.front() - 0.1);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]) << "step " << i;
  EXPECT_NEAR(validation("fine"), validation("coarse"), 1e-4 * validation("coarse"));
}

TEST_F(TrainGpt, LearnsInFp8AsInFp32) {
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--train-iters", "40", "--global-batch-size", "16", "--num-layers", "3"});
    const auto done = train_on(ranks, name, on_corpus(more));
    ASSERT_EQ(done.exit_code, 0) << name << done.err;
  };
  const auto end_of = [&](const std::string& name) {  // mean of the last five steps
    const auto all = losses(name);
    return all.size() == 40 ? std::accumulate(all.end() - 5, all.end(), 0.0) / 5 : NAN;
  };
  run(1, "fp32", {});
  run(1, "hybrid",
      {"--bf16", "--fp8-format", "hybrid", "--fp8-amax-history-len", "16", "--fp8-amax-compute-algo", "max"});
  run(2, "tensorwise",
      {"--bf16", "--fp8-format", "e4m3", "--fp8-recipe", "tensorwise", "--tensor-model-parallel-size", "2",
       "--sequence-parallel"});
  run(1, "spared", {"--bf16", "--fp8-format", "hybrid", "--first-last-layers-bf16"});
  const double want = end_of("fp32");
  ASSERT_LT(want, losses("fp32").front() - 2);
  std::set<double> different = {want};
  for (const char* name : {"hybrid", "tensorwise", "spared"}) {
    EXPECT_LT(end_of(name), 1.05 * want) << name;
    EXPECT_GT(end_of(name), 0.9 * want) << name << " may be better by luck: its rounding differs between processors";
    different.insert(end_of(name));
  }
  EXPECT_EQ(different.size(), 4u) << "a flag does nothing";
}

/// Scales belong to layers, not to ranks.
TEST_F(TrainGpt, Fp8GoesOnAtAnotherLayout) {
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--bf16", "--fp8-format", "hybrid", "--fp8-amax-history-len", "3", "--train-iters", "6",
                             "--global-batch-size", "8"});
    const auto done = train_on(2, name, on_mock(more));
    ASSERT_EQ(done.exit_code, 0) << name << done.err;
  };
  const std::vector<std::string> tensor = {"--tensor-model-parallel-size", "2"};
  run("whole", tensor);
  run("moved", {"--tensor-model-parallel-size", "2", "--exit-interval", "3"});
  run("moved", {"--pipeline-model-parallel-size", "2", "--resume", "latest"});
  const auto want = losses("whole"), got = losses("moved");
  ASSERT_EQ(got.size(), 6u);
  EXPECT_NE(want[2], want[5]);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-2 * want[i]) << "step " << i;  // bf16, sums in another order

  const std::string moved = (logs_.path() / "moved").string();  // and without FP8, and back
  const auto plain =
      train_on(1, "plain", on_mock({"--bf16", "--train-iters", "8", "--global-batch-size", "8", "--load", moved}));
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(losses("plain").size(), 2u);
  const auto again = train_on(1, "again",
                              on_mock({"--bf16", "--fp8-format", "hybrid", "--train-iters", "9", "--global-batch-size",
                                       "8", "--load", (logs_.path() / "plain").string()}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const auto spoken =
      run_lockstep({"infer", "generate", "--pretrained", moved, "--prompt", "1 2 3", "--max-new-tokens", "4"});
  EXPECT_EQ(spoken.exit_code, 0) << spoken.err;
}

/// One checkpoint, taken up at every layout: the same curve. Vocabulary tables have other padding at other numbers of
/// tensor ranks.
TEST_F(TrainGpt, GoesOnAtAnotherLayout) {
  const std::vector<std::string> common = {"--mock-data",
                                           "--vocab-size",
                                           "89",
                                           "--make-vocab-size-divisible-by",
                                           "8",
                                           "--num-layers",
                                           "4",
                                           "--train-iters",
                                           "6",
                                           "--global-batch-size",
                                           "16",
                                           "--micro-batch-size",
                                           "4"};
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    const auto done = train_on(ranks, name, more);
    ASSERT_EQ(done.exit_code, 0) << name << done.err;
  };
  struct Layout {
    int ranks;
    std::vector<std::string> flags;
  };
  const std::vector<Layout> layouts = {
      {1, {}},
      {2, {"--tensor-model-parallel-size", "2", "--sequence-parallel"}},
      {2, {"--pipeline-model-parallel-size", "2", "--num-virtual-stages-per-pipeline-rank", "2"}},
      {2, {"--use-distributed-optimizer"}},
      {4, {"--tensor-model-parallel-size", "2", "--use-distributed-optimizer"}},
      {4, {"--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2"}}};
  run(1, "whole", {});
  const auto want = losses("whole");
  ASSERT_EQ(want.size(), 6u);
  ASSERT_LT(want[5], want[2] - 0.01) << "nothing is learnt after the checkpoint";
  for (size_t writer = 0; writer < layouts.size(); ++writer) {
    const std::string first = fmt::format("from{}", writer);
    auto flags = layouts[writer].flags;
    flags.insert(flags.end(), {"--exit-interval", "3"});
    run(layouts[writer].ranks, first, flags);
    const size_t reader = (writer + layouts.size() - 1) % layouts.size();  // each layout writes once and reads once
    const std::string second = fmt::format("to{}", reader);
    fs::copy(logs_.path() / first, logs_.path() / second, fs::copy_options::recursive);
    flags = layouts[reader].flags;
    flags.insert(flags.end(), {"--resume", "latest"});
    run(layouts[reader].ranks, second, flags);
    const auto got = losses(second);
    ASSERT_EQ(got.size(), 6u) << second;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]) << first << " " << second << " step " << i;
  }
}

/// As the EPICURE language study starts its runs: from a snapshot of a smaller one, with another number of data ranks
/// and another global batch.
TEST_F(TrainGpt, StartsFromASnapshotOfAnotherRun) {
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    return train_on(ranks, name, on_mock(std::move(more)));
  };
  const std::string snapshot = (logs_.path() / "snapshot").string();
  ASSERT_EQ(run(1, "whole", {"--global-batch-size", "8", "--train-iters", "6"}).exit_code, 0);
  ASSERT_EQ(run(1, "snapshot", {"--global-batch-size", "8", "--train-iters", "6", "--exit-interval", "3"}).exit_code,
            0);
  ASSERT_EQ(run(1, "same", {"--global-batch-size", "8", "--train-iters", "6", "--load", snapshot}).exit_code, 0);
  auto last = losses("whole");
  last.erase(last.begin(), last.begin() + 3);
  EXPECT_EQ(losses("same"), last);

  const auto larger = run(2, "larger",
                          {"--global-batch-size", "16", "--train-iters", "6", "--use-distributed-optimizer", "--load",
                           snapshot, "--ckpt-step", "3"});
  ASSERT_EQ(larger.exit_code, 0) << larger.err;
  EXPECT_NE(larger.err.find("after step 3 and 24 samples"), std::string::npos) << larger.err;
  const auto steps = record::read_steps(logs_.path() / "larger").steps;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps.front().step, 3);
  EXPECT_EQ(steps.front().samples_seen, 40);
  EXPECT_NEAR(steps.front().loss, last.front(), 0.05 * last.front());

  const auto tuned = run(2, "tuned",
                         {"--global-batch-size", "8", "--train-iters", "2", "--load", snapshot, "--finetune",
                          "--tensor-model-parallel-size", "2"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_LT(losses("tuned").front(), losses("whole").front() - 0.05);  // the first samples, seen before

  EXPECT_EQ(run(1, "absent", {"--train-iters", "2", "--load", snapshot, "--ckpt-step", "4"}).exit_code, 5);
  const auto other = run(1, "other", {"--train-iters", "9", "--load", snapshot, "--num-layers", "3"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("this run has layers=3"), std::string::npos) << other.err;
  const auto alike =
      run(1, "alike",
          {"--train-iters", "9", "--load", snapshot, "--num-attention-heads", "8"});  // parameters of the same shapes
  EXPECT_EQ(alike.exit_code, 2);
  EXPECT_NE(alike.err.find("written with heads=4, this run has heads=8"), std::string::npos) << alike.err;
}

/// The longer run repeats a small corpus in another order.
TEST_F(TrainGpt, ASnapshotOnASmallCorpusStartsALongerRun) {
  ASSERT_EQ(train_on(1, "short", on_corpus({"--global-batch-size", "8", "--train-iters", "4"})).exit_code, 0);
  const auto longer = train_on(2, "longer",
                               on_corpus({"--global-batch-size", "16", "--train-iters", "4000", "--exit-interval", "6",
                                          "--load", (logs_.path() / "short").string()}));
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_NE(longer.err.find("puts them into another order"), std::string::npos) << longer.err;
  EXPECT_EQ(losses("longer").size(), 2u);
  const auto elsewhere = train_on(1, "elsewhere",
                                  on_mock({"--train-iters", "9", "--global-batch-size", "8", "--load",
                                           (logs_.path() / "short").string(), "--vocab-size", "300"}));
  EXPECT_EQ(elsewhere.exit_code, 4);
  EXPECT_NE(elsewhere.err.find("the samples are other ones"), std::string::npos) << elsewhere.err;
}

/// The way of scripts for Megatron-LM.
TEST_F(TrainGpt, SaveAndLoadOfOneFolderBeginAndGoOn) {
  const std::string folder = (logs_.path() / "deep" / "checkpoints-of-mine").string();
  const auto run = [&](const std::string& iters, const std::vector<std::string>& more = {}) {
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
                                     "--mock-data",
                                     "--vocab-size",
                                     "96",
                                     "--lr",
                                     "1e-2",
                                     "--lr-decay-style",
                                     "constant",
                                     "--train-iters",
                                     iters,
                                     "--save",
                                     folder,
                                     "--load",
                                     folder,
                                     "--device",
                                     "cpu",
                                     "--threads",
                                     "1"};
    args.insert(args.end(), more.begin(), more.end());
    return run_lockstep(args);
  };
  const auto missing = run("2", {"--exit-on-missing-checkpoint"});
  EXPECT_EQ(missing.exit_code, 5) << missing.err;
  EXPECT_NE(missing.err.find("checkpoints-of-mine/checkpoints' holds no checkpoint"), std::string::npos) << missing.err;
  EXPECT_FALSE(fs::exists(fs::path(folder) / "run.json"));
  const auto first = run("2"), second = run("5", {"--exit-on-missing-checkpoint"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("continuing after step 2"), std::string::npos) << second.err;
  EXPECT_EQ(record::read_steps(folder).steps.size(), 5u);
  // The folder of a run of Megatron-LM itself: nothing begins there as if it were empty.
  fs::remove_all(folder);
  fs::create_directories(fs::path(folder) / "iter_0005000" / "mp_rank_00");
  core::write_file_atomic(fs::path(folder) / "latest_checkpointed_iteration.txt", "5000\n");
  const auto foreign = run("5");
  EXPECT_EQ(foreign.exit_code, 2) << foreign.err;
  EXPECT_NE(foreign.err.find("holds a checkpoint of Megatron-LM ('latest_checkpointed_iteration.txt')"),
            std::string::npos)
      << foreign.err;
  EXPECT_FALSE(fs::exists(fs::path(folder) / "run.json"));
}

/// Every file of the last start is cut off at 16 KiB, as by a full disk: its checkpoint alone is larger.
TEST_F(TrainGpt, ARunOfSaveIsToldToGoOnWithLoad) {
  const std::string folder = (logs_.path() / "saved").string();
  const auto start = [&](const std::string& limit, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"/bin/bash", "-c", "trap '' XFSZ; ulimit -f \"$LIMIT\"; exec \"$0\" \"$@\"",
                                     lockstep_program()};
    for (const char* word : {"train",
                             "gpt",
                             "--num-layers",
                             "1",
                             "--hidden-size",
                             "16",
                             "--num-attention-heads",
                             "2",
                             "--seq-length",
                             "16",
                             "--mock-data",
                             "--vocab-size",
                             "96",
                             "--lr",
                             "1e-2",
                             "--train-iters",
                             "6",
                             "--exit-interval",
                             "2",
                             "--device",
                             "cpu",
                             "--threads",
                             "1",
                             "--save"})
      args.emplace_back(word);
    args.push_back(folder);
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args, {{"LIMIT", limit}});
  };
  const std::string flags = fmt::format("--load '{}'", folder);
  const auto first = start("unlimited", {});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("the same command with " + flags + " continues the run"), std::string::npos) << first.err;
  const auto again = start("unlimited", {});
  EXPECT_EQ(again.exit_code, 2) << again.err;
  EXPECT_NE(again.err.find("continue it with " + flags + ", or choose another --save"), std::string::npos) << again.err;
  const auto full = start("16", {"--load", folder});
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_NE(full.err.find("make room, and the same command with " + flags + " continues the run"), std::string::npos)
      << full.err;
}

/// Where neither --model nor --vocab-size says how many tokens there are.
TEST_F(TrainGpt, TheVocabularyIsTheTokenizers) {
  const auto dry_run = [&](const std::string& tokenizer) {
    const auto done =
        run_lockstep({"train", "gpt", "--dry-run", "--json", "--num-layers", "1", "--hidden-size", "16",
                      "--num-attention-heads", "2", "--seq-length", "16", "--tokenizer-model", tokenizer});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return core::parse_json(done.out, "dry run");
  };
  const auto planned = dry_run(path("bpe")), elsewhere = dry_run("/nonexistent/tokenizer.json");
  EXPECT_EQ(planned.at("options").at("vocab_size"), 300);
  EXPECT_EQ(planned.at("padded_vocab"), 384);
  EXPECT_EQ(elsewhere.at("padded_vocab"), 50304);
  EXPECT_NE(elsewhere.at("warnings").dump().find("'/nonexistent/tokenizer.json' is not here"), std::string::npos)
      << elsewhere.at("warnings");

  const auto unloaded = run_lockstep({"train", "gpt", "--dry-run", "--model", "gpt2", "--mock-data", "--train-iters",
                                      "4", "--load", "/nonexistent/run"});
  EXPECT_EQ(unloaded.exit_code, 2) << unloaded.err;
  EXPECT_NE(unloaded.out.find("--load '/nonexistent/run' is not here"), std::string::npos) << unloaded.out;

  const std::vector<std::string> data = {
      "--data-path", path("corpus_text_document"), "--tokenizer-model", path("bpe"), "--train-iters", "4"};
  const auto run = [&](const std::vector<std::string>& more) {
    auto flags = data;
    flags.insert(flags.end(), more.begin(), more.end());
    return train_on(1, "speaks", flags);
  };
  const auto refused = run({"--vocab-size", "200"}), refused_plan = run({"--vocab-size", "200", "--dry-run"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused_plan.exit_code, 2) << "what a run refuses no dry run takes";
  EXPECT_NE(refused.err.find("the tokenizer has 300 tokens, the model 200"), std::string::npos) << refused.err;
  fs::remove_all(logs_.path() / "speaks");
  const auto first = run({"--exit-interval", "2"}), rest = run({"--resume", "latest"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("vocabulary: 300 tokens in 384 rows"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("data, train: 581 documents, "), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("of 32 tokens a pass; the run takes 16: "), std::string::npos) << first.err;
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(losses("speaks").size(), 4u);
  EXPECT_EQ(record::read_run(logs_.path() / "speaks").attempts.at(0).at("options").at("vocab_size"), 300);
  const auto text =
      run_lockstep({"infer", "generate", "--device", "cpu", "--threads", "1", "--pretrained",
                    (logs_.path() / "speaks").string(), "--prompt", "the small cat", "--max-new-tokens", "4"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
}

TEST_F(TrainGpt, RefusesWhatItCannotLayOutOrHasNoEngineFor) {
  const auto expect_refused = [&](int ranks, const std::vector<std::string>& flags, const std::string& text) {
    std::vector<std::string> more = {"--train-iters", "2"};
    more.insert(more.end(), flags.begin(), flags.end());
    const auto done = train_on(ranks, "refused", on_mock(more));
    EXPECT_EQ(done.exit_code, 2) << text << done.err;
    EXPECT_NE(done.err.find(text), std::string::npos) << done.err;
  };
  expect_refused(1, {"--tensor-model-parallel-size", "2"}, "one copy of the model takes 2 ranks");
  expect_refused(2, {"--pipeline-model-parallel-size", "2", "--num-layers", "3"},
                 "do not divide among 2 pipeline stages");
  expect_refused(1, {"--global-batch-size", "6"}, "--global-batch-size");
  const auto nowhere =
      train_on(1, "nowhere", {"--train-iters", "2", "--vocab-size", "300", "--data-path", "/nonexistent/corpus"});
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere.err;
  EXPECT_NE(nowhere.err.find("/nonexistent/corpus"), std::string::npos) << nowhere.err;
}

TEST_F(TrainGpt, AnEvaluationShowsItsProgressOnATerminal) {
  const std::string command =
      lockstep_program() +
      " train gpt --mock-data --vocab-size 1000 --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length "
      "16 "
      "--max-position-embeddings 16 --global-batch-size 2 --lr 1e-3 --train-iters 1 --eval-interval 1 --eval-iters 3 "
      "--device cpu --threads 1 --name terminal --logs " +
      path("terminal");
  const auto seen = run_program({"/usr/bin/script", "--quiet", "--return", "--command", command, "/dev/null"});
  EXPECT_EQ(seen.exit_code, 0) << seen.out;
  EXPECT_NE(seen.out.find("h16 a1: 20.0 k parameters, fp32 on"), std::string::npos) << "no 0.0 M: " << seen.out;
  for (const char* text : {"evaluation: 1 of 3 iterations", "evaluation: 3 of 3 iterations"})
    EXPECT_NE(seen.out.find(text), std::string::npos) << text << " in: " << seen.out;
  EXPECT_EQ(core::read_file(path("terminal/terminal/out.log")).find("evaluation: 3"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tests
