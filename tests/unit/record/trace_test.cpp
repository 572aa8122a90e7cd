#include "record/trace.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "support/sanitizers.h"

namespace lockstep::record {
namespace {

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST(MergeTraces, PutsRanksOnOneClock) {
  const core::TempDir folder;
  write(
      folder.path() / "a",
      R"({"baseTimeNanoseconds": 2000000, "traceEvents": [{"ph": "X", "name": "step 3", "pid": 7, "tid": 1, "ts": 10.5, "dur": 4}]})");
  write(
      folder.path() / "b",
      R"({"baseTimeNanoseconds": 5000000, "traceEvents": [{"ph": "X", "name": "step 3", "pid": 7, "tid": 1, "ts": 1, "dur": 4},
                                 {"ph": "s", "id": 4, "pid": "Spans", "tid": 0, "ts": 2}, {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "x"}}]})");
  const auto output = folder.path() / "merged.json";
  EXPECT_EQ(merge_traces({{0, folder.path() / "a"}, {3, folder.path() / "b"}}, output), 4);
  const auto events = core::parse_json(core::read_file(output), "merged").at("traceEvents");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["pid"], "rank 0: 7");
  EXPECT_EQ(events[0]["ts"], 10.5);
  EXPECT_EQ(events[1]["pid"], "rank 3: 7");
  EXPECT_EQ(events[1]["ts"], 3001.0);  // its clock began 3 ms later
  EXPECT_EQ(events[1]["dur"], 4);
  EXPECT_EQ(events[2]["id"], "3.4");
  EXPECT_FALSE(events[3].contains("ts"));
}

TEST(DeviceCollectives, AreTheKernelsOfTheTraceByKindAndSize) {
  const core::TempDir folder;
  const auto kernel = [](const char* name, const char* args, double us) {
    return std::string(R"({"ph": "X", "cat": "kernel", "name": ")") + name + R"(", "ts": 1, "dur": )" +
           std::to_string(us) + ", \"args\": {" + args + "}}";
  };
  const char* told =
      R"("Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 8, "dtype": "BFloat16")";
  std::string events = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", told, 1500) + "," +
                       kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", told, 500);
  events += "," + kernel("ncclKernel_AllGather_RING_Simple(ncclDevComm*)", "", 300);
  events +=
      "," +
      kernel("ncclDevKernel_Generic(ncclDevComm*)",
             R"("Collective name": "_reduce_scatter_base", "In msg nelems": 64, "Out msg nelems": 8, "Group size": 8)",
             200);
  events += "," + kernel("ampere_sgemm_128x64", "", 9000);
  events +=
      R"(, {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "ts": 1, "dur": 70000}, {"ph": "X", "cat": "kernel", "name": "ncclX", "dur": -1}, 7, null)";
  write(folder.path() / "trace", "{\"traceEvents\": [" + events + "]}");
  const auto found = read_device_trace(folder.path() / "trace").collectives;
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].kind, "all_reduce");
  EXPECT_EQ(found[0].type, "BFloat16");
  EXPECT_EQ(found[0].num_elements, 1000);
  EXPECT_EQ(found[0].group_size, 8);
  EXPECT_EQ(found[0].count, 2);
  EXPECT_DOUBLE_EQ(found[0].total_ms, 2);
  EXPECT_EQ(found[1].kind, "all_gather");
  EXPECT_EQ(found[1].num_elements, 0);
  EXPECT_EQ(found[2].kind, "reduce_scatter");
  EXPECT_EQ(found[2].num_elements, 64);
  write(folder.path() / "host",
        R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "gloo:all_reduce", "ts": 1, "dur": 5}]})");
  EXPECT_TRUE(read_device_trace(folder.path() / "host").collectives.empty());
  EXPECT_FALSE(read_device_trace(folder.path() / "host").use.has_value());
  write(folder.path() / "none", R"({"events": []})");
  EXPECT_THROW(read_device_trace(folder.path() / "none"), DataError);
}

