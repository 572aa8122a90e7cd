#include "sweep/sweep_file.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace {

std::string range(const std::string& text) {
  std::vector<std::string> parts;
  for (const Scalar& value : parse_range(text, "f.toml:1")) parts.push_back(to_text(value));
  return core::join(parts, " ");
}

std::string file_error_of(const std::string& text) {
  try {
    parse_sweep_file(text, "f.toml");
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST(SweepFile, Ranges) {
  EXPECT_EQ(range("1-128*2"), "1 2 4 8 16 32 64 128");
  EXPECT_EQ(range("1-9+4"), "1 5 9");
  EXPECT_EQ(range("3-5"), "3 4 5");
  EXPECT_EQ(range("1, 2,4-16*2"), "1 2 4 8 16");
  EXPECT_EQ(range("7"), "7");
}

TEST(SweepFile, RangesThatMeanSomethingElseAreRefused) {
  for (const char* text :
       {"1-100*2", "0-4", "4-1", "1-8*1", "1-8+0", "a-b", "1-", "", "1,,2", "1-2-3", "4*2", "1-4*", "1-99999999"})
    EXPECT_THROW(range(text), UsageError) << text;
  try {
    range("1-100*2");
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("steps pass 100 without hitting it"), std::string::npos) << error.what();
  }
}

TEST(SweepFile, KeepsTheOrderOfTheFile) {
  const SweepFile file = parse_sweep_file(R"(
name = "x"
[axes]
nodes = [4, 1]
batch-size = "8-32*2"
env.NCCL_ALGO = ["Tree", "Ring"]
[[case]]
name = "tiny"
train = { model = "ViT-B-32" }
[when."nodes >= 16"]
slurm = { time = "00:25:00" }
[when."nodes >= 2"]
skip = true
[train]
zeroshot-frequency = 0
accum_freq = 2
)",
                                          "f.toml");
  ASSERT_EQ(file.axes.size(), 3u);
  EXPECT_EQ(file.axes[0].key, "nodes");
  EXPECT_EQ(file.axes[1].values.size(), 3u);
  EXPECT_EQ(file.axes[2].key, "env.NCCL_ALGO");
  ASSERT_EQ(file.whens.size(), 2u);
  EXPECT_EQ(file.whens[0].condition, "nodes >= 16");
  EXPECT_TRUE(file.whens[1].skip);
  EXPECT_EQ(file.cases.at(0).sections.flags.at(0).key, "model");
  EXPECT_EQ(file.base.flags.at(0).key, "zeroshot-frequency");
  EXPECT_EQ(file.base.flags.at(1).key, "accum-freq");
  EXPECT_EQ(file.base.flags.at(1).line, 16);
}

TEST(SweepFile, RefusalsNameLineAndKey) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"name = \"x\"\nnodse = 3\n", "f.toml:2: 'nodse' is unknown"},
      {"repeats = 2\n", "'name' is missing"},
      {"name = \"x\"\nrepeats = 0\n", "f.toml:2: 'repeats' is 0, expected 1"},
      {"name = \"x\"\nrepeats = \"two\"\n", "f.toml:2: 'repeats' is a text, expected a whole number"},
      {"name = \"x\"\nscaling = \"wek\"\n", "f.toml:2: 'scaling' is 'wek', expected weak, strong or free"},
      {"name = \"x\"\n[axes]\nnodes = []\n", "f.toml:3: 'nodes' is an empty list"},
      {"name = \"x\"\n[axes]\nnodes = [1, 1]\n", "f.toml:3: axis 'nodes' has the value 1 twice"},
      {"name = \"x\"\n[axes]\ncase = [1]\n", "cases are [[case]] tables"},
      {"name = \"x\"\n[train]\nlr = 1e-3\nl_r = 2\n[axes]\nx = {a = 1}\n", "f.toml:6: 'x' is a table"},
      {"name = \"x\"\n[train]\nbatch-size = 1\nbatch_size = 2\n", "f.toml:4: 'batch_size' repeats line 3"},
      {"name = \"x\"\n[submit]\nin-fligth = 1\n", "f.toml:3: 'in-fligth' is unknown in [submit]"},
      {"name = \"x\"\n[billing]\nper-node-hour = 4\n", "[billing] has no unit"},
      {"name = \"x\"\n[billing]\nunit = \"h\"\nper-node-hour = 0\n", "f.toml:4: 'per-node-hour'"},
      {"name = \"x\"\n[[case]]\ntrain = {}\n", "a [[case]] has no name"},
      {"name = \"x\"\n[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"\n", "case 'a' is given twice"},
      {"name = \"x\"\n[when.\"nodes > 1\"]\nskip = 1\n", "f.toml:3: 'skip' is a whole number, expected true or false"},
      {"name = \"x\"\n[when.\"nodes > 1\"]\ntime = \"1h\"\n", "f.toml:3: 'time' is unknown in [when.\"nodes > 1\"]"},
      {"name = \"x\"\nname = \"y\"\n", "f.toml:2: column"},
      {"name = \"x\n", "f.toml:1: column"},
      {"name = \"x\"\n[train]\nlr = inf\n", "f.toml:3: 'lr' is not finite"},
      {"name = \"x\"\n[train]\nseed = 9223372036854775807\n", "beyond 2^53"},
      {"name = \"x\"\n[train]\nlr = 2020-01-01\n", "f.toml:3: 'lr' is a date or time"}};
  for (const auto& [text, expected] : cases)
    EXPECT_NE(file_error_of(text).find(expected), std::string::npos) << text << " -> " << file_error_of(text);
}

TEST(SweepFile, LimitsSpeakBeforeMuchIsCompared) {
  std::string values;
  for (int i = 0; i < 10'001; ++i) values += fmt::format("{},", i);
  const std::string head = "name = \"x\"\ncommand = \"train clip\"\n[axes]\n";
  EXPECT_NE(file_error_of(head + "batch-size = [" + values + "]\n").find("10001 values, at most 10000"),
            std::string::npos);
  EXPECT_NE(file_error_of(head + "lr = [1, 2, 3, 2]\n").find("has the value 2 twice"), std::string::npos);
  EXPECT_EQ(file_error_of(head + "lr = [1, \"1\", true]\n"), "") << "a text, a number and a truth value differ";
  std::string axes;
  for (int i = 0; i < 65; ++i) axes += fmt::format("env.A{} = [1, 2]\n", i);
  EXPECT_NE(file_error_of(head + axes).find("f.toml:68: 'env.A64' is one axis too many: at most 64"), std::string::npos)
      << file_error_of(head + axes);
}

TEST(SweepFile, KeysOfManyPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  EXPECT_NE(file_error_of(key + " = 1\n").find("f.toml:1: column 128: a key has more than 64 parts"), std::string::npos)
      << file_error_of(key + " = 1\n");
}

TEST(SweepFile, MissingFile) { EXPECT_THROW(read_sweep_file("/nonexistent/sweep.toml"), UsageError); }

}  // namespace
}  // namespace lockstep::sweep
