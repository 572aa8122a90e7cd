// `lockstep train gpt --dry-run` and the recipes of GPT models, as users type them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/files.h"
#include "core/json.h"
#include "core/process.h"
#include "core/strings.h"
#include "run_program.h"
#include "support/error_text.h"

namespace lockstep::tests {
namespace {

using core::Json;
const std::string kRecipes = std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/";

ProgramResult run_gpt(std::vector<std::string> args) {
  args.insert(args.begin(), lockstep_program());
  return run_program(args);
}

ProgramResult dry_run(std::vector<std::string> args) {
  args.insert(args.begin(), {"train", "gpt", "--dry-run"});
  return run_gpt(std::move(args));
}

Json dry_json(std::vector<std::string> args) {
  args.emplace_back("--json");
  const ProgramResult result = dry_run(std::move(args));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return core::parse_json(result.out, "dry run");
}

TEST(GptDryRun, NemotronRecipeFrom128To2048) {
  for (const int gpus : {128, 256, 512, 1024, 2048}) {
    const Json json =
        dry_json({"--config", kRecipes + "gpt_nemotron4_340b_h100.toml", "--world-size", std::to_string(gpus),
                  "--global-batch-size", std::to_string(gpus / 4), "--device-memory", "H100 SXM 80GB"});
    EXPECT_EQ(json.at("parameters"), 341'029'195'776);
    EXPECT_EQ(json.at("mesh"), (Json{{"tp", 8}, {"dp", gpus / 64}, {"pp", 8}}));
    EXPECT_EQ(json.at("num_micro"), 16);
    EXPECT_NEAR(json.at("bubble_over_ideal").get<double>(), 7.0 / (12 * 16), 1e-12);
    // By hand: weights and gradients 2 bytes each, state 12 / dp; a layer keeps s b (12 h + 4 h g/a + 4 f) / 8 = 254
    // MiB or so, 103 of them in flight.
    const Json& first = json.at("stages").at(0);
    EXPECT_EQ(first.at("peak_in_flight"), 103);
    const double parameters =
        12 * ((18432.0 * 112 * 192 + 18432.0 * 18432 + 2 * 18432.0 * 73728) / 8 + 4 * 18432) + 256000.0 * 18432 / 8;
    const double layer = 4096.0 * (12 * 18432 + 4 * 18432 * 8.0 / 96 + 4 * 73728) / 8;
    const double expected = parameters * (4 + 12.0 * 64 / gpus) + 103 * layer;
    EXPECT_NEAR(first.at("bytes").at("total").get<double>() / expected, 1, 1e-12);
    EXPECT_EQ(holds(json.at("fit").get<std::string>(), "does not fit"), gpus == 128)
        << "79.4 GiB on the first stage at two data ranks";
  }
}

TEST(GptDryRun, StudyOfThe175B) {
  for (const auto& [gpus, backend] : {std::pair(128, "auto"), {1024, "unfused"}, {4096, "auto"}, {4096, "unfused"}}) {
    const Json json = dry_json({"--config", kRecipes + "gpt_175b_epicure.toml", "--world-size", std::to_string(gpus),
                                "--global-batch-size", "1536", "--attention-backend", backend});
    EXPECT_EQ(json.at("parameters"), 174'615'846'912);
    EXPECT_EQ(json.at("num_micro"), 1536 / (gpus / 128));
    const Json& first = json.at("stages").at(0);
    // The softmax of one layer's attention and what dropout leaves of it come again during backward; a fused kernel
    // leaves none of them in memory.
    const double recomputed = std::string(backend) == "auto" ? 0 : 96 * 2048.0 * 2048 * (2 * 2) / 8;
    EXPECT_EQ(first.at("bytes").at("recomputed").get<double>(), recomputed);
    // fp16: 4 bytes and 12 / dp; 16 micro-batches of 6 layers of 32 s h / 8.
    const double parameters =
        6 * (12.0 * 12288 * 12288 / 8 + 7.0 * 12288 / 8 + 6 * 12288) + 51200.0 * 12288 / 8 + 2048.0 * 12288;
    EXPECT_EQ(first.at("parameters_per_rank").get<double>(), parameters);
    const double expected = parameters * (4 + 12.0 * 128 / gpus) + 16 * 6 * 32 * 2048.0 * 12288 / 8 + recomputed;
    EXPECT_NEAR(first.at("bytes").at("total").get<double>() / expected, 1, 1e-12);
  }
  const Json small = dry_json({"--model", "857m", "--world-size", "4", "--fp16", "--global-batch-size", "64"});
  EXPECT_EQ(small.at("parameters"), 355'919'872);
  EXPECT_TRUE(holds(small.at("model_note"), "355.9 M"));
}

TEST(GptDryRun, PageSaysWhatWouldRun) {
  const ProgramResult page =
      dry_run({"--model", "gpt2", "--world-size", "8", "--tp=2", "--pp", "2", "--num_virtual_stages_per_pipeline_rank",
               "3", "--global-batch-size", "8", "--bf16", "--sequence-parallel", "--use-distributed-optimizer"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  for (const char* part : {"tp 2 x dp 2 x pp 2", "interleaved, 2 stages x 3 virtual stages",
                           "embedding, layers 0, 1, 4, 5, 8, 9", "gradient of the tied embedding", "bubble 8.33 %",
                           "[from --bf16]", "fits devices of 16 GB and more", "Schedule, one cell a pass"})
    EXPECT_TRUE(holds(words_of(page.out), part)) << part << "\n" << page.out;
}

TEST(GptDryRun, SmallModelsAreToldInMiBAndWhatARunNeedsIsNamed) {
  const std::vector<std::string> small = {"--num-layers", "1",  "--hidden-size", "16", "--num-attention-heads", "2",
                                          "--seq-length", "16", "--vocab-size",  "64"};
  const ProgramResult page = dry_run(small);
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_TRUE(holds(page.out, "Memory of a rank by stage, MiB")) << page.out;
  EXPECT_TRUE(holds(words_of(page.out),
                    "a run would be refused: how long to train is not given; --lr is not given; no "
                    "data are given"))
      << page.out;
  EXPECT_TRUE(holds(dry_run({"--model", "gpt2"}).out, "Memory of a rank by stage, GiB"));
}

TEST(GptDryRun, SaysHowOftenTheRunPassesOverItsData) {
  const std::string corpus = std::string(LOCKSTEP_GOLDEN_DIR) + "/gpt_data/one";
  const std::vector<std::string> flags = {
      "--num-layers", "1",   "--hidden-size", "16", "--num-attention-heads", "2",  "--seq-length",        "16",
      "--vocab-size", "200", "--lr",          "1",  "--train-iters",         "10", "--global-batch-size", "4",
      "--data-path",  corpus};
  const Json json = dry_json(flags);
  EXPECT_EQ(json.at("train_data").at("samples"), 40);
  EXPECT_GT(json.at("train_data").at("samples_per_pass"), 0);
  EXPECT_FALSE(json.contains("valid_data")) << "nothing is evaluated";
}

TEST(GptDryRun, PagesFitTheTerminal) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"--model", "gpt2", "--world-size", "8", "--tp", "2", "--pp", "2", "--num-virtual-stages-per-pipeline-rank",
            "3", "--global-batch-size", "8"},
           {"--model", "gpt2", "--world-size", "4", "--pp", "4"},
           {"--config", kRecipes + "gpt_nemotron4_340b_h100.toml", "--world-size", "2048", "--global-batch-size", "512",
            "--target-device", "H100 SXM 80GB", "--fp8-format", "hybrid", "--first-last-layers-bf16"},
           {"--config", kRecipes + "gpt_175b_epicure.toml", "--world-size", "4096", "--global-batch-size", "1536"},
           {"--model", "857m", "--world-size", "1"}}) {
    const ProgramResult page = dry_run(args);
    ASSERT_EQ(page.exit_code, 0) << page.err;
    for (const std::string& line : core::split(page.out, "\n")) {
      const size_t path = line.find(LOCKSTEP_SOURCE_DIR);  // as long as whoever cloned it likes
      const size_t counted =
          path == std::string::npos ? line.size() : line.size() - std::string(LOCKSTEP_SOURCE_DIR).size();
      EXPECT_LE(counted, 80) << line;
    }
  }
}

TEST(GptDryRun, PipelineWithoutAGlobalBatchIsWarnedOf) {
  const ProgramResult page = dry_run({"--config", kRecipes + "gpt_175b_epicure.toml", "--world-size", "128"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_TRUE(holds(words_of(page.out), "--global-batch-size is not given")) << page.out;
}

TEST(GptDryRun, EndsInBf16TakeMoreMemoryThanFp8) {
  const auto first_stage = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--model", "nemotron4-15b", "--world-size", "8", "--tp", "4", "--pp", "2", "--bf16",
                                 "--global-batch-size", "8"});
    return dry_json(flags).at("stages").at(0).at("bytes");
  };
  const Json bf16 = first_stage({}), spared = first_stage({"--fp8-format", "hybrid", "--first-last-layers-bf16"}),
             fp8 = first_stage({"--fp8-format", "hybrid"});
  const double layer = (6144.0 * 128 * (48 + 2 * 8) + 6144.0 * 6144 + 2 * 6144.0 * 24576) /
                       4;  // elements of the matrices on a rank; each has two copies of a byte
  EXPECT_EQ(fp8.at("parameters").get<double>() - bf16.at("parameters").get<double>(), 16 * 2 * layer);
  EXPECT_EQ(spared.at("parameters").get<double>() - bf16.at("parameters").get<double>(), 15 * 2 * layer);
  EXPECT_LT(fp8.at("activations"), spared.at("activations"));
  EXPECT_LT(spared.at("activations"), bf16.at("activations"));
}

TEST(GptDryRun, OnThisMachineTheProcessorIsPlannedWhereThereIsNoGpu) {
  const auto bytes = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--model", "gpt2", "--seq-length", "128", "--attention-dropout", "0"});
    return dry_json(flags).at("stages").at(0).at("bytes").at("activations").get<double>();
  };
  EXPECT_GT(bytes({"--device", "cpu"}), bytes({"--device", "cuda"}))
      << "the CPU keeps probabilities of short sequences";
  EXPECT_EQ(bytes({"--device", "auto", "--world-size", "8"}), bytes({"--device", "cuda", "--world-size", "8"}))
      << "a size that is not here is of GPUs";
  if (!std::filesystem::exists("/proc/driver/nvidia/gpus")) {
    EXPECT_EQ(bytes({}), bytes({"--device", "cpu"}));
    EXPECT_TRUE(holds(dry_json({"--model", "gpt2"}).at("fit"), "this machine"))
        << dry_json({"--model", "gpt2"}).at("fit");
  }
}

