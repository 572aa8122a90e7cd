#include "analysis/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "analysis/curve.h"
#include "analysis/curve_names.h"
#include "analysis/text.h"
#include "core/strings.h"
#include "draw/text_metrics.h"
#include "unit/analysis/synthetic_runs.h"

namespace lockstep::analysis {
namespace {

using tests::analysis_of;
using tests::make_run;

using Options = std::map<std::string, std::string>;

/// A run of one node (or more) that recorded these options beside the usual ones.
record::RunData run_with(const std::string& name, const Options& options, int64_t nodes = 1) {
  record::RunData run = make_run({.name = name, .nodes = nodes, .num_steps = 200, .job = "slurm " + name});
  run.options = {{"name", name},          {"grad_checkpointing", "false"},
                 {"local_loss", "false"}, {"train_data", "/data/a/{0..9}.tar"},
                 {"workers", "4"},        {"seed", "0"},
                 {"lr", "0.001"},         {"batch_size", "8"},
                 {"max_steps", "200"}};
  for (const auto& [key, value] : options) run.options[key] = value;
  return run;
}

std::string words_of(const Analysis& analysis) {
  std::string words;
  for (const Curve& curve : analysis.curves) words += core::join(limits_of(curve), "\n") + "\n";
  return words;
}

TEST(Settings, RunsThatDifferInAnyOptionOfTheWorkAreNoRepeats) {
  for (const auto& [key, value, told] : {std::tuple{"grad_checkpointing", "true", "grad-checkpointing true"},
                                         {"local_loss", "true", "local-loss true"},
                                         {"train_data", "/data/b/{0..9}.tar", "train-data .../b/..."},
                                         {"workers", "8", "workers 8"}}) {
    const Analysis analysis = analysis_of({run_with("one", {}), run_with("two", {{key, value}})});
    ASSERT_EQ(analysis.curves.size(), 2u) << key;
    for (const Curve& curve : analysis.curves) EXPECT_EQ(curve.points.at(0).runs.size(), 1u) << key;
    EXPECT_NE(analysis.curves[0].name, analysis.curves[1].name);
    EXPECT_NE((analysis.curves[0].name + analysis.curves[1].name).find(told), std::string::npos)
        << analysis.curves[0].name << analysis.curves[1].name;
  }
}

TEST(Settings, AnOptionThatWasLeftUnsetIsCalledThat) {
  const Analysis analysis =
      analysis_of({run_with("one", {{"grad_clip_norm", "null"}}), run_with("two", {{"grad_clip_norm", "1.0"}})});
  ASSERT_EQ(analysis.curves.size(), 2u);
  const std::string names = analysis.curves[0].name + "\n" + analysis.curves[1].name;
  EXPECT_NE(names.find("grad-clip-norm unset"), std::string::npos) << names;
  EXPECT_EQ((names + words_of(analysis)).find("null"), std::string::npos) << names << words_of(analysis);
}

TEST(Settings, NameSeedAndLengthDoNotPartRepeats) {
  const Analysis analysis = analysis_of(
      {run_with("one", {}),
       run_with("two", {{"seed", "1"}, {"max_steps", "400"}, {"logs", "/elsewhere"}, {"resume", "latest"}})});
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_EQ(analysis.curves[0].points.at(0).runs.size(), 2u);
  EXPECT_TRUE(analysis.curves[0].remarks.empty()) << words_of(analysis);
}

TEST(Settings, WhatCannotMatterPartsNoRunsAndOnlyTheUncommonIsNamed) {
  std::vector<record::RunData> runs = {run_with("one", {}), run_with("two", {{"log_every_n_steps", "10"}}),
                                       run_with("three", {{"report_to", "tensorboard"}}),
                                       run_with("four", {{"workers", "8"}}),
                                       run_with("five", {{"grad_checkpointing", "true"}})};
  for (size_t i = 0; i < 3; ++i) {
    runs[i].setup.is_on_cpu = true;
    runs[i].software["NCCL_SOCKET_IFNAME"] = fmt::format("eth{}", i);
  }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 3u);
  std::set<std::string> names;
  for (const Curve& curve : analysis.curves) names.insert(curve.name);
  EXPECT_EQ(names, (std::set<std::string>{"ViT-B-32, bf16", "ViT-B-32, bf16, workers 8",
                                          "ViT-B-32, bf16, grad-checkpointing true"}));
  runs.push_back(run_with("six", {}));
  runs.back().options.erase("local_loss");
  names.clear();
  for (const Curve& curve : analysis_of(runs).curves) names.insert(curve.name);
  EXPECT_TRUE(names.contains("ViT-B-32, bf16, local-loss unset"))
      << core::join(std::vector<std::string>(names.begin(), names.end()), "\n");
  runs[0].setup.is_on_cpu = runs[1].setup.is_on_cpu = false;
  EXPECT_EQ(analysis_of({runs[0], runs[1]}).curves.size(), 2u) << "on accelerators they matter";
}

/// A GPT run of ours, or one that Megatron-LM logged.
record::RunData gpt_run(const std::string& name, const std::string& format, const Options& options) {
  record::RunData run = make_run({.name = name, .num_steps = 200, .job = "slurm " + name});
  run.format = format;
  run.setup.task = "gpt";
  run.options = {{"overlap_grad_reduce", "false"}, {"use_flash_attn", "false"}, {"recompute_activations", "false"}};
  for (const auto& [key, value] : options) run.options[key] = value;
  return run;
}

TEST(Settings, FlagsThatChangeNothingHerePartRunsOfTheProgramThatTheyChange) {
  for (const char* option : {"overlap_grad_reduce", "use_flash_attn", "recompute_activations"})
    for (const auto& [format, num_curves] : {std::pair("lockstep", 1u), std::pair("megatron", 2u)}) {
      const Analysis analysis = analysis_of({gpt_run("one", format, {}), gpt_run("two", format, {{option, "true"}})});
      EXPECT_EQ(analysis.curves.size(), num_curves) << option << " " << format;
    }
  EXPECT_EQ(analysis_of({gpt_run("one", "lockstep", {{"recompute_granularity", "selective"}}),
                         gpt_run("two", "lockstep", {{"recompute_granularity", "full"}})})
                .curves.size(),
            2u);
}

TEST(Settings, AnOptionThatChangesWithTheSizeIsNamed) {
  const Analysis analysis = analysis_of({run_with("n1", {}), run_with("n2", {{"grad_checkpointing", "true"}}, 2)});
  ASSERT_EQ(analysis.curves.size(), 1u);
  EXPECT_EQ(analysis.curves[0].kind, ScalingKind::kMixed);
  EXPECT_NE(analysis.curves[0].kind_reason.find("grad-checkpointing (false, true)"), std::string::npos)
      << analysis.curves[0].kind_reason;
}

TEST(Settings, TheLearningRateMayFollowTheSizeButPartsRunsOfOneSize) {
  const Analysis follows =
      analysis_of({run_with("n1", {}), run_with("n2", {{"lr", "0.002"}}, 2), run_with("n2b", {{"lr", "0.002"}}, 2)});
  ASSERT_EQ(follows.curves.size(), 1u);
  EXPECT_EQ(follows.curves[0].kind, ScalingKind::kWeak) << follows.curves[0].kind_reason;
  EXPECT_EQ(follows.curves[0].points.at(1).runs.size(), 2u);
  EXPECT_NE(words_of(follows).find("lr (0.001, 0.002)"), std::string::npos) << words_of(follows);
  const Analysis array =
      analysis_of({run_with("a", {}), run_with("b", {{"lr", "0.002"}}), run_with("c", {{"lr", "0.002"}})});
  ASSERT_EQ(array.curves.size(), 2u);
  EXPECT_EQ(array.curves[0].points.at(0).runs.size() + array.curves[1].points.at(0).runs.size(), 3u);
}

TEST(Settings, SoftwareThatDiffersAtOneSizePartsRunsAndWhatTellsTheJobDoesNot) {
  std::vector<record::RunData> runs;
  for (const auto& [name, algorithm] :
       {std::pair{"a", "Ring"}, {"b", "Tree"}, {"c", "Ring"}, {"d", "Tree"}, {"e", ""}}) {
    runs.push_back(run_with(name, {}));
    runs.back().software = {
        {"lockstep", "0.1.0"}, {"host", name}, {"SLURM_JOB_NODELIST", name}, {"CUDA_VISIBLE_DEVICES", name}};
    if (*algorithm != 0) runs.back().software["NCCL_ALGO"] = algorithm;
  }
  const Analysis parted = analysis_of(runs);
  ASSERT_EQ(parted.curves.size(), 3u);
  std::map<std::string, size_t> num_runs;
  for (const Curve& curve : parted.curves)
    for (const char* told : {"NCCL_ALGO Ring", "NCCL_ALGO Tree", "NCCL_ALGO unset"})
      if (curve.name.find(told) != std::string::npos) num_runs[told] = curve.points.at(0).runs.size();
  EXPECT_EQ(num_runs,
            (std::map<std::string, size_t>{{"NCCL_ALGO Ring", 2}, {"NCCL_ALGO Tree", 2}, {"NCCL_ALGO unset", 1}}));
  for (record::RunData& run : runs) run.software["NCCL_ALGO"] = "Ring";
  const Analysis pooled = analysis_of(runs);
  ASSERT_EQ(pooled.curves.size(), 1u);
  EXPECT_EQ(pooled.curves[0].points.at(0).runs.size(), 5u);
}

TEST(Settings, AnAxisOfASweepIsACurveOfItsOwnAndNamedOnce) {
  std::vector<record::RunData> runs;
  for (const int nodes : {1, 2})
    for (const char* value : {"false", "true"}) {
      runs.push_back(run_with(fmt::format("n{}{}", nodes, value), {{"grad_checkpointing", value}}, nodes));
      runs.back().setup.tags = {{"grad-checkpointing", value}};
    }
  const Analysis analysis = analysis_of(runs);
  ASSERT_EQ(analysis.curves.size(), 2u);
  for (const Curve& curve : analysis.curves) {
    EXPECT_EQ(curve.kind, ScalingKind::kWeak) << curve.kind_reason;
    EXPECT_EQ(curve.points.size(), 2u);
    const size_t first = curve.name.find("grad-checkpointing");
    EXPECT_NE(first, std::string::npos) << curve.name;
    EXPECT_EQ(curve.name.find("grad-checkpointing", first + 1), std::string::npos) << curve.name;
  }
}

/// A run of another program whose log holds its options.
record::RunData run_with(const std::string& format, const std::string& name, const Options& options, int64_t nodes) {
  record::RunData run = make_run({.name = name, .nodes = nodes, .num_steps = 200, .job = "slurm " + name});
  run.format = format;
  run.options = options;
  return run;
}

TEST(Settings, OptionsInLogsOfOtherPrograms) {
  const auto clip = [](const std::string& name, int64_t nodes, const std::string& checkpointing) {
    return run_with("openclip", name,
                    {{"grad_checkpointing", checkpointing},
                     {"name", name},
                     {"log_path", "/logs/" + name},
                     {"checkpoint_path", "/logs/" + name},
                     {"rank", name},
                     {"local_rank", "0"},
                     {"distributed", nodes > 1 ? "True" : "False"},
                     {"world_size", std::to_string(nodes)},
                     {"tensorboard_path", name},
                     {"wandb", name},
                     {"train_num_samples", std::to_string(nodes * 1000)},
                     {"dist_url", name},
                     {"device", "cuda:" + name},
                     {"workers", "8"}},
                    nodes);
  };
  const Analysis same = analysis_of({clip("1", 1, "False"), clip("2", 2, "False"), clip("3", 4, "False")});
  ASSERT_EQ(same.curves.size(), 1u);
  EXPECT_EQ(same.curves[0].kind, ScalingKind::kWeak) << same.curves[0].kind_reason;
  EXPECT_EQ(words_of(same).find("do not tell their options"), std::string::npos);
  const Analysis parted = analysis_of({clip("1", 1, "False"), clip("2", 2, "False"), clip("3", 4, "True")});
  ASSERT_EQ(parted.curves.size(), 2u);
  EXPECT_NE(parted.curves[1].name.find("grad-checkpointing True"), std::string::npos) << parted.curves[1].name;
}

TEST(Settings, OptionsOfMegatronThatFollowTheSizeDoNotPartACurve) {
  const auto gpt = [](int64_t nodes, const std::string& recompute) {
    const std::string size = std::to_string(nodes);
    return run_with("megatron", "n" + size,
                    {{"recompute_granularity", recompute},
                     {"world_size", size},
                     {"data_parallel_size", size},
                     {"global_batch_size", size},
                     {"save", "/save/" + size},
                     {"lr_decay_iters", size},
                     {"rank", "0"},
                     {"tensorboard_dir", size},
                     {"train_iters", size},
                     {"micro_batch_size", "1"}},
                    nodes);
  };
  const Analysis same = analysis_of({gpt(1, "None"), gpt(2, "None"), gpt(4, "None")});
  ASSERT_EQ(same.curves.size(), 1u);
  EXPECT_EQ(same.curves[0].kind, ScalingKind::kWeak) << same.curves[0].kind_reason;
  EXPECT_EQ(analysis_of({gpt(1, "None"), gpt(2, "None"), gpt(4, "full")}).curves.size(), 2u);
}

TEST(Settings, UnknownOptionsAreNeverPooledWithKnownOnesAndPoolingThemIsSaid) {
  const record::RunData known = run_with("known", {});
  record::RunData unknown = run_with("old", {}), other = run_with("older", {});
  unknown.options.clear(), other.options.clear();
  const Analysis analysis = analysis_of({known, unknown, other});
  ASSERT_EQ(analysis.curves.size(), 2u);
  std::vector<size_t> sizes;
  for (const Curve& curve : analysis.curves) sizes.push_back(curve.points.at(0).runs.size());
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 2}));
  const std::string words = words_of(analysis);
  EXPECT_NE(words.find("2 runs here do not tell their options"), std::string::npos) << words;
  EXPECT_NE(words.find("not counted as repeats of those whose options are recorded"), std::string::npos) << words;
  EXPECT_NE((analysis.curves[0].name + analysis.curves[1].name).find("options unknown"), std::string::npos);
}