TEST(DeviceUse, CountsTheTimesWithoutAKernelOrCopyOnAnyStream) {
  const core::TempDir folder;
  std::string events;
  const auto add = [&](const char* category, double begin_us, double duration_us) {
    events += std::string(events.empty() ? "" : ",") + R"({"ph": "X", "name": "x", "cat": ")" + category +
              R"(", "ts": )" + std::to_string(begin_us) + R"(, "dur": )" + std::to_string(duration_us) + "}";
  };
  add("kernel", 5000, 1000);  // the last; in no order
  add("kernel", 1000, 1000);
  add("gpu_memcpy", 1500, 1500);  // beside it, until 3000
  add("kernel", 1600, 100);       // within both
  add("kernel", 3000.5, 499.5);   // half a microsecond later: no gap
  add("gpu_memset", 4000, 10);    // after 500 us
  add("cpu_op", 3600, 300);       // the host's
  write(folder.path() / "trace", "{\"traceEvents\": [" + events + "]}");
  const auto use = read_device_trace(folder.path() / "trace").use;
  ASSERT_TRUE(use.has_value());
  EXPECT_DOUBLE_EQ(use->span_ms, 5);
  EXPECT_DOUBLE_EQ(use->busy_ms, 2 + 0.4995 + 0.01 + 1);
  EXPECT_EQ(use->num_gaps, 2);
  EXPECT_DOUBLE_EQ(use->longest_gap_ms, 0.99);
}

int64_t status_kilobytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1));
  return 0;
}

/// How far the resident memory of this process rises above its present size while `work` runs; -1 where the system does
/// not tell.
template <typename Work> int64_t peak_growth_kilobytes(const Work& work) {
  ::malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  if (!(reset << "5" << std::flush)) return -1;  // the peak counts anew
  const int64_t before = status_kilobytes("VmHWM");
  work();
  return before > 0 ? status_kilobytes("VmHWM") - before : -1;
}

TEST(MergeTraces, HoldsOneTraceAtATime) {
  if (tests::kHasAddressSanitizer) GTEST_SKIP() << "the address sanitizer keeps freed memory";
  const core::TempDir folder;
  std::string text = R"({"baseTimeNanoseconds": 0, "traceEvents": [)";
  for (int index = 0; index < 20000; ++index)
    text += std::string(index > 0 ? "," : "") +
            R"({"ph": "X", "name": "a step of some length", "pid": 7, "tid": 1, "ts": )" + std::to_string(index) +
            R"(, "dur": 4})";
  write(folder.path() / "trace", text + "]}");
  std::vector<std::pair<int, std::filesystem::path>> traces;
  const auto merge = [&] {
    EXPECT_EQ(merge_traces(traces, folder.path() / "merged"), static_cast<int64_t>(20000 * traces.size()));
  };
  traces.emplace_back(0, folder.path() / "trace");
  const int64_t of_one = peak_growth_kilobytes(merge);
  for (int rank = 1; rank < 6; ++rank) traces.emplace_back(rank, folder.path() / "trace");
  const int64_t of_six = peak_growth_kilobytes(merge);
  if (of_one < 0) GTEST_SKIP() << "this system does not tell the peak of a process's memory";
  EXPECT_GT(of_one, 5000) << "the trace is too small to show anything";
  EXPECT_LT(of_six, 2.5 * static_cast<double>(of_one));  // all six at once are six times as much
}

TEST(MergeTraces, RefusesWhatIsNoTrace) {
  const core::TempDir folder;
  write(folder.path() / "list", "[1, 2]");
  write(folder.path() / "cut", R"({"traceEvents": [)");
  EXPECT_THROW(merge_traces({{0, folder.path() / "list"}}, folder.path() / "out"), DataError);
  EXPECT_THROW(merge_traces({{0, folder.path() / "cut"}}, folder.path() / "out"), DataError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
}

}  // namespace
}  // namespace lockstep::record