TEST(GptDryRun, MemoryIsAskedAboutBySizeAsInOtherTasks) {
  const auto planned = [](const std::string& size) {
    return dry_json({"--model", "gpt3-1.3b", "--world-size", "1", "--global-batch-size", "1", "--device-memory", size});
  };
  const auto fit = [&](const char* size) { return planned(size).at("fit").get<std::string>(); };
  EXPECT_TRUE(holds(fit("900G"), "fits: 3 % of 900 GiB (--device-memory)")) << fit("900G");
  EXPECT_TRUE(holds(fit("4G"), "does not fit: ")) << fit("4G");
  EXPECT_TRUE(holds(fit("LUMI-G"), "fits: ")) << fit("LUMI-G");
  EXPECT_TRUE(holds(fit("LUMI-G"), "(MI250X GCD)")) << fit("LUMI-G");

  // As much memory as the plan needs: kernels and libraries need some, too.
  const int64_t bytes = std::llround(planned("900G").at("memory_bytes").get<double>());
  const Json full = planned(std::to_string(bytes + 1));
  EXPECT_EQ(full.at("device_memory").at("fits"), true);
  EXPECT_EQ(full.at("device_memory").at("is_doubtful"), true);
  EXPECT_TRUE(holds(full.at("fit"), "doubtful, kernels and libraries need room, too: 100 % of ")) << full.at("fit");
  EXPECT_EQ(planned(std::to_string(bytes / 8 * 10)).at("device_memory").at("is_doubtful"), false);
  EXPECT_EQ(planned(std::to_string(bytes - 1)).at("device_memory").at("fits"), false);
}

