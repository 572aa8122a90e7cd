#include "record/meta.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "record/step_columns.h"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;

RunData run_at(const fs::path& source) {
  RunData run;
  run.source = source;
  for (int step = 0; step < 3; ++step) {
    add_row(run.steps, step);
    run.steps.step_ms.back() = 100;
  }
  return run;
}

std::string usage_error(const MetaOptions& options, const fs::path& source = "/logs/a_n4/out.log") {
  RunData run = run_at(source);
  try {
    apply_meta(run, options);
  } catch (const UsageError& error) {
    return error.text();
  }
  ADD_FAILURE() << "no error";
  return "";
}

bool says(const std::vector<std::string>& problems, const std::string& words) {
  return core::join(problems, "|").find(words) != std::string::npos;
}

/// A log of three steps of 1024 sequences on 4 devices.
RunData logged_run() {
  RunData run = run_at("/logs/a_n4/out.log");
  run.setup.devices = 4, run.setup.global_batch = 1024, run.setup.samples_per_device = 256;
  run.setup.sequence_length = 2048;
  for (size_t row = 0; row < run.steps.size(); ++row)
    run.steps.samples[row] = 1024, run.steps.tokens[row] = 1024 * 2048.0;
  return run;
}

TEST(Meta, ABatchThatTheUserCorrectsIsThatOfTheSteps) {
  RunData of_all = logged_run(), of_device = logged_run(), longer = logged_run(), ramp = logged_run();
  apply_meta(of_all, {.values = {{"global_batch", "512"}}});
  EXPECT_TRUE(says(of_all.problems, "global_batch: the log says 1024, you say 512; yours is used"));
  EXPECT_EQ(of_all.setup.samples_per_device, 128);
  EXPECT_EQ(of_all.steps.samples, (std::vector<double>{512, 512, 512}));
  EXPECT_EQ(of_all.steps.tokens[2], 512 * 2048.0);
  apply_meta(of_device, {.values = {{"samples_per_device", "512"}}});
  EXPECT_EQ(of_device.setup.global_batch, 2048);
  EXPECT_EQ(of_device.steps.samples[0], 2048);
  apply_meta(longer, {.values = {{"sequence_length", "4096"}}});
  EXPECT_EQ(longer.steps.samples[0], 1024);
  EXPECT_EQ(longer.steps.tokens[0], 1024 * 4096.0);
  ramp.steps.samples[0] = 256, ramp.steps.tokens[0] = 256 * 2048.0;  // a batch that grew keeps its small steps
  apply_meta(ramp, {.values = {{"global_batch", "512"}}});
  EXPECT_EQ(ramp.steps.samples, (std::vector<double>{256, 512, 512}));
  RunData rows = logged_run();  // a table whose rows alone tell the batch
  rows.setup.global_batch.reset(), rows.setup.samples_per_device.reset();
  apply_meta(rows, {.values = {{"global_batch", "512"}}});
  EXPECT_EQ(rows.steps.samples[1], 512);
}

TEST(Meta, TokensOfAStepAndTheLengthTellTheBatch) {
  RunData run = run_at("/logs/steps.csv");
  run.setup.devices = 4;
  for (double& tokens : run.steps.tokens) tokens = 8 * 2048.0;
  apply_meta(run, {.values = {{"sequence_length", "2048"}}});
  EXPECT_EQ(run.steps.samples, (std::vector<double>{8, 8, 8}));
  EXPECT_EQ(run.setup.global_batch, 8);
  EXPECT_EQ(run.setup.samples_per_device, 2);
}

TEST(Meta, TheFolderNamesOfTheClapBenchmarkTellItsSetup) {
  RunData run = run_at("/scratch/clap/htsat_tiny_bs616_af2_n16_job4711/out.log");
  apply_meta(
      run, {.path_pattern =
                R"((?<model>htsat_\w+?)_bs(?<batch>\d+)_af(?<accum>\d+)_n(?<nodes>\d+)_job(?<job>\d+)(?<variant>_x)?)",
            .values = {{"devices_per_node", "4"}, {"forward_gflops", "111.20"}, {"peak_tflops", "989"}}});
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  EXPECT_EQ(run.setup.model, "htsat_tiny");
  EXPECT_EQ(run.setup.nodes, 16);
  EXPECT_EQ(run.setup.devices, 64);
  EXPECT_EQ(run.setup.accum, 2);
  EXPECT_EQ(run.setup.samples_per_device, 1232);  // both micro-batches
  EXPECT_EQ(run.setup.global_batch, 1232 * 64);
  EXPECT_EQ(run.setup.forward_gflops_per_sample, 111.2);
  EXPECT_EQ(run.setup.flops_formula, "given by the user");
  EXPECT_EQ(run.setup.peak_tflops_per_device, 989);
  EXPECT_EQ(run.allocation, "slurm 4711");
  EXPECT_TRUE(run.setup.tags.empty());  // the group took no part in the match
  EXPECT_EQ(run.steps.samples, std::vector<double>(3, 1232.0 * 64));
}

