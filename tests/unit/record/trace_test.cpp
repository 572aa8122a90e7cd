#include "record/trace.h"

#include <gtest/gtest.h>

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