TEST(GptDryRun, AnEmptyValueIsSeen) {
  EXPECT_TRUE(holds(dry_run({"--model", "gpt2", "--load", ""}).out, "--load                     ''  [command line]"))
      << dry_run({"--model", "gpt2", "--load", ""}).out;
}

TEST(GptDryRun, MisfitsAreUsageErrorsWithTheNearest) {
  struct Case {
    std::vector<std::string> args;
    const char* part;
  };
  for (const Case& bad : std::vector<Case>{
           {{"--model", "gpt2", "--world-size", "5", "--pp", "5"}, "use --pipeline-model-parallel-size 1, or set"},
           {{"--model", "gpt2", "--world-size", "8", "--tp", "8"}, "use --tensor-model-parallel-size 4"},
           {{"--model", "gpt2", "--world-size", "6", "--tp", "2", "--pp", "2"},
            "start 4 or 8 ranks; or use --pipeline-model-parallel-size 1 or 3; or use --tensor-model-parallel-size 1 "
            "or 3"},
           {{"--model", "gpt2", "--world-size", "8", "--global-batch-size", "12"}, "use --global-batch-size 8 or 16"},
           {{"--model", "gpt5", "--world-size", "1"}, "unknown model 'gpt5'"},
           {{"--model", "mistral", "--world-size", "1"}, "llama3-8b with --vocab-size 32000"},
           {{"--world-size", "1"}, "--num-layers, --hidden-size"},
           {{"--model", "gpt2", "--bf16", "--fp16"}, "contradict"},
           {{"--model", "gpt2", "--context-parallel-size", "2"}, "use --sequence-parallel"},
           {{"--model", "gpt2", "--tensor-model-parallel-sizes", "2"}, "tensor-model-parallel-size"},
           {{"--model", "gpt2", "--device-memory", "Z300"}, "neither a size nor a known device or system"},
           {{"--model", "gpt2", "--device-memory", "12"}, "give the unit, too: 64G"},
           {{"--model", "gpt2", "--recompute-granularity", "full"}, "--recompute-num-layers"}}) {
    const ProgramResult result = dry_run(bad.args);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_TRUE(holds(result.err, bad.part)) << result.err;
  }
  EXPECT_EQ(run_gpt({"train", "gpt", "--model", "gpt2", "--mock-data", "--lr", "1e-4"}).exit_code, 2) << "no length";
}

