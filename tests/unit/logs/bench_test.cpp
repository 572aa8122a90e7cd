// Results of `lockstep bench` as runs.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "logs/bench.h"
#include "logs/logs.h"
#include "support/fuzz.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

/// A file of that text, read.
record::RunData read(const std::string& text, std::optional<LogFormat> format = std::nullopt) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "net.json", text);
  return read_one(folder.path() / "net.json", format);
}

constexpr const char* kBenchDocument =
    R"({"format": "lockstep-bench-1", "case": "collective", "command": "lockstep bench collective", "mode": "time",
  "machine": {"ranks": [{"rank": 0, "host": "a", "device": "cpu", "device_name": "Some CPU"}, {"rank": 1, "host": "a"}, {"rank": 2, "host": "b"}]},
  "rows": [{"part": "all-gather", "bytes": 6000, "count": 500, "type": "float", "redop": "none", "root": -1, "time_us": 2.0, "wrong": 0, "in_place_time_us": 3.0},
           {"part": "all-gather", "bytes": 12000, "count": 1000, "type": "float", "redop": "none", "root": -1, "wrong": 0}]})";

TEST(BenchDocument, BringsItsCollectives) {
  const record::RunData run = read(kBenchDocument);
  EXPECT_EQ(run.format, "bench");
  EXPECT_EQ(run.setup.devices, 3);
  EXPECT_EQ(run.setup.nodes, 2);
  EXPECT_EQ(run.setup.device, "Some CPU");
  ASSERT_EQ(run.collective_points.size(), 2u);
  EXPECT_EQ(run.collective_points[0].kind, "all_gather");
  EXPECT_EQ(run.collective_points[0].num_ranks, 3);
  EXPECT_NEAR(run.collective_points[0].algbw_gbytes_per_s, 3, 1e-9);
  EXPECT_NEAR(run.collective_points[0].busbw_gbytes_per_s, 2, 1e-9);
  EXPECT_EQ(run.collective_points[0].num_wrong, 0);
  EXPECT_TRUE(run.collective_points[1].is_in_place);
  EXPECT_FALSE(run.collective_points[1].num_wrong);
  EXPECT_NE(core::join(run.problems, "|").find("1 of 2 rows hold no time"), std::string::npos);
  const record::RunData op = read(
      R"({"format": "lockstep-bench-1", "case": "op", "rows": [], "summary": {"measured_peak_tflops": {"fp32": 0.5}}})");
  EXPECT_NE(op.message.find("`lockstep bench op`, not of training; it measured a peak of 0.5 TFLOP/s in fp32"),
            std::string::npos)
      << op.message;
  const record::RunData text =
      read("# lockstep bench op: 1 ranks at the same time on cpu, 1 threads each\n# gemm\n  gemm square\n");
  EXPECT_NE(text.message.find("`lockstep bench op`"), std::string::npos) << text.message;
  EXPECT_THROW(read(std::string(kBenchDocument).substr(0, 400)), DataError);
}

TEST(BenchDocument, OfAMeasurementThatWasStoppedSaysSo) {
  const record::RunData whole = read(kBenchDocument);
  EXPECT_EQ(core::join(whole.problems, "|").find("had not ended"), std::string::npos);
  const record::RunData stopped =
      read(core::replace_all(kBenchDocument, R"("mode": "time")", R"("mode": "time", "incomplete": true)"));
  EXPECT_EQ(stopped.collective_points.size(), 2u);
  EXPECT_NE(core::join(stopped.problems, "|").find("had not ended when this was written: it has 2 rows"),
            std::string::npos);
  const record::RunData op = read(R"({"format": "lockstep-bench-1", "case": "op", "incomplete": true, "rows": []})");
  EXPECT_NE(op.message.find("it had not ended"), std::string::npos) << op.message;
}

TEST(BenchDocument, NoMutationCrashes) {
  const std::string text = kBenchDocument;
  core::CounterRng rng(4, 1);
  for (uint64_t round = 0; round < tests::fuzz_rounds(1500); ++round) {
    const std::string changed = tests::damage(text, rng);
    try {
      for (const record::CollectivePoint& point : read(changed, LogFormat::kBench).collective_points)
        EXPECT_TRUE(std::isfinite(point.algbw_gbytes_per_s) && point.time_us > 0) << changed;
    } catch (const DataError&) {
    }
  }
}

TEST(BenchDocument, LatenciesAreReadWithTheirIntervalsAndStages) {
  const core::TempDir folder;
  const auto path = folder.path() / "latency.json";
  core::write_file_atomic(path, R"({"format": "lockstep-bench-1", "case": "latency", "rows": [
    {"model": "ViT-B-32", "precision": "bf16", "from": "pixels", "tower": "both", "batch": 4, "text_tokens": 64,
     "p50_ms": 50.5, "p50_low_ms": 49, "p50_high_ms": 52, "p90_ms": 60, "per_s": 79, "stages_ms": {"image": 40}},
    {"model": "ViT-B-32", "batch": 0, "p50_ms": 1}]})");
  const auto runs = read_log(path);
  ASSERT_EQ(runs.size(), 1u);
  ASSERT_EQ(runs[0].latency_points.size(), 1u);
  const auto& point = runs[0].latency_points[0];
  EXPECT_EQ(point.batch, 4);
  EXPECT_EQ(point.text_tokens, 64);
  EXPECT_EQ(point.p50_high_ms, 52);
  EXPECT_TRUE(std::isnan(point.p99_ms));
  EXPECT_EQ(point.stages_ms.at("image"), 40);
  EXPECT_EQ(runs[0].problems.size(), 1u) << "the second row holds no batch";
}

TEST(LatencyTable, ThePublishedOneBecomesPointsOfItsPrograms) {
  const std::filesystem::path path = std::string(LOCKSTEP_GOLDEN_DIR) + "/published/nemo_clip_inference.csv";
  ASSERT_TRUE(is_latency_table(path));
  EXPECT_FALSE(is_latency_table(std::string(LOCKSTEP_GOLDEN_DIR) + "/published/nemo_clip_g14.csv"));
  const auto runs = read_log(path);
  ASSERT_EQ(runs.at(0).latency_points.size(), 8u);
  EXPECT_EQ(runs[0].latency_points[0].program, "TensorRT");
  EXPECT_NEAR(runs[0].latency_points[0].p50_ms, 14, 1e-9);
  EXPECT_EQ(runs[0].latency_points[7].precision, "fp16");
  EXPECT_EQ(runs[0].latency_points[7].batch, 8);
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "bad.csv", "batch,trt_fp16_s\n1,soon\n");
  EXPECT_THROW(read_log(folder.path() / "bad.csv"), DataError);
}

}  // namespace
}  // namespace lockstep::logs
