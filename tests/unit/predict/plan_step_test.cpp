// Predictions from the plan of a command: they hold what its dry run prints.
#include "predict/plan_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "commands/commands.h"
#include "core/error.h"
#include "plan/pipe_schedule.h"
#include "predict/advise.h"
#include "predict/bucket_overlap.h"
#include "predict/budget.h"
#include "predict/machine_file.h"
#include "predict/sweep_points.h"

namespace lockstep::predict {
namespace {

std::string recipe(const char* name) {
  return (std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "recipes" / name).string();
}

PlannedCommand nemotron() {
  return {.words = {"train", "gpt", "--config", recipe("gpt_nemotron4_340b_h100.toml")}, .samples_per_device = 0.25};
}

std::vector<PlannedStep> planned(const PlannedCommand& command, const Machine& machine,
                                 const std::vector<int64_t>& nodes) {
  std::vector<std::string> refused;
  return plan_steps(command, machine, nodes, refused);
}

TEST(PlanStep, HoldsWhatTheDryRunPrints) {
  const Machine machine = find_machine("dgx-h100");
  for (const PlannedStep& step : planned(nemotron(), machine, {16, 256})) {
    auto words = nemotron().words;
    words.insert(words.end(), {"--dry-run", "--world-size=" + std::to_string(step.num_ranks),
                               "--global-batch-size=" + std::to_string(step.num_ranks / 4)});
    const commands::ParsedCommand command = commands::parse_command(words);
    const tasks::DryRunPage page =
        command.task->dry_run(*command.set, {.num_ranks = step.num_ranks, .source = "test", .ranks_per_node = 8});
    EXPECT_EQ(step.memory_bytes, page.memory_bytes);
    EXPECT_GT(step.memory_bytes, 40e9);
    EXPECT_EQ(step.global_batch, step.num_ranks / 4);
    EXPECT_EQ(step.tp * step.pp * step.dp, step.num_ranks);
    EXPECT_EQ(step.tokens_per_sample, 4096);
    EXPECT_NEAR(step.parameters_per_rank, 341e9 / 64, 0.1 * 341e9 / 64);
  }
}

TEST(PlanStep, Fp32RunsAsTf32WhereFlagsAndDeviceHaveIt) {
  const auto peak = [](std::vector<std::string> words, const Machine& machine) {
    words.insert(words.begin(), "train");
    const std::vector<PlannedStep> steps = planned({.words = words}, machine, {1});
    for (const KnownFact& fact : model_of(steps, machine).facts)
      if (fact.name == "peak") return fact.value;
    return std::string();
  };
  const std::vector<std::string> resnet = {"imagenet", "-a", "resnet50", "--dummy", "-b", "1024"},
                                 clip = {
                                     "clip",         "--model", "ViT-B-32",    "--dataset-type", "synthetic",
                                     "--batch-size", "64",      "--precision", "fp32",           "--train-num-samples",
                                     "100000"};
  const auto with = [](std::vector<std::string> words, const char* flag) {
    words.emplace_back(flag);
    return words;
  };
  const Machine a100 = find_machine("JUWELS");
  EXPECT_EQ(peak(resnet, a100), "156 TFLOP/s tf32") << "convolutions do by default";
  EXPECT_EQ(peak(with(resnet, "--no-cudnn-tf32"), a100), "19.5 TFLOP/s fp32");
  EXPECT_EQ(peak(with(resnet, "--amp"), a100).substr(0, 11), "312 TFLOP/s");
  EXPECT_EQ(peak(clip, a100), "156 TFLOP/s tf32") << "as OpenCLIP's products";
  EXPECT_EQ(peak(with(clip, "--no-tf32"), a100), "19.5 TFLOP/s fp32");
  const std::string amd = peak(resnet, find_machine("LUMI-G"));
  EXPECT_NE(amd.find(" fp32"), std::string::npos) << amd;
}

// Thousands of shards at each size are not asked for: nobody reads of a plan whether they are here.
TEST(PlanStep, PlansDoNotLookForTheData) {
  const auto num_missing = [](const std::vector<std::string>& words, bool asks) {
    commands::ParsedCommand command = commands::parse_command(words);
    commands::read_files(command);
    return command.task
        ->dry_run(*command.set, {.num_ranks = 8, .source = "test", .ranks_per_node = 8, .asks_for_inputs = asks})
        .missing.size();
  };
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", "clip", "--config", recipe("clip_vitg14_dgx.toml"), "--dry-run"},
           {"train", "imagenet", "/no/pictures", "--train-num-samples=1000", "--dry-run"}}) {
    EXPECT_GT(num_missing(words, true), 0u) << words[1];
    EXPECT_EQ(num_missing(words, false), 0u) << words[1];
  }
}