TEST(GptDryRun, ShippedSweepsExpand) {
  const auto expand = [](const char* file) {
    const std::vector<std::string> args = {
        lockstep_program(), "sweep", file, "--dry-run", "--json", "--set", "ACCOUNT=a", "PARTITION=p", "SCRATCH=/s"};
    const auto result =
        core::run_command({.argv = args, .working_folder = LOCKSTEP_SOURCE_DIR}, std::chrono::seconds(60));
    EXPECT_EQ(result.status.code, 0) << result.err;
    return core::parse_json(result.out, "sweep").at("points");
  };
  const auto check_study = [](const Json& points, int64_t micro, int64_t batch, int64_t meeting_ranks) {
    int num_meeting = 0;
    for (const Json& point : points) {
      const bool is_weak = point.at("axes").at("case") == "weak";
      EXPECT_EQ(point.at(is_weak ? "samples_per_replica" : "global_batch"), is_weak ? micro : batch);
      num_meeting += point.at("ranks") == meeting_ranks && point.at("global_batch") == batch;
    }
    EXPECT_EQ(num_meeting, 2) << "where weak and strong scaling meet";
  };
  const Json large = expand("recipes/sweeps/gpt_epicure_175b.toml");
  EXPECT_EQ(large.size(), 12u);
  EXPECT_EQ(large.at(0).at("ranks"), 128);
  check_study(large, 192, 1536, 1024);
  check_study(expand("recipes/sweeps/gpt_epicure_small.toml"), 16, 512, 32);
  const Json nemotron = expand("recipes/sweeps/gpt_nemotron.toml");
  EXPECT_EQ(nemotron.size(), 10u);
  for (const Json& point : nemotron) {
    EXPECT_EQ(point.at("global_batch"), 2 * point.at("nodes").get<int64_t>());
    EXPECT_EQ(point.at("samples_per_replica"), 16);
  }
}

TEST(GptDryRun, SweepFindsItsRecipeBesideItself) {
  const core::TempDir elsewhere;
  const std::string file = kRecipes + "sweeps/gpt_nemotron.toml";
  const std::vector<std::string> args = {lockstep_program(), "sweep",       file,        "--dry-run", "--json", "--set",
                                         "ACCOUNT=a",        "PARTITION=p", "SCRATCH=/s"};
  const auto result =
      core::run_command({.argv = args, .working_folder = elsewhere.path().string()}, std::chrono::seconds(60));
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_EQ(core::parse_json(result.out, "sweep").at("points").size(), 10u);
}

TEST(GptHelp, NamesOtherSpellings) {
  const ProgramResult help = run_gpt({"train", "gpt", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* name : {"also --log-interval", "also --tp", "also --layernorm-epsilon"})
    EXPECT_TRUE(holds(words_of(help.out), name)) << name;
}

}  // namespace
}  // namespace lockstep::tests