/// Names of all curves, which are one line each and no two of them alike.
std::set<std::string> names_of(const Analysis& analysis) {
  std::set<std::string> names;
  for (const Curve& curve : analysis.curves) {
    EXPECT_LE(curve.name.size(), 70u) << curve.name;
    EXPECT_EQ(curve.name.find('\n'), std::string::npos) << curve.name;
    EXPECT_TRUE(names.insert(curve.name).second) << "two curves are named " << curve.name;
  }
  return names;
}

TEST(CurveNames, TellBatchesOfOneConfigurationApart) {
  std::vector<record::RunData> runs;
  for (const int64_t nodes : {1, 2})
    for (const int64_t local : {8, 16})
      runs.push_back(
          make_run({.name = fmt::format("n{}-b{}", nodes, local), .nodes = nodes, .samples_per_device = local}));
  EXPECT_EQ(names_of(analysis_of(runs)),
            (std::set<std::string>{"ViT-B-32, bf16, local batch 8", "ViT-B-32, bf16, local batch 16"}));
  EXPECT_EQ(names_of(analysis_of(
                {make_run({.name = "a", .samples_per_device = 8}), make_run({.name = "b", .samples_per_device = 32})})),
            (std::set<std::string>{"ViT-B-32, bf16, global batch 32", "ViT-B-32, bf16, global batch 128"}));
}