// The share that the model works with is that of the schedule as it is played, pass by pass, with the head's work.
TEST(PlanStep, IdleTimeIsThatOfThePlayedSchedule) {
  const PlannedStep step = planned(nemotron(), find_machine("dgx-h100"), {16}).at(0);
  const plan::PipeShape shape{.kind = plan::ScheduleKind::kInterleaved,
                              .num_stages = static_cast<int>(step.pp),
                              .num_chunks = 12,
                              .num_micro_batches = step.num_micro};
  const plan::PipeSchedule schedule = plan::make_pipe_schedule(shape);
  const double hidden = 18432, ffn = 73728, vocab = 256000, sequence = 4096, key_width = 8 * 192;
  const double layer = 2 * hidden * hidden + 2 * hidden * key_width + 2 * hidden * ffn + sequence * hidden;
  std::vector<double> parts(static_cast<size_t>(step.pp * 12), layer);
  parts.back() += hidden * vocab;
  EXPECT_NEAR(step.bubble, plan::idle_over_work(schedule, parts), 0.002);
  EXPECT_GT(step.bubble, plan::bubble_over_ideal(shape) + 0.05);
}

TEST(PlanStep, AContrastiveCommandHasGradientsAndGathers) {
  const PlannedCommand command{.words = {"train", "clip", "--config", recipe("clip_vitg14_dgx.toml")}};
  const Machine machine = find_machine("dgx-h100");
  const auto steps = planned(command, machine, {1, 2, 4});
  ASSERT_EQ(steps.size(), 3u);
  // 80 pairs a device, 581.15 GFLOP forward each.
  EXPECT_NEAR(steps[0].flops_per_rank, 80 * 3 * 581.15e9, 0.01 * 80 * 3 * 581.15e9);
  const PlannedModel model = model_of(steps, machine);
  // Features of 1024 fp32 numbers of both towers, from 8 devices of a node over 400 GB/s: there, and nothing back.
  EXPECT_NEAR(model.setting.gather_s, 2 * 1024 * 4 * 80 * 8 / 400e9, 1e-9);
  EXPECT_NEAR(model.setting.gather_hop_s, 2 * 5e-6, 1e-12) << "a gather of features, one of log-sum-exps";
  EXPECT_GT(model.setting.logits_s, 0);
  EXPECT_NEAR(std::accumulate(model.setting.bucket_shares.begin(), model.setting.bucket_shares.end(), 0.0), 1, 1e-9);
  const CurvePrediction prediction = predict_steps(model, steps, {});
  EXPECT_EQ(prediction.forecast.steps.size(), 3u);
  EXPECT_GT(prediction.forecast.steps[2].step_s.p50, prediction.forecast.steps[0].step_s.p50);
  // Other programs send the gradients of features back (OpenCLIP's --gather-with-grad).
  WorkFacts of_table{.local_batch = 80};
  ASSERT_TRUE(take_model("ViT-g-14", "test", of_table));
  std::vector<KnownFact> facts;
  EXPECT_NEAR(make_setting(of_table, machine, 8, 1, true, facts).gather_s, 2 * model.setting.gather_s, 1e-9);
}

TEST(PlanStep, AGatherIsOfTheSamplesThatADeviceHas) {
  const PlannedCommand strong{.words = {"train", "clip", "--config", recipe("clip_vitb32_dgx.toml"),
                                        "--global-batch-size=32768", "--batch-size=128"}};
  const Machine machine = find_machine("dgx-h100");
  const auto from_one = planned(strong, machine, {1, 32}), alone = planned(strong, machine, {32});
  ASSERT_EQ(from_one.size(), 2u);
  const CurvePrediction beside = predict_steps(model_of(from_one, machine), from_one, {}),
                        single = predict_steps(model_of(alone, machine), alone, {});
  const double gather_s = single.forecast.steps.at(0).parts_s[kGather];
  EXPECT_GT(gather_s, 1e-3);
  EXPECT_NEAR(beside.forecast.steps.at(1).parts_s[kGather], gather_s, 0.02 * gather_s);
  // A sixteenth of the samples of a device, features of 32 nodes: hardly more than one node gathers of all.
  EXPECT_LT(beside.forecast.steps.at(1).step_s.p50, beside.forecast.steps.at(0).step_s.p50 / 8);
}

// What no term explains is the same whichever other sizes are asked for, in strong scaling, too.
TEST(PlanStep, UnexplainedSecondsDoNotDependOnTheSizesAskedFor) {
  const PlannedCommand strong{.words = {"train", "clip", "--config", recipe("clip_vitb32_dgx.toml"),
                                        "--global-batch-size=32768", "--batch-size=128"}};
  const Machine machine = find_machine("dgx-h100");
  const auto unexplained_s = [&](const std::vector<int64_t>& nodes, const std::vector<MeasuredStep>& measured) {
    const auto steps = planned(strong, machine, nodes);
    EXPECT_EQ(steps.size(), nodes.size());
    return predict_steps(model_of(steps, machine), steps, measured).forecast.steps.back().parts_s[kUnexplained];
  };
  const double alone = unexplained_s({32}, {}), measured = unexplained_s({4, 32}, {{4, 0.5}});
  EXPECT_GT(alone, 1e-4);
  EXPECT_NEAR(unexplained_s({1, 32}, {}), alone, 1e-6 * alone);
  EXPECT_NEAR(unexplained_s({1, 2, 8, 32}, {}), alone, 1e-6 * alone);
  EXPECT_NEAR(unexplained_s({1, 4, 32}, {{4, 0.5}}), measured, 0.03 * measured);
}

