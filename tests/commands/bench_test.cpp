// `lockstep bench` over real ranks, at sizes that take no time.
#include <gtest/gtest.h>

#include "core/json.h"
#include "core/strings.h"
#include "run_program.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

const EnvChanges kNoJob = {{"RANK", {}}, {"WORLD_SIZE", {}}, {"LOCAL_RANK", {}}, {"MASTER_ADDR", {}}, {"MASTER_PORT", {}},
                           {"SLURM_STEP_ID", {}}, {"SLURM_JOB_ID", {}}, {"SLURM_NTASKS", {}}, {"OMP_NUM_THREADS", {}}};

ProgramResult launch_bench(int num_ranks, std::vector<std::string> args) {
  std::vector<std::string> words = {"launch", "--nproc-per-node", std::to_string(num_ranks), "--", "bench"};
  words.insert(words.end(), args.begin(), args.end());
  return run_lockstep(words, kNoJob, 300s);
}

ProgramResult bench(std::vector<std::string> args) {
  args.insert(args.begin(), "bench");
  return run_lockstep(args, kNoJob, 300s);
}

class BenchCollective : public ::testing::TestWithParam<int> {};

TEST_P(BenchCollective, EveryCollectiveOverGlooIsRightAndTimed) {
  const int n = GetParam();
  const auto result = launch_bench(n, {"collective", "--collectives", "all", "-b", "48", "-e", "3072", "-f", "8", "-n", "3", "-w", "1",
                                       "--device", "cpu", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = core::parse_json(result.out, "output");
  EXPECT_EQ(json.at("case"), "collective");
  EXPECT_EQ(json.at("command").at(0), "lockstep");
  EXPECT_FALSE(json.at("versions").at("libtorch").get<std::string>().empty());
  EXPECT_EQ(json.at("machine").at("ranks").size(), static_cast<size_t>(n));
  EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
  ASSERT_EQ(json.at("rows").size(), 6u * 3u);
  for (const auto& row : json.at("rows")) {
    const bool is_out_of_place = row.contains("time_us");
    EXPECT_TRUE(is_out_of_place || row.contains("in_place_time_us"));
    EXPECT_EQ(row.at(is_out_of_place ? "wrong" : "in_place_wrong"), 0);
    EXPECT_EQ(row.at(is_out_of_place ? "samples_us" : "in_place_samples_us").size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BenchCollective, ::testing::Values(2, 3));

TEST(Bench, TableAndCsvOfOneCollective) {
  const auto table = launch_bench(2, {"collective", "-b", "8", "-e", "64", "-n", "2", "--device", "cpu"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("#wrong"), std::string::npos);
  EXPECT_NE(table.out.find("# Wrong values          : 0 OK"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("# Avg bus bandwidth     :"), std::string::npos);
  size_t num_rows = 0;
  for (const auto& line : core::split(table.out, "\n")) num_rows += !line.empty() && line[0] != '#';
  EXPECT_EQ(num_rows, 4u) << table.out;  // 8, 16, 32, 64
  const auto csv = launch_bench(2, {"collective", "-b", "8", "-e", "64", "--mode", "verify", "--device", "cpu", "--csv"});
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_EQ(core::split(csv.out, "\n").size(), 1u + 4u + 1u) << csv.out;
  EXPECT_EQ(csv.out.find("part,bytes,count,type,redop,root,time_us"), 0u);
}

TEST(Bench, ListNamesThePointsAndMeasuresNothing) {
  const auto result = bench({"collective", "--mode", "list", "-b", "1K", "-e", "4K", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto points = core::parse_json(result.out, "output");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2].at("bytes"), 4096);
  EXPECT_FALSE(points[2].contains("time_us"));
}

TEST(Bench, BadInputIsAUsageError) {
  const auto alone = bench({"collective", "--device", "cpu"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_NE(alone.err.find("one rank alone sends nothing"), std::string::npos) << alone.err;
  EXPECT_EQ(bench({"collective", "-b", "lots"}).exit_code, 2);
  EXPECT_EQ(bench({"collective", "--wings", "2"}).exit_code, 2);
  EXPECT_EQ(bench({"collectives"}).exit_code, 2);
  EXPECT_EQ(bench({}).exit_code, 2);
  EXPECT_EQ(bench({"collective", "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace lockstep::testing
