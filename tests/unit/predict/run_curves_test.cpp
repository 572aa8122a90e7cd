// Measured runs as calibration, and a system file from bench documents.
#include "predict/run_curves.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/analyse.h"
#include "analysis/sources.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "predict/describe_machine.h"
#include "predict/machine_file.h"
#include "predict/report_section.h"
#include "predict/validation.h"
#include "record/run_record.h"

namespace lockstep::predict {
namespace {

/// A log of 40 steps whose first ones are slow.
std::string log_of(int nodes, int global_batch, double step_ms) {
  std::string text = "step,step_time_ms,nodes,devices,global_batch,model,system\n";
  for (int step = 0; step < 40; ++step)
    text += fmt::format("{},{:.3f},{},{},{},ResNet-50,Leonardo\n", step,
                        step_ms * (step < 3 ? 3 : 1) + 0.01 * (step % 5), nodes, 4 * nodes, global_batch);
  return text;
}

TEST(RunCurves, RunsOfSeveralSizesCalibrate) {
  core::TempDir folder;
  const std::pair<int, double> kRuns[] = {{1, 400}, {2, 404}, {4, 409}, {16, 421}};
  for (const auto& [nodes, step_ms] : kRuns)
    core::write_file_atomic(folder.path() / fmt::format("n{}.csv", nodes), log_of(nodes, 1024 * nodes, step_ms));
  const auto curves = read_run_curves({folder.path().string()});
  ASSERT_EQ(curves.size(), 1u);
  const MeasuredCurve& curve = curves[0];
  ASSERT_EQ(curve.points.size(), 4u);
  ASSERT_TRUE(curve.machine);
  EXPECT_EQ(curve.machine->name, "Leonardo Booster");
  EXPECT_EQ(curve.devices_per_node, 4);
  EXPECT_NEAR(*curve.work.parameters, 25.6e6, 1e5);
  EXPECT_FALSE(curve.is_strong);
  EXPECT_NEAR(curve.points[1].measured.step_s, 0.404, 1e-3);
  const Validation validation = validate_curve(curve, 4);
  ASSERT_EQ(validation.judged.size(), 1u);
  EXPECT_LT(validation.worst_error_pct, 2);
}

TEST(RunCurves, AMegatronLogTellsTheShapeThatIsTrained) {
  core::TempDir folder;
  for (const int nodes : {1, 2}) {
    std::string text =
        "------------------------ arguments ------------------------\n"
        "  num_layers ...................................... 24\n"
        "  hidden_size ..................................... 2048\n"
        "  num_attention_heads ............................. 16\n"
        "  seq_length ...................................... 2048\n"
        "  max_position_embeddings ......................... 2048\n"
        "  padded_vocab_size ............................... 51200\n"
        "-------------------- end of arguments ---------------------\n";
    text += fmt::format(
        "using world size: {0}, data-parallel size: {0}, tensor-model-parallel size: 1, "
        "pipeline-model-parallel size: 1\n",
        8 * nodes);
    for (int step = 1; step <= 40; ++step)
      text += fmt::format(
          " iteration {} / 40 | consumed samples: {} | elapsed time per iteration (ms): {:.1f} | "
          "global batch size: {} | lm loss: 5.0E+00 |\n",
          step, step * 64 * nodes, 800.0 + nodes, 64 * nodes);
    core::write_file_atomic(folder.path() / fmt::format("n{}.log", nodes), text);
  }
  const MeasuredCurve curve = read_run_curves({folder.path().string()}, {.devices_per_node = 8}).at(0);
  ASSERT_TRUE(curve.work.parameters);
  EXPECT_NEAR(*curve.work.parameters, 12.0 * 24 * 2048 * 2048 + (51200.0 + 2048) * 2048, 1e-3 * 1.3e9);
  EXPECT_TRUE(curve.work.are_parameters_certain);
  EXPECT_EQ(curve.tokens_per_sample, 2048) << "which a budget of tokens is counted by";
}

// A shape of no list is in the options of a record: its gradients are counted.
TEST(RunCurves, ARecordOfAnUnlistedShapeTellsItsParameters) {
  core::TempDir folder;
  for (const int devices : {1, 2}) {
    core::Json attempt = {{"attempt", 1}, {"task", "gpt"}};
    attempt["options"] = {{"model", ""},
                          {"num_layers", 2},
                          {"hidden_size", 64},
                          {"num_attention_heads", 4},
                          {"seq_length", 64},
                          {"max_position_embeddings", 64},
                          {"vocab_size", 512},
                          {"ffn_hidden_size", nullptr},
                          {"group_query_attention", false},
                          {"swiglu", false},
                          {"normalization", nullptr},
                          {"untie_embeddings_and_output_weights", false}};
    attempt["model"] = {{"name", "L2 h64 a4"}, {"parameters", 136960}};
    attempt["setup"] = {{"task", "gpt"},
                        {"model", "L2 h64 a4"},
                        {"nodes", devices},
                        {"devices", devices},
                        {"global_batch", 4 * devices},
                        {"sequence_length", 64},
                        {"sample_unit", "sequences"}};
    const auto run = folder.path() / fmt::format("n{}", devices);
    record::RunRecord record(run, attempt);
    for (int step = 0; step < 40; ++step) record.append_step({.step = step, .step_ms = 100.0 + devices});
    record.finish({});
  }
  const MeasuredCurve curve = read_run_curves({folder.path().string()}).at(0);
  ASSERT_TRUE(curve.work.parameters);
  EXPECT_EQ(*curve.work.parameters, 136960);
}

TEST(RunCurves, AMegatronLogTellsExpertsAndContextRanks) {
  const auto read = [](const std::string& arguments, int context_ranks) {
    core::TempDir folder;
    for (const int nodes : {2, 4}) {
      std::string text = "------------------------ arguments ------------------------\n" + arguments +
                         "  num_layers ...................................... 24\n"
                         "  hidden_size ..................................... 2048\n"
                         "  num_attention_heads ............................. 16\n"
                         "  seq_length ...................................... 2048\n"
                         "  max_position_embeddings ......................... 2048\n"
                         "  padded_vocab_size ............................... 51200\n"
                         "-------------------- end of arguments ---------------------\n";
      text += fmt::format(
          "using world size: {}, data-parallel size: {}, context-parallel size: {}, tensor-model-parallel size: 1, "
          "pipeline-model-parallel size: 1\n",
          8 * nodes, 8 * nodes / context_ranks, context_ranks);
      for (int step = 1; step <= 40; ++step)
        text += fmt::format(
            " iteration {} / 40 | consumed samples: {} | elapsed time per iteration (ms): {:.1f} | "
            "global batch size: {} | lm loss: 5.0E+00 |\n",
            step, step * 64 * nodes, 800.0 + nodes, 64 * nodes);
      core::write_file_atomic(folder.path() / fmt::format("n{}.log", nodes), text);
    }
    return read_run_curves({folder.path().string()}, {.devices_per_node = 8}).at(0);
  };
  const MeasuredCurve experts = read(
      "  num_experts ..................................... 16\n"
      "  moe_router_topk ................................. 4\n"
      "  expert_model_parallel_size ...................... 16\n",
      1);
  EXPECT_EQ(experts.work.num_experts, 16);
  EXPECT_EQ(experts.work.top_k, 4);
  const Size& size = experts.points.at(0).measured.size;
  EXPECT_EQ(size.expert_ranks, 16);
  EXPECT_GT(size.layers_s, 0);
  EXPECT_GT(size.layers_wire_s, 0) << "16 ranks on two nodes";
  EXPECT_NE(core::join(experts.notes, " ").find("16 expert ranks"), std::string::npos);
  const MeasuredCurve context = read("", 16);
  EXPECT_EQ(context.work.cp, 16);
  EXPECT_EQ(context.work.key_width, 2048);
  EXPECT_GT(context.points.at(0).measured.size.layers_wire_s, 0);
  EXPECT_EQ(read("", 1).points.at(0).measured.size.layers_s, 0);
}

TEST(RunCurves, RepeatsOfASizeAreTheirGeometricMeanAsInReports) {
  core::TempDir folder;
  for (const auto& [name, step_ms] : {std::pair{"a", 400}, {"b", 500}, {"c", 800}})
    core::write_file_atomic(folder.path() / fmt::format("{}.csv", name), log_of(1, 1024, step_ms));
  const MeasuredCurve curve = read_run_curves({folder.path().string()}).at(0);
  ASSERT_EQ(curve.points.size(), 1u);
  EXPECT_NEAR(curve.points[0].measured.step_s, std::cbrt(0.4 * 0.5 * 0.8), 1e-3);
}

// Of this program's own runs features travel once, as in the plan of a recipe.
TEST(RunCurves, FeaturesTravelAsTheProgramSendsThem) {
  core::TempDir folder;
  for (const int nodes : {1, 2})
    core::write_file_atomic(folder.path() / fmt::format("n{}.csv", nodes),
                            core::replace_all(log_of(nodes, 1024 * nodes, 400), "ResNet-50", "ViT-B-32"));
  auto runs = analysis::analyse(analysis::load_sources(analysis::find_sources({folder.path().string()}), {}), {});
  EXPECT_EQ(curves_of(runs, {}).at(0).work.feature_passes, 2) << "as OpenCLIP sends them";
  for (analysis::RunSummary& run : runs.runs) run.format = "lockstep";
  EXPECT_EQ(curves_of(runs, {}).at(0).work.feature_passes, 1);
}

TEST(RunCurves, DevicesOfANodeThatTheUserTellsMakeNodes) {
  core::TempDir folder;
  for (const int devices : {8, 16, 32}) {
    std::string text = "step,step_time_ms,devices,global_batch\n";
    for (int step = 0; step < 40; ++step)
      text += fmt::format("{},{},{},{}\n", step, 400 + devices, devices, 4 * devices);
    core::write_file_atomic(folder.path() / fmt::format("d{}.csv", devices), text);
  }
  const MeasuredCurve by_devices = read_run_curves({folder.path().string()}).at(0);
  EXPECT_EQ(by_devices.size_name, "devices");
  const MeasuredCurve by_nodes = read_run_curves({folder.path().string()}, {.devices_per_node = 8}).at(0);
  EXPECT_EQ(by_nodes.size_name, "nodes");
  EXPECT_EQ(by_nodes.points.back().size, 4);
  EXPECT_EQ(by_nodes.points.back().measured.size.devices, 32);
}

TEST(RunCurves, AGlobalBatchThatStaysIsStrongScaling) {
  core::TempDir folder;
  for (const int nodes : {1, 2, 4})
    core::write_file_atomic(folder.path() / fmt::format("n{}.csv", nodes), log_of(nodes, 1024, 400.0 / nodes + 5));
  const auto curves = read_run_curves({folder.path().string()});
  ASSERT_EQ(curves.size(), 1u);
  EXPECT_TRUE(curves[0].is_strong);
  EXPECT_DOUBLE_EQ(curves[0].points[2].measured.size.work, 0.25);
}

TEST(ReportSection, JoinsPredictedAndMeasuredSizes) {
  core::TempDir folder;
  for (const int nodes : {1, 2, 4, 8})
    core::write_file_atomic(folder.path() / fmt::format("n{}.csv", nodes),
                            log_of(nodes, 1024 * nodes, nodes == 8 ? 500 : 400 + nodes));
  const auto section = [&] {
    return join_predictions(
        analysis::analyse(analysis::load_sources(analysis::find_sources({folder.path().string()}), {}), {}));
  };
  const ReportedPredictions whole = section();
  ASSERT_TRUE(whole.section);
  std::string text;
  for (const draw::Block& block : whole.section->blocks)
    if (const auto* paragraph = std::get_if<draw::Paragraph>(&block)) text += paragraph->text + "\n";
  EXPECT_NE(text.find("Farthest off at 8 nodes: measured 0.5 s"), std::string::npos) << text;
  EXPECT_NE(text.find("Calibrated on all sizes, the model gives"), std::string::npos) << text;
  EXPECT_NE(text.find("outside the 90 % interval"), std::string::npos) << text;
  EXPECT_NE(text.find("what the small sizes do not show"), std::string::npos) << text;
  std::filesystem::remove(folder.path() / "n4.csv");
  const ReportedPredictions few = section();
  EXPECT_FALSE(few.section);
  ASSERT_EQ(few.why_not.size(), 1u);
  EXPECT_NE(few.why_not[0].find("fewer than 4 sizes"), std::string::npos) << few.why_not[0];
}

TEST(RunCurves, WhatHasNoSizeIsRefused) {
  core::TempDir folder;
  EXPECT_THROW(read_run_curves({(folder.path() / "nothing").string()}), Error);
  core::write_file_atomic(folder.path() / "a.csv", "step,step_time_ms\n0,5\n1,5\n2,5\n3,5\n");
  EXPECT_THROW(read_run_curves({folder.path().string()}), DataError);
}

std::string seed(const char* name) { return std::string(LOCKSTEP_SOURCE_DIR) + "/fuzz/seeds/bench_document/" + name; }

TEST(DescribeMachine, ASystemFileFromBenchDocuments) {
  const std::string text = describe_machine({seed("op.json"), seed("collective.json")});
  const Machine machine = parse_machine(text, "described.toml");
  EXPECT_EQ(machine.devices_per_node, 1);
  EXPECT_EQ(machine.devices_at_a_time, 2);
  EXPECT_GT(*machine.peak_tflops(hw::ComputeType::kFp32), 0);
  EXPECT_GT(machine.link_gbytes_per_s.value, 0);
  EXPECT_EQ(machine.link_latency_us.source.find("described"), std::string::npos) << "no small call was measured";
  EXPECT_NEAR(machine.memory_gbytes.value, 24684096 * 1.024e-6 / 2, 0.01);
  EXPECT_NE(text.find("# lockstep bench op "), std::string::npos) << text;
}

// One rank alone reaches twice what each of two reaches at once, and the memory gives it 1.5 times as much.
/// What nobody measures of a GPU comes from the table of devices, not from its host.
TEST(DescribeMachine, AGpuOfTheTableHasItsMemoryAndTf32) {
  const core::TempDir kept;
  const std::string path = (kept.path() / "op.json").string();
  core::write_file_atomic(path, R"({"format": "lockstep-bench-1", "case": "op", "command": "lockstep bench op",
    "machine": {"ranks": [{"rank": 0, "host": "n1", "device": "cuda:0", "device_name": "NVIDIA H100 80GB HBM3"}],
                "memory": "131981020 kB"},
    "summary": {"measured_peak_tflops": {"bf16": 791.2, "fp32": 51.7}}})");
  const std::string text = describe_machine({path});
  EXPECT_NE(text.find("memory-gbytes = 80  # H100 SXM 80GB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("peak-tf32-tflops = 395.6  # not measured"), std::string::npos) << text;  // 494.5 x 0.8
  const Machine machine = parse_machine(text, "described.toml");  // whole for this one node, whose network is not known
  EXPECT_EQ(machine.num_nodes, 1);
  EXPECT_NE(machine.node_gbytes_per_s.source.find("not known"), std::string::npos);
}

TEST(DescribeMachine, RanksThatComputeAtOnceSlowOneAnother) {
  core::TempDir folder;
  core::Json both = core::Json::parse(core::read_file(seed("op.json")));
  core::Json& ranks = both["machine"]["ranks"];
  while (ranks.size() < 2) ranks.push_back(ranks.front());
  for (auto& peak : both["summary"]["measured_peak_tflops"]) peak = peak.get<double>() / 2;
  for (auto& rate : both["summary"]["measured_memory_gbytes_per_s"]) rate = rate.get<double>() / 1.5;
  const std::string path = (folder.path() / "both.json").string();
  core::write_file_atomic(path, both.dump());
  const auto described = [](const std::vector<std::string>& documents) {
    return parse_machine(describe_machine(documents), "described.toml");
  };
  const Machine alone = described({seed("op.json"), seed("collective.json")});
  const Machine machine = described({path, seed("op.json"), seed("collective.json")});
  EXPECT_EQ(alone.product_contention.value, 1);
  EXPECT_NEAR(machine.product_contention.value, 2, 1e-4);
  EXPECT_NEAR(machine.memory_contention.value, 1.5, 1e-4);
  EXPECT_EQ(machine.peak_tflops(hw::ComputeType::kFp32), alone.peak_tflops(hw::ComputeType::kFp32));
}

TEST(DescribeMachine, DeepAndWideDocumentsAreRefusedAndRead) {
  const core::TempDir folder;
  const std::string path = (folder.path() / "crafted.json").string();
  core::write_file_atomic(path, "{\"machine\": " + std::string(300'000, '[') + std::string(300'000, ']') + "}");
  EXPECT_THROW(describe_machine({path}), DataError);
  std::string wide = R"({"format": "lockstep-bench-1", "machine": {}, "summary": {)";  // hours where keys are compared
  for (int i = 0; i < 400'000; ++i) wide += fmt::format("\"{}\": 1,", i);
  core::write_file_atomic(path, wide + "\"x\": 1}}");
  EXPECT_THROW(describe_machine({path}), UsageError) << "it has no peak";
}

TEST(DescribeMachine, OtherDocumentsAreRefused) {
  core::Json small = core::Json::parse(core::read_file(seed("collective.json")));
  small["rows"][0]["bytes"] = 1024, small["rows"][0]["in_place_time_us"] = 61.5;
  core::TempDir kept;
  core::write_file_atomic(kept.path() / "small.json", small.dump());
  const std::string fuller = describe_machine({seed("op.json"), (kept.path() / "small.json").string()});
  EXPECT_EQ(parse_machine(fuller, "described.toml").link_latency_us.value, 61.5);
  EXPECT_THROW(describe_machine({}), UsageError);
  EXPECT_THROW(describe_machine({seed("collective.json")}), UsageError);  // no peak
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "x.json", "{\"format\": \"lockstep-bench-1\"}");
  EXPECT_THROW(describe_machine({(folder.path() / "x.json").string()}), DataError);
  core::Json stopped = core::Json::parse(core::read_file(seed("op.json")));
  stopped["incomplete"] = true;
  core::write_file_atomic(folder.path() / "z.json", stopped.dump());
  EXPECT_THROW(describe_machine({(folder.path() / "z.json").string()}), DataError);
  std::string other = core::read_file(seed("op.json"));
  other.replace(other.find("node1"), 5, "node2");
  core::write_file_atomic(folder.path() / "y.json", other);
  EXPECT_THROW(describe_machine({seed("op.json"), (folder.path() / "y.json").string()}), UsageError);
}

}  // namespace
}  // namespace lockstep::predict