TEST(PlanStep, GradientsTravelUnderTheLastMicroBatchOfTheirOwnSize) {
  const std::vector<std::string> words = {
      "train",       "gpt",    "--model=gpt3-1.3b", "--micro-batch-size=1", "--train-iters=50",
      "--mock-data", "--bf16", "--lr=1e-4"};
  PlannedCommand strong{.words = words};
  strong.words.emplace_back("--global-batch-size=512");
  const PlannedCommand weak{.words = words, .samples_per_device = 1};
  const Machine machine = find_machine("dgx-a100");
  const auto gradients_s = [&](const PlannedCommand& command) {
    const auto steps = planned(command, machine, {1, 64});
    EXPECT_EQ(steps.at(1).num_micro, 1) << "one sample a device";
    return predict_steps(model_of(steps, machine), steps, {}).forecast.steps.at(1).parts_s[kGradients];
  };
  EXPECT_NEAR(gradients_s(strong), gradients_s(weak), 0.02 * gradients_s(weak));
}

// With ZeRO-1 each data rank updates its share; without, all of them update everything.
TEST(PlanStep, RanksThatShareTheOptimizerUpdateTheirShare) {
  const Machine machine = find_machine("dgx-a100");
  const auto fixed_s = [&](const char* optimizer, int64_t nodes) {
    PlannedCommand command{.words = {"train", "gpt", "--model=gpt3-6.7b", "--micro-batch-size=1", "--train-iters=50",
                                     "--mock-data", "--bf16", "--lr=1e-4", "--tensor-model-parallel-size=2"},
                           .samples_per_device = 2};
    if (*optimizer != 0) command.words.emplace_back(optimizer);
    const auto steps = planned(command, machine, {1, nodes});
    return predict_steps(model_of(steps, machine), steps, {}).forecast.steps.at(1).parts_s[kFixed];
  };
  constexpr double kHost = 0.01;  // of docs/predict.md, the rest is 30 bytes a parameter over the memory's rate
  const double all = fixed_s("", 2) - kHost, shared = fixed_s("--use-distributed-optimizer", 2) - kHost;
  EXPECT_NEAR(all, 30 * 6.7e9 / 2 / 2.04e12, 0.1 * all);
  EXPECT_NEAR(fixed_s("", 8) - kHost, all, 0.01 * all);
  EXPECT_NEAR(shared, all / 8, 0.05 * all) << "16 ranks in pairs of tensor ranks";
  EXPECT_LT(fixed_s("--use-distributed-optimizer", 8) - kHost, 0.5 * shared);
}

TEST(PlanStep, MeasuredStepsNarrowTheInterval) {
  const Machine machine = find_machine("dgx-h100");
  const auto steps = planned(nemotron(), machine, {16, 32, 64});
  const PlannedModel model = model_of(steps, machine);
  const auto blind = predict_steps(model, steps, {}), calibrated = predict_steps(model, steps, {{16, 4.61}});
  EXPECT_LT(calibrated.forecast.steps[1].step_s.relative_half_width(),
            0.3 * blind.forecast.steps[1].step_s.relative_half_width());
  EXPECT_NEAR(calibrated.forecast.steps[0].step_s.p50, 4.61, 0.05);
  EXPECT_THROW(predict_steps(model, steps, {{7, 4.61}}), UsageError);
}

// Twice the work with four times the noise of the prior: what was measured without the change tells its step.
TEST(PlanStep, AChangedCommandFollowsFromMeasuredSteps) {
  const Machine machine = find_machine("dgx-h100");
  const auto base = planned(nemotron(), machine, {16});
  PlannedCommand more = nemotron();
  more.samples_per_device = 0.5;
  const auto changed = planned(more, machine, {16});
  const auto same = predict_changed(base, {{16, 4.61}}, base, machine);
  const auto twice = predict_changed(base, {{16, 4.61}}, changed, machine);
  EXPECT_NEAR(same.forecast.steps[0].step_s.p50, 4.61, 0.05);
  // Twice the micro-batches halve the bubble's share: below twice the step.
  EXPECT_LT(twice.forecast.steps[0].step_s.p50, 2 * 4.61);
  EXPECT_GT(twice.forecast.steps[0].step_s.p50, 1.85 * 4.61);
  EXPECT_NEAR(twice.curve.rate_per_device * twice.targets[0].at.work, 0.5, 1e-9);
}

