// `lockstep bench` over real ranks, at sizes that take no time.
#include <gtest/gtest.h>

#include <map>

#include "commands/engine_test.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "stats/statistics.h"

namespace lockstep::tests {
namespace {

using namespace std::chrono_literals;

const EnvChanges kNoJob = {{"RANK", {}},         {"WORLD_SIZE", {}},   {"LOCAL_RANK", {}},
                           {"MASTER_ADDR", {}},  {"MASTER_PORT", {}},  {"SLURM_STEP_ID", {}},
                           {"SLURM_JOB_ID", {}}, {"SLURM_NTASKS", {}}, {"OMP_NUM_THREADS", {}}};

ProgramResult launch_bench(int num_ranks, std::vector<std::string> args) {
  std::vector<std::string> words = {"launch", "--nproc-per-node", std::to_string(num_ranks), "--", "bench"};
  words.insert(words.end(), args.begin(), args.end());
  return run_lockstep(words, kNoJob, 300s);
}

ProgramResult bench(std::vector<std::string> args) {
  args.insert(args.begin(), "bench");
  return run_lockstep(args, kNoJob, 300s);
}

class Bench : public EngineTest {};
class BenchCollective : public EngineTest, public ::testing::WithParamInterface<int> {};

TEST_P(BenchCollective, EveryCollectiveOverGlooIsRightAndTimed) {
  const int n = GetParam();
  const auto result = launch_bench(n, {"collective", "--collectives", "all", "-b", "48", "-e", "3072", "-f", "8", "-n",
                                       "3", "-w", "1", "--device", "cpu", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = core::parse_json(result.out, "output");
  EXPECT_EQ(json.at("case"), "collective");
  EXPECT_EQ(json.at("command").get<std::string>().find("lockstep bench collective --collectives all -b 48"), 0u);
  EXPECT_FALSE(json.at("versions").at("libtorch").get<std::string>().empty());
  EXPECT_EQ(json.at("machine").at("ranks").size(), static_cast<size_t>(n));
  EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
  ASSERT_EQ(json.at("rows").size(), 6u * 3u);
  for (const auto& row : json.at("rows")) {
    const bool is_out_of_place = row.contains("time_us");
    EXPECT_TRUE(is_out_of_place || row.contains("in_place_time_us"));
    EXPECT_EQ(row.at(is_out_of_place ? "wrong" : "in_place_wrong"), 0);
    EXPECT_EQ(row.at(is_out_of_place ? "samples_us" : "in_place_samples_us").size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BenchCollective, ::testing::Values(2, 3));

TEST_F(Bench, TableAndCsvOfOneCollective) {
  const auto table = launch_bench(2, {"collective", "-b", "8", "-e", "64", "-n", "2", "--device", "cpu"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("#wrong"), std::string::npos);
  EXPECT_NE(table.out.find("# Wrong values          : 0 OK"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("# Avg bus bandwidth     :"), std::string::npos);
  size_t num_rows = 0;
  for (const auto& line : core::split(table.out, "\n")) num_rows += !line.empty() && line[0] != '#';
  EXPECT_EQ(num_rows, 4u) << table.out;  // 8, 16, 32, 64
  const auto csv =
      launch_bench(2, {"collective", "-b", "8", "-e", "64", "--mode", "verify", "--device", "cpu", "--csv"});
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_EQ(core::split(csv.out, "\n").size(), 1u + 4u + 1u) << csv.out;
  EXPECT_EQ(csv.out.find("part,bytes,count,type,redop,root,time_us"), 0u);
}

std::string demo_model() { return std::string(LOCKSTEP_SOURCE_DIR) + "/examples/demo/model.json"; }

/// The document that `bench` writes to a file beside its table.
core::Json document_of(std::vector<std::string> args, const std::string& name, std::string* table = nullptr) {
  const core::TempDir folder;
  const std::string path = (folder.path() / (name + ".json")).string();
  args.insert(args.end(), {"--threads", "1", "--out", path});  // one thread: on a busy machine two wait for each other
  const auto result = bench(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const auto& line : core::split(result.out, "\n")) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(result.err.find("| INFO |"), std::string::npos) << "no log lines stand in the table: " << result.err;
  if (table != nullptr) *table = result.out;
  return core::read_json_file(path);
}

TEST_F(Bench, OperatorsAreRightAndGiveThePeakOfEachType) {
  const auto json = document_of({"op", "--min-dim", "32", "--max-dim", "64", "--array-bytes", "64K", "--batch-size",
                                 "1", "-n", "3", "-w", "1", "--device", "cpu", "--model", demo_model()},
                                "bench_op");
  EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
  EXPECT_GT(json.at("summary").at("measured_peak_tflops").at("fp32").get<double>(), 0);
  EXPECT_GT(json.at("summary").at("measured_peak_tflops").at("bf16").get<double>(), 0);
  EXPECT_GT(json.at("summary").at("measured_memory_gbytes_per_s").at("fp32").get<double>(), 0);
  std::map<std::string, int> num_rows;
  for (const auto& row : json.at("rows")) ++num_rows[row.at("part")];
  EXPECT_GE(num_rows["gemm"], 2 * (2 + 4));
  EXPECT_EQ(num_rows["copy"], 2);
  EXPECT_EQ(num_rows["triad"], 2);
  EXPECT_GE(num_rows["attention"], 2);
  EXPECT_GE(num_rows["layer-norm"], 2);
}

TEST_F(Bench, LatencyOfEveryStartAndTowerHasStagesAndTheRightResults) {
  std::string table;
  const auto json = document_of({"latency", "--model",  demo_model(),
                                 "--from",  "pixels",   "pictures",
                                 "tokens",  "--towers", "both",
                                 "image",   "text",     "--precisions",
                                 "fp32",    "bf16",     "--batch-size",
                                 "1",       "3",        "--text-length",
                                 "9",       "-n",       "3",
                                 "-w",      "1",        "--device",
                                 "cpu"},
                                "bench_latency", &table);
  EXPECT_NE(table.find("# both from pictures, bf16"), std::string::npos) << table;
  EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
  ASSERT_EQ(json.at("rows").size(), 2u * 3u * 3u * 2u);
  for (const auto& row : json.at("rows")) {
    const std::string from = row.at("from"), tower = row.at("tower");
    const auto& stages = row.at("stages_ms");
    EXPECT_EQ(row.at("samples_ms").size(), 3u);
    EXPECT_GT(row.at("first_ms").get<double>(), 0);
    EXPECT_EQ(stages.contains("image"), tower != "text") << row.dump();
    EXPECT_EQ(stages.contains("text"), tower != "image") << row.dump();
    EXPECT_EQ(stages.contains("decode"), tower != "text" && from == "pictures") << row.dump();
    EXPECT_EQ(stages.contains("transfer"), tower != "text" && from != "tokens") << row.dump();
    EXPECT_EQ(row.value("text_tokens", 0), tower == "image" ? 0 : 9);
    EXPECT_EQ(row.value("text_columns", 0), tower == "image" ? 0 : 9) << "causal attention: as many as tokens";
    EXPECT_FALSE(stages.contains("tokenise")) << "made-up token ids are no texts: " << row.dump();
    EXPECT_EQ(row.at("load_ms").is_number(), row.at("index") == 0 || row.at("index") == json.at("rows").size() / 2)
        << "only the first row of a precision loads weights: " << row.dump();
  }
}

/// Of towers that are given every column: RoBERTa's (which leaves padding out) and CoCa's.
TEST_F(Bench, LatencyTellsTokensOfTheTextsFromColumnsOfTheTower) {
  const std::string picture = R"({"embed_dim": 32, "custom_text": true,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}, "text_cfg": )";
  const std::map<std::string, std::string> texts = {
      {"coca", R"({"context_length": 24, "width": 32, "heads": 2, "layers": 1, "embed_cls": true}})"},
      {"roberta", R"({"context_length": 24, "hf_model_name": "roberta-base", "hf_proj_type": "linear",
         "hf_config": {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                       "intermediate_size": 64, "max_position_embeddings": 32}}})"}};
  const core::TempDir folder;
  const auto row_of = [&](const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> args = {"latency", "--model", model, "--towers", "text", "-n", "40", "--device", "cpu"};
    args.insert(args.end(), more.begin(), more.end());
    const auto json = document_of(args, "bench_latency_text");
    EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
    return json.at("rows").at(0);
  };
  for (const auto& [name, text] : texts) {
    const auto file = folder.path() / (name + ".json");
    core::write_file_atomic(file, picture + text);
    const auto row = row_of(file.string(), {"--text-length", "9", "--batch-size", "2"});
    EXPECT_EQ(row.at("text_tokens"), 9) << name;
    EXPECT_EQ(row.at("text_columns"), 24) << name;
    const auto& statistics = row.at("statistics_ms");
    EXPECT_EQ(row.contains("p50_low_ms"), statistics.contains("median_95"));
    if (statistics.contains("median_95")) {
      EXPECT_EQ(row.at("p50_low_ms"), statistics.at("median_95").at("low")) << "the one that allows for dependence";
      EXPECT_EQ(row.at("p50_high_ms"), statistics.at("median_95").at("high"));
    }
    EXPECT_FALSE(row.contains("p99_low_ms")) << "40 calls tell nothing about one in a hundred";
  }
  const auto lines = folder.path() / "lines.txt";
  core::write_file_atomic(lines, "dog\na red circle\n");
  const auto row = row_of(demo_model(), {"--texts", lines.string(), "--from", "pictures", "--batch-size", "2"});
  EXPECT_EQ(row.at("text_tokens"), 5) << "start, three words, end";
  EXPECT_TRUE(row.at("stages_ms").contains("tokenise"));
}

/// Of a GPT in bf16 with the same weights in fp32.
TEST_F(Bench, LatencyChecksAGptInBf16) {
  const auto json = document_of({"latency", "--model", "gpt2", "--batch-size", "1", "--text-length", "4",
                                 "--new-tokens", "3", "--precisions", "bf16", "--mode", "verify", "--device", "cpu"},
                                "bench_latency_gpt_bf16");
  EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
}

TEST_F(Bench, LatencyOfAClassifierInBf16AndWhatModelsLack) {
  const auto picture = document_of({"latency", "--model", "resnet18", "--force-image-size", "32", "--batch-size", "2",
                                    "--precisions", "bf16", "-n", "2", "-w", "0", "--device", "cpu"},
                                   "bench_latency_resnet");
  EXPECT_EQ(picture.at("summary").at("num_wrong"), 0);
  EXPECT_EQ(picture.at("rows").at(0).at("tower"), "image");
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "a.jpg", "no picture");
  const auto damaged = bench({"latency", "--model", "resnet18", "--from", "pictures", "--images",
                              folder.path().string(), "-n", "1", "--device", "cpu"});
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_NE(damaged.err.find("picture in '" + (folder.path() / "a.jpg").string() + "'"), std::string::npos)
      << damaged.err;
  EXPECT_EQ(damaged.out, "") << "no head of a table that does not come";
  const auto unread = bench({"latency", "--model", "resnet18", "--text-length", "9", "--device", "cpu"});
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_NE(unread.err.find("--text-length with --model resnet18, a classifier, which reads no texts"),
            std::string::npos)
      << unread.err;
  EXPECT_EQ(bench({"latency", "--model", demo_model(), "--new-tokens", "9", "--device", "cpu"}).exit_code, 2);
  const auto texts = bench({"latency", "--model", "resnet18", "--towers", "text", "--device", "cpu"});
  EXPECT_EQ(texts.exit_code, 2);
  EXPECT_NE(texts.err.find("--towers text is nothing that 'resnet18' has"), std::string::npos) << texts.err;
  const auto longer = bench({"latency", "--model", demo_model(), "--text-length", "33", "--device", "cpu"});
  EXPECT_EQ(longer.exit_code, 2);
  EXPECT_NE(longer.err.find("--text-length 33 is more than the 32 tokens"), std::string::npos) << longer.err;
}

/// Scores of drawn weights are in the tens, so that bf16 rounds them by more than the probability of a class.
TEST_F(Bench, LatencyChecksScoresByTheirLargest) {
  const auto many = document_of({"latency", "--model", "resnet50", "--force-image-size", "64", "--batch-size", "64",
                                 "--precisions", "bf16", "--mode", "verify", "--device", "cpu"},
                                "bench_latency_resnet50");
  EXPECT_EQ(many.at("summary").at("num_wrong"), 0);
}

TEST_F(Bench, LatencyOfAGptHasTheTimeToItsFirstTokenAndTheRateOfTheOthers) {
  std::string table;
  const auto json = document_of({"latency", "--model", "gpt2", "--batch-size", "2", "--text-length", "4",
                                 "--new-tokens", "3", "-n", "2", "-w", "0", "--device", "cpu"},
                                "bench_latency_gpt", &table);
  EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
  const auto& row = json.at("rows").at(0);
  const double first_ms = row.at("first_token_ms"), p50_ms = row.at("p50_ms"), tokens_per_s = row.at("tokens_per_s");
  EXPECT_GT(first_ms, 0);
  EXPECT_GT(p50_ms, first_ms);
  EXPECT_NEAR(tokens_per_s, 1e3 * 2 * 2 / row.at("stages_ms").at("next_tokens").get<double>(), 1e-6 * tokens_per_s);
  EXPECT_NE(table.find("first  tokens/s"), std::string::npos) << table;
}

TEST_F(Bench, StepWithTheMeasuredPeakHasAnMfu) {
  const core::TempDir folder;
  const std::string peak = (folder.path() / "peak.json").string();
  core::write_file_atomic(peak, R"({"summary": {"measured_peak_tflops": {"fp32": 0.5}}})");
  const auto json = document_of({"step", "--model", demo_model(), "--batch-size", "4", "--accum-freq", "2",
                                 "--precision", "fp32", "-n", "3", "-w", "1", "--device", "cpu", "--peak-from", peak},
                                "bench_step");
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_EQ(row.at("global_batch"), 8);
  EXPECT_EQ(row.at("samples_ms").size(), 3u);
  EXPECT_EQ(row.at("losses").size(), 2u + 1u + 3u);
  EXPECT_EQ(row.at("peak_tflops_per_device"), 0.5);
  const double tflops = row.at("tflops_per_s_per_device");
  EXPECT_NEAR(row.at("mfu_percent").get<double>(), 100 * tflops / 0.5, 1e-9);
  const std::vector<double> steps_ms = row.at("steps_between_products_ms"), rates = row.at("products_tflops");
  ASSERT_EQ(steps_ms.size(), 3u);
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_NEAR(row.at("measured_peak_tflops_per_device").get<double>(), stats::median(rates), 1e-9);
  std::vector<double> shares;
  for (size_t i = 0; i < steps_ms.size(); ++i)
    shares.push_back(100 * tflops * row.at("step_ms").get<double>() / steps_ms[i] * 2 / (rates[i] + rates[i + 1]));
  EXPECT_NEAR(row.at("mfu_measured_peak_percent").get<double>(), stats::median(shares), 1e-6);
  EXPECT_EQ(json.at("summary").at("mfu_measured_peak_percent"), row.at("mfu_measured_peak_percent"));
  EXPECT_NEAR(row.at("samples_per_s").get<double>(), 8e3 / row.at("step_ms").get<double>(), 1e-6);
  EXPECT_NEAR(tflops * 1e12,
              row.at("samples_per_s").get<double>() * 3 * row.at("forward_flops_per_sample").get<double>(),
              1e-3 * tflops * 1e12);
  EXPECT_GT(row.at("peak_memory_bytes").get<double>(), 1e7);
  const auto missing =
      bench({"step", "--model", demo_model(), "--precision", "amp_bf16", "--device", "cpu", "--peak-from", peak});
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_NE(missing.err.find("/summary/measured_peak_tflops/bf16"), std::string::npos) << missing.err;
}

/// What `lockstep train ... --dry-run` says of the same step.
core::Json planned_step(std::vector<std::string> args) {
  args.insert(args.begin(), "train");
  args.insert(args.end(), {"--device", "cpu", "--dry-run", "--json"});
  const auto result = run_lockstep(args, kNoJob, 60s);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return core::parse_json(result.out, "output");
}

/// A GPT of 64 tokens of vocabulary, as Hugging Face writes its configuration.
std::string tiny_gpt(const core::TempDir& folder) {
  const auto path = folder.path() / "config.json";
  core::write_file_atomic(path, R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16,
                                    "vocab_size": 64, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})");
  return path.string();
}

TEST_F(Bench, StepsOfAGptAreThoseThatTrainGptPlans) {
  const core::TempDir folder;
  const std::string model = tiny_gpt(folder);
  std::string table;
  const auto json = document_of({"step", "--model", model, "--seq-length", "12", "--batch-size", "3", "--accum-freq",
                                 "2", "-n", "3", "-w", "1", "--device", "cpu"},
                                "bench_gpt", &table);
  const auto plan = planned_step({"gpt", "--model", model, "--seq-length", "12", "--micro-batch-size", "3",
                                  "--global-batch-size", "6", "--mock-data", "--train-iters", "1", "--lr", "1e-4"});
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_EQ(row.at("precision"), "fp32") << "that of train gpt";
  EXPECT_EQ(row.at("global_batch"), 6);
  EXPECT_EQ(row.at("planned_memory_bytes"), plan.at("memory_bytes"));
  EXPECT_NEAR(3 * 6 * row.at("forward_flops_per_sample").get<double>(), plan.at("flops_per_step").get<double>(), 1);
  const std::vector<double> losses = row.at("losses");
  ASSERT_EQ(losses.size(), 2u + 1u + 3u);
  EXPECT_NEAR(losses.front(), std::log(64.0), 0.3);
  EXPECT_LT(losses.back(), losses.front()) << "the same two micro-batches in each step";
  EXPECT_TRUE(row.contains("mfu_measured_peak_percent"));
  EXPECT_NE(table.find("Of matrix products"), std::string::npos) << table;

  const auto narrow = document_of({"step", "--model", model, "--batch-size", "2", "--precision", "bf16_master", "-n",
                                   "1", "-w", "0", "--device", "cpu", "--grad-checkpointing"},
                                  "bench_gpt_bf16");
  const auto narrow_plan = planned_step({"gpt", "--model", model, "--micro-batch-size", "2", "--mock-data",
                                         "--train-iters", "1", "--lr", "1e-4", "--bf16", "--recompute-granularity",
                                         "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"});
  EXPECT_EQ(narrow.at("rows").at(0).at("planned_memory_bytes"), narrow_plan.at("memory_bytes"));
}

TEST_F(Bench, StepsOfAClassifierAreThoseThatTrainImagenetPlans) {
  const auto json = document_of({"step", "--model", "resnet18", "--force-image-size", "32", "--batch-size", "2", "-n",
                                 "2", "-w", "0", "--device", "cpu", "--skip-products"},
                                "bench_resnet");
  const auto plan = planned_step({"imagenet", "--arch", "resnet18", "--train-crop-size", "32", "--micro-batch-size",
                                  "2", "--batch-size", "2", "--dummy"});
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_EQ(row.at("losses").size(), 2u + 2u);
  EXPECT_NEAR(row.at("planned_memory_bytes").get<double>(), plan.at("memory_per_rank_bytes").at("total").get<double>(),
              8);
}

/// Whose text tower begins with the weights of roberta-base in a training: no cache of the Hub holds them here.
TEST_F(Bench, StepsOfAClapModelNeedNoWeightsOfItsTextTower) {
  const auto done = run_lockstep({"bench", "step", "--model", "HTSAT-tiny-Roberta-base", "--batch-size", "2", "-w", "0",
                                  "-n", "1", "--device", "cpu", "--json"},
                                 {{"HF_HOME", "/nowhere"}, {"HF_HUB_CACHE", "/nowhere"}});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GT(core::parse_json(done.out, "result").at("rows").at(0).at("step_ms").get<double>(), 0);
}

TEST_F(Bench, StepRefusesFlagsThatTheKindOfModelDoesNotKnow) {
  const struct {
    std::vector<std::string> args;
    const char* expected;
  } cases[] = {
      {{"--model", demo_model(), "--seq-length", "8"}, "leave it out, or give a GPT (gpt2)"},
      {{"--model", "gpt2", "--force-context-length", "8"}, "--seq-length"},
      {{"--model", "gpt2", "--local-loss"}, "--local-loss with --model gpt2"},
      {{"--model", "gpt2", "--precision", "amp"}, "bf16 and bf16_master are --bf16 there"},
      {{"--model", "gpt2", "--seq-length", "4096"}, "4096"},
      {{"--model", "resnet50", "--beta1", "0.8"}, "which SGD trains"},
      {{"--model", "resnet51"}, "did you mean resnet50?"},
      {{"--model", "gpt2-xxl"}, "did you mean gpt2-xl?"},
      {{"--model", "resnet50", "--precision", "bf16"}, "`train imagenet` has fp32, amp or amp_bf16"},
  };
  for (auto test : cases) {
    test.args.insert(test.args.begin(), "step");
    test.args.insert(test.args.end(), {"--device", "cpu", "-n", "1"});
    const auto result = bench(test.args);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(test.expected), std::string::npos) << result.err;
  }
}

TEST_F(Bench, StepsUnderALossScaleAreUpdatesAndRight) {
  const core::TempDir folder;
  const auto json = document_of({"step", "--model", tiny_gpt(folder), "--batch-size", "2", "--precision", "fp16_master",
                                 "-n", "4", "-w", "1", "--device", "cpu", "--skip-products"},
                                "bench_gpt_fp16");
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_EQ(row.at("sequence_length"), 16);
  EXPECT_NEAR(row.at("tokens_per_s").get<double>(), 16 * row.at("samples_per_s").get<double>(), 1e-6);
  const std::vector<double> losses = row.at("losses");
  EXPECT_LT(losses.back(), losses.front());
}

TEST_F(Bench, OneSampleIsABatchWhoseGradientMayBeNothing) {
  const auto json = document_of({"step", "--model", demo_model(), "--precision", "fp32", "-n", "1", "-w", "0",
                                 "--device", "cpu", "--find-batch", "multiple=1", "--find-most", "2"},
                                "bench_one_sample");
  EXPECT_EQ(json.at("summary").at("largest_batch"), 2);
  const auto one = document_of({"step", "--model", demo_model(), "--precision", "fp32", "--batch-size", "1", "-n", "1",
                                "-w", "0", "--device", "cpu", "--skip-products"},
                               "bench_one");
  EXPECT_EQ(one.at("rows").at(0).at("losses").at(0), 0) << "a pair with nothing to be told from";
  EXPECT_EQ(one.at("rows").at(0).at("wrong"), 0);
}

TEST_F(Bench, StepsBeyondTheMemoryAreRefusedWithThePlan) {
  const auto result = bench({"step", "--model", "gpt2", "--batch-size", "20000", "-n", "1", "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 6) << result.err;
  EXPECT_NE(result.err.find("most of a rank's is"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--find-batch"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--mode list shows what takes how much"), std::string::npos) << "there is no --dry-run";
}

TEST_F(Bench, StepOfAGptOverTwoRanksLeavesThemTheSameParameters) {
  const core::TempDir folder;
  for (const char* sync : {"ddp", "zero1"}) {
    const auto result = launch_bench(2, {"step", "--model", tiny_gpt(folder), "--batch-size", "2", "--grad-sync", sync,
                                         "-n", "2", "-w", "0", "--device", "cpu", "--skip-products", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto row = core::parse_json(result.out, "output").at("rows").at(0);
    EXPECT_EQ(row.at("global_batch"), 4);
    EXPECT_EQ(row.at("wrong"), 0);
  }
}

TEST_F(Bench, StepOverTwoRanksGivesBothTheSameLoss) {
  const auto result = launch_bench(2, {"step", "--model", demo_model(), "--batch-size", "4", "--precision", "fp32",
                                       "-n", "2", "-w", "0", "--device", "cpu", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto row = core::parse_json(result.out, "output").at("rows").at(0);
  EXPECT_EQ(row.at("global_batch"), 8);
  EXPECT_EQ(row.at("wrong"), 0);
}

TEST_F(Bench, TheLargestBatchThatFitsIsFoundAndNotTheNext) {
  const auto one = document_of({"step", "--model", demo_model(), "--batch-size", "16", "--precision", "fp32", "-n", "1",
                                "-w", "1", "--device", "cpu"},
                               "bench_one");
  const auto limit = one.at("rows").at(0).at("peak_memory_bytes").get<int64_t>() +
                     (int64_t{96} << 20);  // pages of libraries come and go
  std::string table;
  const auto json =
      document_of({"step", "--model", demo_model(), "--precision", "fp32", "-n", "1", "-w", "1", "--device", "cpu",
                   "--find-batch", "multiple=8", "--memory-limit", std::to_string(limit)},
                  "bench_find", &table);
  const int64_t best = json.at("summary").at("largest_batch");
  EXPECT_GE(best, 16);
  bool next_was_refused = false, best_was_tried = false;
  for (const auto& probe : json.at("summary").at("probes")) {
    const int64_t samples = probe.at("samples");
    if (samples == best)
      best_was_tried = probe.at("fits").get<bool>() && probe.at("peak_memory_bytes").get<int64_t>() <= limit;
    if (samples == best + 8) next_was_refused = !probe.at("fits").get<bool>();
    EXPECT_GT(probe.at("planned_memory_bytes").get<double>(), 0);
  }
  EXPECT_TRUE(best_was_tried && next_was_refused) << table;
  EXPECT_EQ(json.at("rows").at(0).at("micro_batch_size"), best);
  const auto none = bench({"step", "--model", demo_model(), "--precision", "fp32", "--device", "cpu", "--find-batch",
                           "multiple=16", "--memory-limit", "1M"});
  EXPECT_EQ(none.exit_code, 6) << none.err;
  EXPECT_NE(none.err.find("not even 16 samples fit"), std::string::npos) << none.err;
}

TEST_F(Bench, LoaderHandsOutTheSameBatchesTwiceAndReportsRates) {
  const auto json =
      document_of({"loader", "--dataset-type", "synthetic", "--train-num-samples", "64", "--model", demo_model(),
                   "--batch-size", "4", "--workers", "1", "2", "--think-ms", "5", "-n", "4", "-w", "1"},
                  "bench_loader");
  ASSERT_EQ(json.at("rows").size(), 2u);
  for (const auto& row : json.at("rows")) {
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_EQ(row.at("samples_ms").size(), 4u);
    EXPECT_GT(row.at("samples_per_cpu_s").get<double>(), 0);
    EXPECT_GT(row.at("source_ms").get<double>(), 0);
    EXPECT_GT(row.at("decode_ms").get<double>(), 0);
    EXPECT_GE(row.at("ahead_percent").get<double>(), 0);
    EXPECT_LE(row.at("ahead_percent").get<double>(), 100);
    const double busy = row.at("busy_percent");
    EXPECT_GT(busy, 0);
    EXPECT_LE(busy, 100);
    EXPECT_LE(row.at("samples_per_s").get<double>(), 4 / 5e-3);  // four samples a batch, at least 5 ms between two
  }
  EXPECT_EQ(bench({"loader", "--train-data", "/nowhere/{00..01}.tar"}).exit_code, 4);
  EXPECT_EQ(bench({"loader"}).exit_code, 2);
}

TEST_F(Bench, CheckpointsComeBackBitByBitAndLeaveNothingBehind) {
  const core::TempDir temporary;
  const std::string folder = temporary.path().string();
  const auto json = document_of({"checkpoint", "--model", demo_model(), "--precision", "fp32", "--dir", folder, "-n",
                                 "2", "-w", "0", "--device", "cpu"},
                                "bench_checkpoint");
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_GT(row.at("bytes").get<int64_t>(), 1'000'000);
  EXPECT_LE(row.at("staging_ms").get<double>(), row.at("save_ms").get<double>());
  for (const char* rate : {"save_gbytes_per_s", "load_gbytes_per_s"}) EXPECT_GT(row.at(rate).get<double>(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(bench({"checkpoint", "--model", demo_model(), "--dir", "/proc/none", "--device", "cpu"}).exit_code, 6);
  EXPECT_EQ(bench({"checkpoint"}).exit_code, 2);
}

TEST_F(Bench, ListNamesThePointsAndMeasuresNothing) {
  const auto result = bench({"collective", "--mode", "list", "-b", "1K", "-e", "4K", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto points = core::parse_json(result.out, "output");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2].at("bytes"), 4096);
  EXPECT_FALSE(points[2].contains("time_us"));
}

TEST_F(Bench, BadInputIsAUsageError) {
  const auto alone = bench({"collective", "--device", "cpu"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_NE(alone.err.find("one rank alone sends nothing"), std::string::npos) << alone.err;
  for (const std::string& line : core::split(alone.err, "\n")) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(bench({"collective", "-b", "lots"}).exit_code, 2);
  EXPECT_EQ(bench({"collective", "--wings", "2"}).exit_code, 2);
  EXPECT_EQ(bench({"collectives"}).exit_code, 2);
  EXPECT_EQ(bench({}).exit_code, 2);
  EXPECT_EQ(bench({"collective", "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace lockstep::tests
