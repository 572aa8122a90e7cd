// Real command lines of `predict`: what is printed, what is refused and with which exit code.
#include <gtest/gtest.h>

#include <sstream>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep {
namespace {

using core::Json;
using tests::ProgramResult;
using tests::run_lockstep;

std::string golden(const char* name) { return std::string(LOCKSTEP_GOLDEN_DIR) + "/published/" + name; }
std::string recipe(const char* name) { return std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/" + name; }

/// The words of a text that was broken into lines.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string word, line;
  while (words >> word) line += (line.empty() ? "" : " ") + word;
  return line;
}

TEST(PredictCommand, ValidatesATableAndWritesAPage) {
  core::TempDir folder;
  const ProgramResult result = run_lockstep({"predict", golden("clap_htsat_tiny_jupiter.csv"), "--calibrate-up-to", "8",
                                             "--validate", "-o", folder.path().string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("Calibrated on 4 points"), std::string::npos);
  EXPECT_NE(result.out.find("4 of 4 points in the"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "report.html"));
  for (size_t begin = 0, end; (end = result.out.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_TRUE(end - begin <= 80 || result.out[begin] == '/') << result.out.substr(begin, end - begin);
}

TEST(PredictCommand, PredictsARecipeAsJson) {
  const ProgramResult result =
      run_lockstep({"predict", recipe("gpt_nemotron4_340b_h100.toml"), "--system", "dgx-h100", "--nodes", "16-256*2",
                    "--samples-per-device", "0.25", "--budget-tokens", "1e12", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = core::parse_json(result.out, "output");
  EXPECT_EQ(json.at("predicted").size(), 5u);
  EXPECT_EQ(json.at("plan").at(4).at("ranks"), 2048);
  EXPECT_EQ(json.at("goal").size(), 5u);
}

TEST(PredictCommand, APageIsWrittenBesideJson) {
  for (const std::vector<std::string>& input :
       {std::vector<std::string>{golden("clap_htsat_tiny_jupiter.csv")},
        {golden("clap_htsat_tiny_jupiter.csv"), "--calibrate-up-to", "8", "--validate"},
        {recipe("gpt_nemotron4_340b_h100.toml"), "--system", "dgx-h100", "--samples-per-device", "0.25"}}) {
    core::TempDir folder;
    std::vector<std::string> words = {"predict", "--json", "-o", folder.path().string()};
    words.insert(words.end(), input.begin(), input.end());
    const ProgramResult result = run_lockstep(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NO_THROW(core::parse_json(result.out, "output"));
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "report.html")) << input.front();
  }
}

TEST(PredictCommand, OneSizeOfARecipeHasASmallerOneAsItsBase) {
  const std::vector<std::string> command = {
      "predict", recipe("gpt_nemotron4_340b_h100.toml"), "--system", "dgx-h100", "--samples-per-device", "0.25"};
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = command;
    words.insert(words.end(), more.begin(), more.end());
    return run_lockstep(words);
  };
  const ProgramResult one = run({"--nodes", "128", "--budget-tokens", "1e12"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_NE(in_one_line(one.out).find("Efficiency is against the step at 32 nodes."), std::string::npos)
      << "16 nodes lack the memory: " << one.out;
  EXPECT_NE(one.out.find("on 128 nodes."), std::string::npos) << "the goal asks for this size alone: " << one.out;
  const ProgramResult measured = run({"--nodes", "128", "--measured", "16=4600"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_NE(in_one_line(measured.out).find("--measured takes seconds"), std::string::npos) << measured.out;
  const ProgramResult illegal = run({"--nodes", "3", "--measured", "16=4.6"});
  EXPECT_EQ(illegal.exit_code, 2) << illegal.out;
  EXPECT_NE(illegal.err.find("no size fits the command; at 3 nodes"), std::string::npos) << illegal.err;
}

TEST(PredictCommand, RefusalsSayWhatIsNeeded) {
  const auto refused = [](std::vector<std::string> words, const std::string& said) {
    words.insert(words.begin(), "predict");
    const ProgramResult result = run_lockstep(words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  };
  refused({golden("clap_htsat_tiny_jupiter.csv"), "--validate"}, "--calibrate-up-to");
  refused({golden("clap_htsat_tiny_jupiter.csv"), "--calibrate-up-to", "0.5"}, "its smallest is 1");
  refused({golden("clap_htsat_tiny_jupiter.csv"), "--system", "jupitre"}, "did you mean 'jupiter'");
  refused({recipe("gpt_nemotron4_340b_h100.toml")}, "--system");
  refused({recipe("README.md")}, "no CSV table");
  refused({recipe("clip_vitg14_dgx.toml"), "--system", "dgx-h100", "--change=--batch-size=64"}, "--measured");
  refused({recipe("clip_vitg14_dgx.toml"), "--system", "dgx-h100", "--measured", "1"}, "NODES=SECONDS");
}

/// What nothing would read is no flag of this input.
TEST(PredictCommand, FlagsThatNothingReadsAreRefused) {
  const auto refused = [](std::vector<std::string> words, const std::string& said) {
    words.insert(words.begin(), {"predict", golden("clap_htsat_tiny_jupiter.csv")});
    const ProgramResult result = run_lockstep(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  };
  refused({"--advise"}, "--advise is for recipes");
  refused({"--measured", "1=0.98"}, "--measured is for recipes");
  refused({"--change=--batch-size=64"}, "--change is for recipes");
  refused({"--validate", "--calibrate-up-to", "8", "--nodes", "64"}, "--nodes says nothing to --validate");
  refused({"--validate", "--calibrate-up-to", "8", "--budget-samples", "1e9"}, "--budget-samples says nothing");
}

TEST(PredictCommand, FlagsThatARecipeDoesNotReadAreRefused) {
  const auto refused = [](std::vector<std::string> words, const std::string& said, const std::string& hint) {
    words.insert(words.begin(), {"predict", recipe("clip_vitg14_dgx.toml"), "--system", "dgx-h100"});
    const ProgramResult result = run_lockstep(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(hint), std::string::npos) << result.err;
  };
  refused({"--model", "ViT-B-32"}, "--model is for tables", "-- --model");
  refused({"--scaling", "strong"}, "--scaling is for tables", "--samples-per-device");
  refused({"--devices-per-node", "4"}, "--devices-per-node is for tables", "--system FILE.toml");
  refused({"--validate"}, "--validate needs a table", "CSV table");
  refused({"--advise", "--change=--batch-size=64"}, "--change says nothing to --advise", "behind --");
  refused({"--advise", "--budget-samples", "1e9"}, "--budget-samples says nothing to --advise", "leave it out");
  refused({"--advise", "-o", "/tmp/none"}, "--output says nothing to --advise", "leave it out");
}

TEST(PredictCommand, AdvisesByWhatWasMeasured) {
  const auto json_of = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"predict",  recipe("gpt_nemotron4_340b_h100.toml"),
                                      "--system", "dgx-h100",
                                      "--nodes",  "32",
                                      "--json",   "--samples-per-device",
                                      "0.25",     "--measured",
                                      "16=5"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_lockstep(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return core::parse_json(result.out, "output");
  };
  const Json plain = json_of({}).at("predicted").at(1), advice = json_of({"--advise"});
  EXPECT_EQ(plain.at("size"), 32);
  EXPECT_EQ(advice.at("as_given").at("step_s"), plain.at("step_s").at("p50"));
  EXPECT_EQ(advice.at("calibration").at(0).at("step_s"), 5);
}

TEST(PredictCommand, AHeaderAloneIsNoTable) {
  core::TempDir folder;
  const std::string table = (folder.path() / "header.csv").string();
  core::write_file_atomic(table, "nodes,step_time_s\n");
  for (const char* command : {"predict", "report"}) {
    const ProgramResult result = run_lockstep({command, table});
    EXPECT_EQ(result.exit_code, 4) << command;
    EXPECT_NE(result.err.find("has a header and no rows"), std::string::npos) << result.err;
  }
}

/// Sizes that the machine lacks are named, and never the ones to take; a system of the table counts as one of --system.
TEST(PredictCommand, SizesBeyondTheMachineAreNamed) {
  core::TempDir folder;
  const std::string rows = "nodes,step_time_s,global_batch\n1,1.0,8\n2,1.01,16\n4,1.02,32\n";
  core::write_file_atomic(folder.path() / "plain.csv", rows);
  core::write_file_atomic(folder.path() / "named.csv", "# Karolina GPU, ResNet-50\n" + rows);
  core::write_file_atomic(folder.path() / "mine.toml",
                          "name = \"Mine\"\ndevice = \"H100 SXM 80GB\"\ndevices-per-node = 8\n"
                          "node-gbytes-per-s = 400\nnum-nodes = 72\n");
  const auto predicted = [&](const char* table, std::vector<std::string> more) {
    std::vector<std::string> words = {"predict", (folder.path() / table).string(),
                                      "--nodes", "64,128",
                                      "--json",  "--budget-samples",
                                      "1e6",     "--deadline-hours",
                                      "1000"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_lockstep(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return core::parse_json(result.out, "output").at(0);
  };
  const auto expect_beyond = [](const Json& json, const std::string& said) {
    EXPECT_NE(json.at("notes").dump().find(said), std::string::npos) << json.at("notes");
    EXPECT_TRUE(json.at("goal").at(0).at("meets_deadline"));
    EXPECT_FALSE(json.at("goal").at(1).at("meets_deadline"));
    EXPECT_FALSE(json.at("goal").at(1).at("exists"));
  };
  expect_beyond(predicted("plain.csv", {"--system", "karolina"}), "has 72 nodes: 128 nodes do not exist");
  expect_beyond(predicted("named.csv", {}), "has 72 nodes: 128 nodes do not exist");
  expect_beyond(predicted("plain.csv", {"--system", (folder.path() / "mine.toml").string()}), "Mine has 72 nodes");
  EXPECT_TRUE(predicted("plain.csv", {}).at("goal").at(1).at("meets_deadline"));
}

TEST(PredictCommand, ATableOfGpusSaysWhatItsSizesCount) {
  core::TempDir folder;
  const std::string table = (folder.path() / "gpus.csv").string();
  core::write_file_atomic(table, "# 4 GPUs a node\ngpus,step time\n8,1.0\n16,1.01\n");
  const auto said = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", table});
    const ProgramResult result = run_lockstep(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return in_one_line(result.out);
  };
  const std::string asked = said({"--nodes", "64,1024"});
  for (const char* text : {"--nodes counts GPUs here, as the input does: 1024 GPUs are 256 nodes of 4 (comments of the",
                           "1024 GPUs lie beyond 32 times the largest calibrated size (16)",
                           "'step time' names no unit: seconds were taken", "What calibration said of the rest"})
    EXPECT_NE(asked.find(text), std::string::npos) << asked;
  EXPECT_EQ(said({}).find("--nodes counts"), std::string::npos);
}

TEST(PredictCommand, WithoutMeasurementsNothingIsSaidToBeLearned) {
  const ProgramResult result =
      run_lockstep({"predict", recipe("clip_vitg14_dgx.toml"), "--system", "dgx-h100", "--nodes", "1,2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("Predicted rate"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("What calibration said"), std::string::npos) << result.out;
}

TEST(PredictCommand, FaultsOfASystemAreToldOfTablesToo) {
  for (const std::string& input : {golden("clap_htsat_tiny_jupiter.csv"), recipe("clip_vitg14_dgx.toml")}) {
    const ProgramResult result = run_lockstep({"predict", input, "--system", "leonardo", "--nodes", "16"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const size_t told = result.out.find("NCCL_PXN_DISABLE=1");
    ASSERT_NE(told, std::string::npos) << result.out;
    EXPECT_EQ(result.out.find("NCCL_PXN_DISABLE=1", told + 1), std::string::npos) << result.out;
  }
}

/// One curve of several that has no small size takes nothing from the others.
TEST(PredictCommand, CurvesWithoutSmallSizesAreLeftOutByName) {
  core::TempDir folder;
  const std::string small = "a,8,64,1.0\na,16,128,1.01\na,32,256,1.03\n", large = "b,64,512,2.0\nb,128,1024,2.1\n";
  const std::string header = "model,gpus,global_batch,step_time_s\n";
  core::write_file_atomic(folder.path() / "both.csv", header + large + small);
  core::write_file_atomic(folder.path() / "large.csv", header + large);
  const auto judged = [&](const char* name) {
    return run_lockstep({"predict", (folder.path() / name).string(), "--calibrate-up-to", "16", "--validate"});
  };
  const ProgramResult both = judged("both.csv");
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_NE(both.out.find("left out: predict: curve 'b' has no point up to 16"), std::string::npos) << both.out;
  EXPECT_EQ(judged("large.csv").exit_code, 2);
}

TEST(PredictCommand, AGoalOfATableIsCountedAsItsRate) {
  core::TempDir folder;
  const std::string table = (folder.path() / "mine.csv").string();
  core::write_file_atomic(table,
                          "nodes,tokens_per_s,global_batch,seq_length\n1,11200,4,8192\n2,22050,8,8192\n"
                          "4,43200,16,8192\n");
  const auto priced = run_lockstep({"predict", table, "--nodes", "4,16", "--budget-tokens", "1e12",
                                    "--price-per-node-hour", "5", "--deadline-hours", "3000", "--json"});
  ASSERT_EQ(priced.exit_code, 0) << priced.err;
  const core::Json goal = core::Json::parse(priced.out).at(0).at("goal");
  EXPECT_NEAR(goal.at(0).at("hours_p50").get<double>(), 1e12 / 43200 / 3600, 100);
  EXPECT_NEAR(goal.at(0).at("price").get<double>(), 20 * goal.at(0).at("hours_p50").get<double>(), 1);
  EXPECT_FALSE(goal.at(0).at("meets_deadline"));
  EXPECT_TRUE(goal.at(1).at("meets_deadline"));
  const auto samples = run_lockstep({"predict", table, "--nodes", "4", "--budget-samples", "1e6", "--json"});
  ASSERT_EQ(samples.exit_code, 0) << samples.err;
  EXPECT_NEAR(core::Json::parse(samples.out).at(0).at("goal").at(0).at("hours_p50").get<double>(),
              1e6 * 8192 / 43200 / 3600, 1);
}

TEST(PredictCommand, ARecipeSaysWhatLimitsItAndWhichBatchItTook) {
  const std::vector<std::string> words = {"predict",
                                          recipe("gpt_nemotron4_340b_h100.toml"),
                                          "--system",
                                          "dgx-h100",
                                          "--nodes",
                                          "16,64",
                                          "--samples-per-device",
                                          "0.25"};
  const auto whole = run_lockstep(words);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_NE(in_one_line(whole.out).find("The limit at 64 nodes: "), std::string::npos) << whole.out;
  EXPECT_NE(in_one_line(whole.out).find("the pipeline idles for"), std::string::npos) << whole.out;
  EXPECT_NE(in_one_line(whole.out).find("follows from the batch"), std::string::npos) << whole.out;
}

// Node-hours and prices of runs, in the unit of the column; what is missing is said exactly.
TEST(PredictCommand, TimesOfWholeRunsTakeABudgetOfRuns) {
  core::TempDir folder;
  const auto predict = [&](const std::string& text, std::vector<std::string> flags) {
    const std::string table = (folder.path() / "mine.csv").string();
    core::write_file_atomic(table, text);
    std::vector<std::string> words = {"predict", table, "--nodes", "4", "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_lockstep(words);
  };
  const auto strong =
      predict("nodes,walltime_h\n1,8\n2,4.1\n4,2.1\n", {"--budget-runs", "10", "--price-per-node-hour", "5"});
  ASSERT_EQ(strong.exit_code, 0) << strong.err;
  const core::Json goal = core::Json::parse(strong.out).at(0).at("goal").at(0);
  EXPECT_NEAR(goal.at("hours_p50").get<double>(), 21, 0.5);
  EXPECT_NEAR(goal.at("price").get<double>(), 20 * goal.at("hours_p50").get<double>(), 1);
  const auto weak = predict("nodes,walltime_min\n1,60\n2,61\n4,62\n", {"--budget-runs", "10"});
  ASSERT_EQ(weak.exit_code, 0) << weak.err;
  EXPECT_NEAR(core::Json::parse(weak.out).at(0).at("goal").at(0).at("hours_p50").get<double>(), 10.3, 0.3);
  const std::string hours = "nodes,walltime_h\n1,8\n2,4.1\n4,2.1\n", rates = "nodes,samples/s\n1,100\n2,190\n";
  EXPECT_NE(predict(hours, {"--budget-samples", "1e6"}).err.find("give --budget-runs"), std::string::npos);
  EXPECT_NE(predict(rates, {"--budget-tokens", "1e6"}).err.find("column seq_len"), std::string::npos);
  EXPECT_NE(predict(rates, {"--budget-runs", "2"}).err.find("give --budget-samples"), std::string::npos);
  EXPECT_NE(predict("nodes,walltime\n1,8\n2,4.1\n", {"--budget-runs", "2"}).err.find("unit of 'walltime'"),
            std::string::npos);
}

}  // namespace
/// What a change asks of the plan reaches it, and a batch of its own wins over --samples-per-device.
TEST(PredictCommand, ChangedFlagsReachThePlan) {
  const auto result = run_lockstep({"predict", recipe("gpt_nemotron4_340b_h100.toml"), "--system", "dgx-h100",
                                    "--nodes", "16", "--samples-per-device", "0.25", "--measured", "16=4.61",
                                    "--change=--pipeline-model-parallel-size=16 --global-batch-size=64", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json plan = core::parse_json(result.out, "output").at("plan").at(0);
  EXPECT_EQ(plan.at("mesh").at("pp"), 16);
  EXPECT_EQ(plan.at("global_batch"), 64);
}

/// One device was measured, the changed command needs two: it is planned on the sizes asked for alone.
TEST(PredictCommand, AChangeMayNotFitTheSizesThatWereMeasured) {
  core::TempDir folder;
  const std::string system = (folder.path() / "single.toml").string();
  core::write_file_atomic(system, "device = \"A100 SXM 80GB\"\ndevices-per-node = 1\nnode-gbytes-per-s = 25\n");
  const std::string small = (folder.path() / "gpt_small.toml").string();
  core::write_file_atomic(small,
                          "num-layers = 4\nhidden-size = 256\nnum-attention-heads = 4\nseq-length = 128\n"
                          "max-position-embeddings = 128\nvocab-size = 512\nmock-data = true\nbf16 = true\n"
                          "micro-batch-size = 1\nglobal-batch-size = 8\ntrain-iters = 10\n");
  for (const char* change : {"--tensor-model-parallel-size=2", "--pipeline-model-parallel-size=2"}) {
    const auto result = run_lockstep({"predict", small, "--system", system, "--nodes", "2", "--measured", "1=0.5",
                                      "2=0.58", std::string("--change=") + change, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = core::parse_json(result.out, "output");
    ASSERT_EQ(json.at("plan").size(), 1u) << change;
    EXPECT_EQ(json.at("plan").at(0).at("ranks"), 2);
    EXPECT_EQ(json.at("calibration").size(), 2u);
    EXPECT_NEAR(json.at("predicted").at(0).at("step_s").at("p50").get<double>(), 0.3, 0.25) << "half of the work each";
  }
}

}  // namespace lockstep