// What another precision gains of its peak is not known: the interval of a step in fp8 by steps in bf16 says so.
TEST(PlanStep, AnotherPrecisionIsADoubt) {
  const Machine machine = find_machine("dgx-h100");
  const auto base = planned(nemotron(), machine, {16});
  PlannedCommand in_fp8 = nemotron();
  in_fp8.words.emplace_back("--fp8-format=hybrid");
  const auto changed = planned(in_fp8, machine, {16, 64});
  const auto same = predict_changed(base, {{16, 4.61}}, base, machine);
  const auto other = predict_changed(base, {{16, 4.61}}, changed, machine);
  const Interval &known = same.forecast.steps[0].step_s, &doubted = other.forecast.steps[0].step_s;
  // Twice the peak: 90 % of the products within x / sqrt(2) of their median, and products are most of the step.
  EXPECT_GT(doubted.relative_half_width(), 0.2);
  EXPECT_LT(doubted.relative_half_width(), std::sqrt(2.0) - 1);
  EXPECT_LT(known.relative_half_width(), 0.1);
  EXPECT_EQ(same.targets[0].at.product_log_sd, 0);
  EXPECT_NEAR(other.targets[0].at.product_log_sd, std::hypot(0.03, std::log(1979 / 989.0) / 3.29), 1e-6);
  // Both sizes have the same doubt: how the step grows is known as well as before.
  EXPECT_LT(other.forecast.steps[1].over_first.relative_half_width(), 0.1);
  const auto fact = std::find_if(other.facts.begin(), other.facts.end(),
                                 [](const KnownFact& one) { return one.name == "change of precision"; });
  ASSERT_NE(fact, other.facts.end());
  EXPECT_EQ(fact->value, "products take 0.67 of their time (x / 1.24)");
}

// Four ranks on two cores: each has half a core.
TEST(PlanStep, RanksThatShareCoresTakeTurns) {
  const std::string text = "devices-per-node = 1\nnode-gbytes-per-s = 2\nmemory-gbytes = 12\npeak-fp32-tflops = 0.1\n";
  const Machine own = parse_machine(text, "own.toml"),
                shared = parse_machine(text + "devices-at-a-time = 2\n", "a.toml");
  const PlannedCommand command{.words = {"train", "clip", "--model", "ViT-B-32", "--dataset-type", "synthetic",
                                         "--train-num-samples=100000", "--batch-size", "8", "--precision", "fp32"}};
  const auto steps = planned(command, own, {1, 2, 4});
  for (size_t i = 0; i < steps.size(); ++i)
    EXPECT_DOUBLE_EQ(model_of(steps, shared).sizes[i].compute(), i == 2 ? 2 * model_of(steps, own).sizes[i].work : 1);
}

const char* const kCores = "devices-per-node = 1\nnode-gbytes-per-s = 2\nmemory-gbytes = 12\npeak-fp32-tflops = 0.1\n";
PlannedCommand small_gpt(std::vector<std::string> more) {
  PlannedCommand command{.words = {"train", "gpt", "--num-layers=4", "--hidden-size=256", "--num-attention-heads=8",
                                   "--seq-length=256", "--max-position-embeddings=256", "--vocab-size=8192",
                                   "--micro-batch-size=4", "--device=cpu", "--mock-data", "--train-iters=10",
                                   "--lr=1e-4"}};
  command.words.insert(command.words.end(), more.begin(), more.end());
  return command;
}

// Where two ranks at once have 1.2 times the products' time of one, so have four that take turns on the same cores.
TEST(PlanStep, RanksThatComputeAtOnceSlowOneAnother) {
  const auto compute = [&](const std::string& more, int64_t nodes) {
    const Machine machine = parse_machine(kCores + ("devices-at-a-time = 2\n" + more), "a.toml");
    PlannedCommand command = small_gpt({});
    command.samples_per_device = 4;
    const auto steps = planned(command, machine, {1, nodes});
    return model_of(steps, machine).sizes[1].compute();
  };
  EXPECT_DOUBLE_EQ(compute("", 2), 1);
  EXPECT_DOUBLE_EQ(compute("product-contention = 1.2\nmemory-contention = 1.2\n", 2), 1.2);
  EXPECT_NEAR(compute("product-contention = 1.2\nmemory-contention = 1.2\n", 4), 2.4, 1e-12);
  const double products_alone = compute("product-contention = 1.2\n", 2),
               memory_alone = compute("memory-contention = 1.2\n", 2);
  EXPECT_GT(products_alone, 1);
  EXPECT_LT(products_alone, 1.2);
  EXPECT_GT(memory_alone, 1);
  EXPECT_LT(memory_alone, products_alone);
  EXPECT_THROW(compute("product-contention = 0.9\n", 2), UsageError);
}

// Norms, residual sums and dropout are done by each tensor rank: its compute is more than half of one rank's.
TEST(PlanStep, TensorRanksRepeatPassesOverMemory) {
  const auto compute = [&](double memory_tbytes_per_s, const std::vector<std::string>& flags) {
    const Machine machine =
        parse_machine(kCores + ("memory-tbytes-per-s = " + std::to_string(memory_tbytes_per_s) + "\n"), "a.toml");
    const auto base = planned(small_gpt({"--global-batch-size=4"}), machine, {1});
    auto words = flags;
    words.insert(words.end(), {"--global-batch-size=4", "--tensor-model-parallel-size=2"});
    const auto prediction = predict_changed(base, {{1, 0.8}}, planned(small_gpt(words), machine, {2}), machine);
    EXPECT_DOUBLE_EQ(prediction.targets[0].at.work, 0.5);
    return prediction.targets[0].at.compute();
  };
  EXPECT_GT(compute(0.03, {}), 0.503);
  EXPECT_LT(compute(0.03, {}), 0.6);
  EXPECT_NEAR(compute(0.03, {"--sequence-parallel"}), 0.5, 0.005);
  EXPECT_NEAR(compute(100, {}), 0.5, 1e-4);
  for (double rate = 0.004; rate < 1; rate *= 2) EXPECT_LE(compute(2 * rate, {}), compute(rate, {}));
  EXPECT_LT(compute(0.03, {"--hidden-dropout=0"}), compute(0.03, {}));
}