TEST(CurveNames, TellProgramsAndDevicesApart) {
  std::vector<record::RunData> runs = {make_run({.name = "a"}), make_run({.name = "b"}), make_run({.name = "c"})};
  runs[1].format = "openclip";
  runs[2].setup.device = "NVIDIA A100";
  EXPECT_EQ(names_of(analysis_of(runs)),
            (std::set<std::string>{"ViT-B-32, bf16, openclip", "ViT-B-32, bf16, lockstep, NVIDIA A100",
                                   "ViT-B-32, bf16, lockstep, NVIDIA GH200"}));
}

TEST(CurveNames, OfManyDifferencesStayOneLineAndTheRestIsARemark) {
  std::vector<record::RunData> runs;
  for (int i = 0; i < 24; ++i)
    runs.push_back(run_with(fmt::format("run{}", i),
                            {{"workers", std::to_string(i % 4)},
                             {"train_data", fmt::format("/data/a-folder-with-a-long-name-{}/shards/{{0..99}}.tar", i)},
                             {"grad_checkpointing", i % 2 == 0 ? "true" : "false"},
                             {"local_loss", i % 3 == 0 ? "true" : "false"},
                             {"lr", fmt::format("0.00{}", i + 1)}}));
  const Analysis analysis = analysis_of(runs);
  EXPECT_EQ(names_of(analysis).size(), 24u);
  for (const Curve& curve : analysis.curves) {
    if (curve.name.find(" more") == std::string::npos) continue;
    EXPECT_NE(core::join(curve.remarks, "\n").find("The whole name of this configuration: ViT-B-32, bf16, "),
              std::string::npos)
        << words_of(analysis);
  }
  EXPECT_NE(words_of(analysis).find("The whole name"), std::string::npos);
}