TEST(Meta, OtherGroupsBecomeTagsAndAPathThatDoesNotMatchIsTold) {
  RunData run = run_at("/logs/tree_n4/out.log");
  apply_meta(run, {.path_pattern = R"(/(?<algorithm>\w+)_n(?<nodes>\d+))"});
  EXPECT_EQ(run.setup.tags, (std::map<std::string, std::string>{{"algorithm", "tree"}}));
  EXPECT_EQ(run.setup.nodes, 4);
  apply_meta(run, {.path_pattern = "(?<nodes>never)"});
  EXPECT_TRUE(says(run.problems, "does not match its path"));
}

TEST(Meta, AGroupThatMayBeMisspeltNamesTheFactItResembles) {
  for (const auto& [group, meant] : {std::pair{"nods", "nodes"},
                                     {"devces", "devices"},
                                     {"precison", "precision"},
                                     {"global_bach", "global_batch"}}) {
    RunData run = run_at("/logs/tree_n4/out.log");
    apply_meta(run, {.path_pattern = fmt::format("_n(?<{}>[0-9]+)", group)});
    EXPECT_TRUE(says(
        run.problems,
        fmt::format(
            "the group '{}' is no fact and was taken for a tag that tells configurations apart; did you mean '{}'?",
            group, meant)))
        << group;
    EXPECT_EQ(run.setup.tags.count(group), 1u);
  }
  for (const char* tag : {"algorithm", "case", "lr", "run", "repeat", "seed", "variant", "v"}) {
    RunData run = run_at("/logs/tree_n4/out.log");
    apply_meta(run, {.path_pattern = fmt::format("_n(?<{}>[0-9]+)", tag)});
    EXPECT_FALSE(says(run.problems, "did you mean")) << tag << ": " << core::join(run.problems, "|");
  }
}

TEST(Meta, LaterSourcesWin) {
  const core::TempDir folder;
  const fs::path file = folder.path() / "facts.toml";
  std::ofstream(file) << "nodes = 8\nsystem = \"JUPITER\"\nforward_gflops = 14.78\nsynthetic = true\n[tags]\nfabric = "
                         "\"NDR\"\nchannels = 16\n";
  RunData run = run_at("/logs/a_n4/out.log");
  apply_meta(run, {.path_pattern = R"(n(?<nodes>\d+))", .file = file, .values = {{"system", "Leonardo"}}});
  EXPECT_EQ(run.setup.nodes, 8);
  EXPECT_EQ(run.setup.system, "Leonardo");
  EXPECT_EQ(run.setup.forward_gflops_per_sample, 14.78);
  EXPECT_EQ(run.setup.is_synthetic, true);
  EXPECT_EQ(run.setup.tags, (std::map<std::string, std::string>{{"fabric", "NDR"}, {"channels", "16"}}));
}

TEST(Meta, WhatContradictsTheLogIsTold) {
  RunData run = run_at("/logs/a/out.log");
  run.setup.nodes = 4, run.setup.model = "tiny";
  apply_meta(run, {.values = {{"nodes", "8"}, {"model", "tiny"}}});
  EXPECT_EQ(run.setup.nodes, 8);
  ASSERT_EQ(run.problems.size(), 1u);
  EXPECT_EQ(run.problems[0], "nodes: the log says 4, you say 8; yours is used");
}

TEST(Meta, ModelParallelLayoutsHaveFewerReplicasThanDevices) {
  RunData run = run_at("/logs/a/out.log");
  apply_meta(run, {.values = {{"layout", "dp=2 tp=4 pp=8"}, {"devices", "64"}, {"samples_per_device", "16"}}});
  EXPECT_EQ(run.setup.global_batch, 32);
  RunData unknown = run_at("/logs/a/out.log");
  apply_meta(unknown, {.values = {{"layout", "tp=4 pp=8"}, {"devices", "64"}, {"samples_per_device", "16"}}});
  EXPECT_FALSE(unknown.setup.global_batch);
}

TEST(Meta, NodesFollowFromDevicesAndDevicesFromNodes) {
  const auto told = [](std::optional<int64_t> nodes, std::optional<int64_t> devices) {
    RunData run = run_at("/logs/a/out.log");
    run.setup.nodes = nodes, run.setup.devices = devices;
    apply_meta(run, {.values = {{"devices_per_node", "4"}}});
    return run;
  };
  EXPECT_EQ(told({}, 16).setup.nodes, 4);
  EXPECT_EQ(told({}, 2).setup.nodes, 1);
  EXPECT_EQ(told(3, {}).setup.devices, 12);
  EXPECT_TRUE(told({}, 16).problems.empty());
  const RunData odd = told({}, 6);
  EXPECT_FALSE(odd.setup.nodes);
  ASSERT_EQ(odd.problems.size(), 1u);
  EXPECT_NE(odd.problems[0].find("6 devices fill no whole number of nodes of 4"), std::string::npos) << odd.problems[0];
  EXPECT_FALSE(told({}, {}).setup.nodes);
}