// Eight tensor ranks on two nodes of four devices: their ring enters and leaves each node by all of its NICs.
TEST(PlanStep, TensorRanksOfSeveralNodesHaveAllTheirNics) {
  const auto words = small_gpt({"--global-batch-size=4", "--tensor-model-parallel-size=8", "--precision=bf16"});
  const Machine machine = find_machine("marenostrum5");
  const auto steps = planned(words, machine, {2});
  const Size size = model_of(steps, machine).sizes[0];
  EXPECT_GT(steps[0].tensor_bytes, 0);
  EXPECT_NEAR(size.layers_wire_s, steps[0].tensor_bytes * 7 / 8 / (machine.node_gbytes_per_s.value * 1e9), 1e-9);
  EXPECT_GT(size.layers_s, 0);  // latency of the calls
}

// The first size has one data rank and sends nothing; the others do.
TEST(PlanStep, GradientsAreThoseOfTheSizesThatSendThem) {
  const Machine machine = parse_machine(kCores, "a.toml");
  PlannedCommand command = small_gpt({});
  command.samples_per_device = 4;
  const auto steps = planned(command, machine, {1, 2, 4});
  const PlannedModel model = model_of(steps, machine);
  EXPECT_NEAR(model.setting.inter_s, 2 * 4 * steps[0].parameters_per_rank / 2e9, 1e-4);
  const auto prediction = predict_steps(model, steps, {});
  EXPECT_EQ(prediction.forecast.steps[0].parts_s[kGradients], 0);
  EXPECT_GT(prediction.forecast.steps[1].parts_s[kGradients], 0);
}

TEST(PlanStep, AFasterNetworkNeverSlows) {
  Machine machine = find_machine("dgx-h100");
  const auto steps = planned(nemotron(), machine, {16, 64, 256});
  const auto before = predict_steps(model_of(steps, machine), steps, {});
  for (double* rate : {&machine.node_gbytes_per_s.value, &machine.link_gbytes_per_s.value}) {
    *rate *= 2;
    const auto after = predict_steps(model_of(steps, machine), steps, {});
    for (size_t i = 0; i < steps.size(); ++i)
      EXPECT_LT(after.forecast.steps[i].step_s.p50, before.forecast.steps[i].step_s.p50);
    *rate /= 2;
  }
}

TEST(PlanStep, SizesThatDoNotDivideAreNamed) {
  std::vector<std::string> refused;
  const auto steps = plan_steps(nemotron(), find_machine("dgx-h100"), {3, 16}, refused);
  EXPECT_EQ(steps.size(), 1u);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("3 nodes"), std::string::npos);
  EXPECT_THROW(plan_steps(nemotron(), find_machine("dgx-h100"), {3}, refused), UsageError);
}

TEST(PlanStep, PointsOfASweepKeepTheirOwnNodesAndPrecision) {
  std::vector<std::string> words = nemotron().words;
  words.insert(words.end(), {"--global-batch-size=32", "--fp8-format=hybrid"});
  const auto points = predict_points({{"bf16", {words.begin(), words.end() - 1}, 16, 8}, {"fp8", words, 16, 8}},
                                     find_machine("dgx-h100"));
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].plan.precision, "bf16");
  EXPECT_EQ(points[1].plan.precision, "fp8");
  EXPECT_LT(points[1].step_s.p50, points[0].step_s.p50);
  EXPECT_EQ(points[0].plan.num_steps, 50);
  EXPECT_NEAR(*points[0].node_hours, 16 * 50 * points[0].step_s.p50 / 3600, 1e-9);
  EXPECT_THROW(predict_points({{"x", words, 16, 8}}, find_machine("lumi")), UsageError);  // no fp8 there
}

TEST(PlanStep, PointsOfASweepThatDoNotFitAreMarked) {
  const Machine machine = find_machine("dgx-h100");
  std::vector<std::string> words = nemotron().words, larger = words;
  words.emplace_back("--global-batch-size=32");
  larger.emplace_back("--global-batch-size=128");
  auto points = predict_points({{"small", words, 16, 8}, {"large", larger, 64, 8}}, machine);
  const auto cells = [&](size_t row) { return sweep_table(points, machine).rows.at(row).back().text; };
  EXPECT_EQ(cells(0), "no, 1.8 too much");
  EXPECT_EQ(cells(1), "yes");
  EXPECT_EQ(sweep_json(points).at(0).at("fits"), false);
  for (PredictedPoint& one : points) one.hours.reset(), one.node_hours.reset();
  const std::string note = sweep_table(points, machine).notes.at(0);
  EXPECT_EQ(note.rfind("Node-hours are not known", 0), 0u) << note;
}

