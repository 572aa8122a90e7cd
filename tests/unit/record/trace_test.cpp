#include "record/trace.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep::record {
namespace {

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST(MergeTraces, PutsRanksOnOneClock) {
  const core::TempDir folder;
  write(folder.path() / "a", R"({"baseTimeNanoseconds": 2000000, "traceEvents": [{"ph": "X", "name": "step 3", "pid": 7, "tid": 1, "ts": 10.5, "dur": 4}]})");
  write(folder.path() / "b", R"({"baseTimeNanoseconds": 5000000, "traceEvents": [{"ph": "X", "name": "step 3", "pid": 7, "tid": 1, "ts": 1, "dur": 4},
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

int64_t status_kilobytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1));
  return 0;
}

/// How far the resident memory of this process rises above its present size while `work` runs; -1 where the system does not tell.
template <typename Work>
int64_t peak_growth_kilobytes(const Work& work) {
  ::malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  if (!(reset << "5" << std::flush)) return -1;  // the peak counts anew
  const int64_t before = status_kilobytes("VmHWM");
  work();
  return before > 0 ? status_kilobytes("VmHWM") - before : -1;
}

TEST(MergeTraces, HoldsOneTraceAtATime) {
  const core::TempDir folder;
  std::string text = R"({"baseTimeNanoseconds": 0, "traceEvents": [)";
  for (int index = 0; index < 20000; ++index)
    text += std::string(index > 0 ? "," : "") + R"({"ph": "X", "name": "a step of some length", "pid": 7, "tid": 1, "ts": )" + std::to_string(index) + R"(, "dur": 4})";
  write(folder.path() / "trace", text + "]}");
  std::vector<std::pair<int, std::filesystem::path>> traces;
  const auto merge = [&] { EXPECT_EQ(merge_traces(traces, folder.path() / "merged"), static_cast<int64_t>(20000 * traces.size())); };
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