TEST(CurveNames, AreCutBetweenCharacters) {
  std::vector<record::RunData> runs;
  for (const std::string begin : {"", "x"}) {  // one of them is cut where a character is, whatever the place
    runs.push_back(make_run({.name = "run" + begin, .model = begin}));
    for (int i = 0; i < 60; ++i) runs.back().setup.model += "\u00e9";
  }
  for (const Curve& curve : analysis_of(runs).curves) {
    EXPECT_LE(curve.name.size(), kMaxNameLength);
    EXPECT_EQ(draw::clean_text(curve.name), curve.name) << "a broken character becomes another one";
  }
}

/// A run on processor cores.
record::RunData cpu_run(const std::string& name, int64_t ranks, int64_t threads, double step_ms) {
  record::RunData run = make_run({.name = name, .devices_per_node = ranks, .step_ms = step_ms, .num_steps = 200});
  run.setup.is_on_cpu = true;
  run.setup.device = "AMD EPYC 7742";
  run.setup.threads_per_device = threads;
  return run;
}

TEST(Settings, RunsWithOtherThreadsAreNoRepeats) {
  const Analysis analysis = analysis_of({cpu_run("a", 1, 1, 400), cpu_run("b", 1, 4, 110), cpu_run("c", 1, 4, 111)});
  EXPECT_EQ(names_of(analysis),
            (std::set<std::string>{"ViT-B-32, bf16, threads per rank 1", "ViT-B-32, bf16, threads per rank 4"}));
  for (const Curve& curve : analysis.curves)
    EXPECT_EQ(curve.points.at(0).runs.size(), core::ends_with(curve.name, "4") ? 2u : 1u) << curve.name;
}

TEST(Settings, ThreadsMayFollowTheSizeWhereCoresAreShared) {
  EXPECT_EQ(analysis_of({cpu_run("a", 1, 8, 100), cpu_run("b", 2, 4, 104), cpu_run("c", 4, 2, 110)}).curves.size(), 1u);
  const Analysis analysis =
      analysis_of({cpu_run("a", 1, 8, 100), cpu_run("b", 2, 4, 104), cpu_run("c", 4, 2, 110), cpu_run("d", 4, 1, 200)});
  ASSERT_EQ(analysis.curves.size(), 2u);
  std::set<size_t> sizes;
  for (const Curve& curve : analysis.curves) sizes.insert(curve.points.size());
  EXPECT_EQ(sizes, (std::set<size_t>{1, 3})) << "of eight threads a node, and of four";
}

}  // namespace
}  // namespace lockstep::analysis