AdviceList advised(const std::vector<std::string>& words, const Machine& machine, int64_t nodes) {
  return advise({.words = words, .nodes = nodes, .steps = {plan_one(words, nodes, machine.devices_per_node)}}, machine);
}

TEST(Advise, RanksWhatFitsAndIsLegal) {
  const Machine machine = find_machine("dgx-h100");
  std::vector<std::string> words = nemotron().words;
  words.emplace_back("--global-batch-size=32");
  const AdviceList list = advised(words, machine, 16);
  EXPECT_FALSE(list.as_given.fits);  // the published layout plans 1.8 GiB too much on 128 GPUs
  ASSERT_FALSE(list.ranked.empty());
  EXPECT_EQ(list.num_tried, list.ranked.size() + list.num_refused + list.num_too_large);
  EXPECT_GT(list.num_refused, 0u);
  EXPECT_GT(list.num_too_large, 0u);
  for (size_t i = 0; i < list.ranked.size(); ++i) {
    const Advice& one = list.ranked[i];
    EXPECT_LE(one.plan.memory_bytes, usable_memory_bytes(machine));
    EXPECT_EQ(one.plan.global_batch, 32);
    EXPECT_EQ(one.plan.tp * one.plan.pp * one.plan.dp, 128);
    EXPECT_LE(one.samples_per_s, list.ranked[i > 0 ? i - 1 : 0].samples_per_s);
  }
}

// Where nothing fits the answer says how much the least layout needs, and on how many nodes one does fit.
TEST(Advise, SaysWhatWouldFitWhereNothingDoes) {
  Machine machine = find_machine("dgx-h100");
  const std::vector<std::string> words = {"train", "clip", "--config", recipe("clip_vitg14_dgx.toml")};
  const auto with_usable = [&](double bytes) {
    machine.memory_gbytes.value *= bytes / usable_memory_bytes(machine);
    return advised(words, machine, 1);
  };
  const AdviceList tiny = with_usable(1e9);
  EXPECT_TRUE(tiny.ranked.empty());
  ASSERT_TRUE(tiny.least);
  EXPECT_FALSE(tiny.on_more_nodes);
  EXPECT_EQ(tiny.most_nodes_tried, 8);
  EXPECT_NE(core::join(advice_table(tiny, machine).notes, " ").find("Nor does any of these layouts fit on up to 8"),
            std::string::npos);
  const AdviceList close = with_usable(0.999 * tiny.least->plan.memory_bytes);
  EXPECT_TRUE(close.ranked.empty());
  ASSERT_TRUE(close.on_more_nodes);
  EXPECT_LE(close.on_more_nodes->plan.memory_bytes, usable_memory_bytes(machine));
  EXPECT_GT(close.on_more_nodes->plan.nodes, 1);
  const std::string notes = core::join(advice_table(close, machine).notes, " ");
  EXPECT_NE(notes.find("Nothing fits on so many nodes. The least that a rank needs is"), std::string::npos) << notes;
  EXPECT_NE(notes.find("nodes this would fit: --grad-sync="), std::string::npos) << notes;
  EXPECT_EQ(advice_json(close).at("on_more_nodes").at("nodes"), close.on_more_nodes->plan.nodes);
}

// Larger buckets, and a batch that does not fit in parts, at the same global batch.
TEST(Advise, ContrastiveCommandsGetBucketsAndMicroBatches) {
  const Machine machine = find_machine("dgx-h100");
  const auto list_of = [&](const char* batch) {
    return advised({"train", "clip", "--config", recipe("clip_vitg14_dgx.toml"), batch}, machine, 64);
  };
  const AdviceList list = list_of("--batch-size=80");
  const auto has = [](const Advice& one, const char* flag) {
    return std::find(one.flags.begin(), one.flags.end(), flag) != one.flags.end();
  };
  const auto zero1 = std::find_if(list.ranked.begin(), list.ranked.end(), [&](const Advice& one) {
    return has(one, "--grad-sync=zero1") && has(one, "--no-grad-checkpointing") && has(one, "--bucket-mb=100");
  });
  ASSERT_NE(zero1, list.ranked.end());
  EXPECT_LT(zero1->step_s, 0.75 * list.as_given.step_s);
  EXPECT_NEAR(zero1->plan.memory_bytes / list.as_given.plan.memory_bytes, 1, 0.02);
  const AdviceList large = list_of("--batch-size=1280");
  EXPECT_FALSE(large.as_given.fits);
  ASSERT_FALSE(large.ranked.empty());
  for (const Advice& one : large.ranked) EXPECT_EQ(one.plan.global_batch, 1280 * 512);
  EXPECT_TRUE(std::any_of(large.ranked.begin(), large.ranked.end(), [](const Advice& one) {
    return one.plan.num_micro > 1 && one.plan.recompute_factor > 1.3;
  })) << "micro-batches cost a second forward pass";
}