TEST(Meta, MistakesAreUsageErrorsWithAHint) {
  EXPECT_NE(usage_error({.path_pattern = "(?<nodes>\\d+"}).find("at character"), std::string::npos);
  EXPECT_NE(usage_error({.path_pattern = "n\\d+"}).find("no named group"), std::string::npos);
  EXPECT_NE(usage_error({.path_pattern = "(?<nodes>a)"}).find("'a', expected a whole number above 0"),
            std::string::npos);
  EXPECT_NE(usage_error({.values = {{"nodse", "4"}}}).find("did you mean 'nodes'?"), std::string::npos);
  EXPECT_NE(usage_error({.values = {{"nodes", "0"}}}).find("above 0"), std::string::npos);
  EXPECT_NE(usage_error({.values = {{"nodes", "999999999999"}, {"devices_per_node", "999999999999"}}})
                .find("more than any run has"),
            std::string::npos);
  EXPECT_NE(usage_error({.values = {{"peak_tflops", "inf"}}}).find("above 0"), std::string::npos);
  EXPECT_NE(usage_error({.values = {{"synthetic", "maybe"}}}).find("true or false"), std::string::npos);
  const core::TempDir folder;
  std::ofstream(folder.path() / "bad.toml") << "nodes = 4\nx y\n";
  EXPECT_NE(usage_error({.file = folder.path() / "bad.toml"}).find("line 2"), std::string::npos);
  std::ofstream(folder.path() / "list.toml") << "nodes = [4]\n";
  EXPECT_NE(usage_error({.file = folder.path() / "list.toml"}).find("'nodes' is no text"), std::string::npos);
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  std::ofstream(folder.path() / "deep.toml") << "nodes = 4\n" << key << " = 1\n";
  EXPECT_NE(usage_error({.file = folder.path() / "deep.toml"}).find("line 2: a key has more than 64 parts"),
            std::string::npos);
  EXPECT_THROW(usage_error({.file = folder.path() / "missing.toml"}), EnvironmentError);
  const std::string explodes =
      usage_error({.path_pattern = "(?<x>(a+)+)(?:\\d|!)"}, "/logs/" + std::string(40, 'a') + "/out.log");
  EXPECT_NE(explodes.find("gives up"), std::string::npos);  // 2^40 ways to try
}

TEST(Meta, MissingFactsAreAskedForByName) {
  RunData run = run_at("/logs/a/out.log");
  const auto names = [&] {
    std::vector<std::string> found;
    for (const MissingFact& fact : missing_facts(run)) found.push_back(fact.name);
    return core::join(found, " ");
  };
  EXPECT_EQ(names(), "nodes devices model global_batch samples_per_device precision forward_gflops peak_tflops");
  EXPECT_NE(missing_facts(run)[0].how.find("(?<nodes>"), std::string::npos);
  EXPECT_NE(missing_facts(run).back().how.find("peak_tflops=NUMBER"), std::string::npos) << "no device is known";
  apply_meta(run, {.values = {{"nodes", "1"},
                              {"devices", "4"},
                              {"batch", "8"},
                              {"model", "m"},
                              {"precision", "bf16"},
                              {"peak_tflops", "989"},
                              {"task", "gpt"}}});
  EXPECT_EQ(names(), "sequence_length forward_gflops");
  apply_meta(run, {.values = {{"sequence_length", "128"}, {"forward_gflops", "2"}}});
  EXPECT_EQ(names(), "");
  EXPECT_EQ(run.steps.tokens[0], 8 * 4 * 128);
}

TEST(Meta, HintsNameAModelOfTheKindThatTheRunTrains) {
  const auto hints_of = [](const std::string& task, const std::string& format, const std::string& model = "") {
    RunData run;
    run.setup.model = model;
    run.format = format;
    run.setup.task = task;
    run.steps.step = {0};
    std::string text;
    for (const MissingFact& fact : missing_facts(run)) text += fact.how + "\n";
    return text;
  };
  EXPECT_NE(hints_of("", "openclip").find("model=ViT-B-32"), std::string::npos);
  EXPECT_NE(hints_of("clip", "openclip").find("forward_gflops=14.78"), std::string::npos);
  EXPECT_NE(hints_of("clip", "openclip", "ViT-B-32").find("forward_gflops=14.78"), std::string::npos);
  const std::string of_another = hints_of("clip", "openclip", "ViT-L-14");
  EXPECT_NE(of_another.find("forward_gflops=NUMBER"), std::string::npos) << of_another;
  EXPECT_NE(hints_of("gpt", "megatron").find("model=llama3-8b"), std::string::npos);
  EXPECT_NE(hints_of("resnet", "imagenet").find("model=resnet50"), std::string::npos);
  for (const char* task : {"gpt", "resnet", "clap", ""})
    EXPECT_EQ(hints_of(task, "nemo").find("ViT"), std::string::npos) << task;
}

}  // namespace
}  // namespace lockstep::record