TEST(Advise, GptMayKeepTheOptimizerWithEveryDataRank) {
  const std::vector<std::string> words = {"train",
                                          "gpt",
                                          "--num-layers=4",
                                          "--hidden-size=256",
                                          "--num-attention-heads=4",
                                          "--seq-length=128",
                                          "--max-position-embeddings=128",
                                          "--vocab-size=512",
                                          "--mock-data",
                                          "--bf16",
                                          "--micro-batch-size=1",
                                          "--global-batch-size=64",
                                          "--train-iters=10"};
  const AdviceList list = advised(words, find_machine("dgx-h100"), 2);
  double sharded = 0, kept = 0;
  for (const Advice& one : list.ranked) {
    if (one.plan.dp != 16 || one.plan.num_micro != 4) continue;
    const bool is_kept = one.flags.back() == "--no-use-distributed-optimizer";
    (is_kept ? kept : sharded) = one.plan.memory_bytes;
  }
  EXPECT_GT(sharded, 0);
  EXPECT_GT(kept, sharded);
}

// 2048 pictures a device do not fit 64 GB: the same global batch goes in the largest micro-batches that do.
TEST(PlanStep, ClassifiersReachWhatTheirKindOfNetworkDoes) {
  const Machine machine = find_machine("leonardo");
  const auto source_of = [&](const std::string& arch) {
    const PlannedCommand command{
        .words = {"train", "imagenet", "--dummy", "-a", arch, "--micro-batch-size=64", "--amp"}};
    for (const KnownFact& fact : model_of(planned(command, machine, {1, 2}), machine).facts)
      if (fact.name == "reached in compute") return fact.source;
    return std::string();
  };
  EXPECT_EQ(source_of("vit_b_16"), "prior for vision transformers");
  EXPECT_EQ(source_of("resnet50"), "prior for convolutional networks, bound by memory");
}

TEST(Advise, ClassifiersGetPrecisionBucketsAndMicroBatches) {
  const Machine machine = find_machine("leonardo");
  const AdviceList list = advised({"train", "imagenet", "--config", recipe("imagenet_resnet50_epicure.toml"),
                                   "--micro-batch-size=2048", "--no-cudnn-tf32"},
                                  machine, 16);
  EXPECT_FALSE(list.as_given.fits);
  ASSERT_FALSE(list.ranked.empty());
  EXPECT_EQ(list.num_tried, list.ranked.size() + list.num_refused + list.num_too_large);
  EXPECT_GT(list.num_refused, 0u);  // no peak for fp32
  EXPECT_GT(list.num_too_large, 0u);
  bool has_zero1 = false, has_small_buckets = false;
  for (const Advice& one : list.ranked) {
    EXPECT_EQ(one.plan.global_batch, 131072);
    EXPECT_EQ(one.plan.num_micro, 2);
    EXPECT_LE(one.plan.memory_bytes, usable_memory_bytes(machine));
    const auto has = [&](const char* flag) {
      return std::find(one.flags.begin(), one.flags.end(), flag) != one.flags.end();
    };
    EXPECT_FALSE(has("--precision=fp32"));
    has_zero1 = has_zero1 || has("--grad-sync=zero1");
    has_small_buckets = has_small_buckets || has("--bucket-mb=5");
  }
  EXPECT_TRUE(has_zero1 && has_small_buckets);
  const AdviceList by_other_name = advised({"train", "resnet", "--config", recipe("imagenet_resnet50_epicure.toml"),
                                            "--micro-batch-size=2048", "--no-cudnn-tf32"},
                                           machine, 16);
  EXPECT_EQ(by_other_name.num_tried, list.num_tried);
  EXPECT_EQ(by_other_name.ranked.size(), list.ranked.size());
}

// The layout that is there already stands to the step as given as 1 to 1, whatever was measured; what is measured slow
// is slow in every layout.
TEST(Advise, StepsAreThoseOfThePredictionOfTheSamePlans) {
  const Machine machine = find_machine("dgx-h100");
  const std::vector<PlannedStep> steps = planned(nemotron(), machine, {16, 64});
  const auto list_by = [&](const std::vector<MeasuredStep>& measured) {
    AdviceList list =
        advise({.words = words_for(nemotron(), 64 * 8), .nodes = 64, .steps = steps, .measured = measured}, machine);
    const CurvePrediction plain = predict_steps(model_of(steps, machine), steps, measured);
    EXPECT_DOUBLE_EQ(list.as_given.step_s, plain.forecast.steps[1].step_s.p50);
    const auto same = std::find_if(list.ranked.begin(), list.ranked.end(), [&](const Advice& one) {
      return one.plan.tp == 8 && one.plan.pp == 8 && one.plan.memory_bytes == list.as_given.plan.memory_bytes &&
             one.plan.num_micro == list.as_given.plan.num_micro && one.plan.bubble == list.as_given.plan.bubble &&
             one.plan.recompute_factor == list.as_given.plan.recompute_factor;
    });
    EXPECT_TRUE(same != list.ranked.end() && std::fabs(same->step_s / list.as_given.step_s - 1) < 1e-9);
    const draw::Table table = advice_table(list, machine);
    EXPECT_EQ(table.rows.front().back().text, "as given: " + core::join(same->flags, " "));
    EXPECT_TRUE(std::none_of(table.rows.begin() + 1, table.rows.end(), [&](const auto& row) {
      return row.back().text == core::join(same->flags, " ");
    })) << "the layout as given stands there once";
    return list;
  };
  const AdviceList blind = list_by({}), measured = list_by({{16, 9.2}});
  EXPECT_GT(measured.ranked.front().step_s, 1.3 * blind.ranked.front().step_s);
  EXPECT_GT(measured.as_given.step_s, 9);
}

// Measured in bf16, products in fp8 have twice the peak and reach 0.75 of the share.
TEST(PlanStep, AChangedPrecisionFollowsThePeaks) {
  const Machine machine = find_machine("dgx-h100");
  const auto base = planned(nemotron(), machine, {16});
  PlannedCommand fp8 = nemotron();
  fp8.words.emplace_back("--fp8-format=hybrid");
  const auto changed = predict_changed(base, {{16, 4.61}}, planned(fp8, machine, {16}), machine);
  EXPECT_NEAR(changed.targets[0].at.compute() / (989.0 / (1979 * 0.75)), 1, 0.15) << "passes over memory stay";
  EXPECT_LT(changed.forecast.steps[0].step_s.p50, 0.85 * 4.61);
}

TEST(PlanStep, RecomputationCostsAForwardPass) {
  std::vector<std::string> words = nemotron().words;
  words.insert(words.end(), {"--global-batch-size=32", "--no-recompute-activations", "--recompute-granularity=full",
                             "--recompute-method=uniform", "--recompute-num-layers=1"});
  EXPECT_DOUBLE_EQ(plan_one(words, 16, 8).recompute_factor, 4.0 / 3);
  EXPECT_THROW(plan_one({"report", "x"}, 16, 8), UsageError);
}

TEST(Budget, NamesTheFewestNodesInTimeAndSkipsWhatDoesNotFit) {
  const Machine machine = find_machine("dgx-h100");
  const auto steps = planned(nemotron(), machine, {16, 32, 64, 128, 256});
  const auto prediction = predict_steps(model_of(steps, machine), steps, {});
  const Budget budget{.units = 1e12, .unit = "tokens", .units_per_sample = 4096, .deadline_hours = 2500};
  const auto costs = goal_costs(prediction, machine, budget, fit_memory(steps, machine));
  EXPECT_FALSE(costs[0].fits);
  EXPECT_FALSE(costs[0].meets_deadline);
  const auto first = std::find_if(costs.begin(), costs.end(), [](const GoalCost& one) { return one.meets_deadline; });
  ASSERT_NE(first, costs.end());
  EXPECT_LE(first->hours95, 2500);
  // 1e12 tokens at 32 sequences of 4096 tokens a step.
  EXPECT_NEAR(costs[0].hours, 1e12 / (32 * 4096) * prediction.forecast.steps[0].step_s.p50 / 3600, 1);
  EXPECT_NE(goal_texts(costs, budget)[0].find(std::to_string(static_cast<int>(first->size))), std::string::npos);
  Budget of_growing_runs = budget;
  of_growing_runs.is_run_a_step = true;
  ASSERT_EQ(goal_texts(costs, of_growing_runs).size(), 1u);
  EXPECT_NE(goal_texts(costs, of_growing_runs)[0].find("sizes are not compared"), std::string::npos);
}

// Hand-computed: four equal buckets, backward of 4 s fills one each second.
TEST(BucketOverlap, PlaysBucketsOnOneStream) {
  const std::vector<double> four(4, 0.25), one(1, 1.0);
  EXPECT_DOUBLE_EQ(play_buckets(four, 2, 4), 0.5);  // each takes 0.5 s, only the last is seen
  EXPECT_DOUBLE_EQ(play_buckets(four, 8, 4), 5);    // each takes 2 s: begins at 1, ends at 9
  EXPECT_DOUBLE_EQ(play_buckets(one, 3, 4), 3);     // nothing to overlap with
  EXPECT_DOUBLE_EQ(play_buckets(four, 0, 4), 0);
}

TEST(BucketOverlap, FasterOrFinerBucketsNeverShowMore) {
  for (double gradients = 0.1; gradients < 10; gradients *= 1.5) {
    double before = gradients;
    for (int count = 1; count <= 64; count *= 2) {
      const std::vector<double> shares(static_cast<size_t>(count), 1.0 / count);
      const double exposed = play_buckets(shares, gradients, 3);
      EXPECT_LE(exposed, before + 1e-12);
      EXPECT_LE(play_buckets(shares, 0.9 * gradients, 3), exposed);
      before = exposed;
    }
  }
}

}  // namespace
}  // namespace lockstep::predict
