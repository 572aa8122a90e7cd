// Logs whose numbers can be taken for something else: units, elapsed times, a batch that is only counted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "logs/logs.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

record::RunData read_named(const std::string& text, const std::string& name, const record::MetaOptions& meta = {}) {
  const core::TempDir folder;
  std::ofstream(folder.path() / name, std::ios::binary) << text;
  return read_one(folder.path() / name, std::nullopt, {.meta = meta});
}

bool tells(const record::RunData& run, const std::string& words) {
  return std::any_of(run.problems.begin(), run.problems.end(),
                     [&](const std::string& problem) { return problem.find(words) != std::string::npos; });
}

std::string clip_line(int64_t samples, const std::string& rate) {
  return fmt::format(
      "2026-01-01,12:00:00 | INFO | Train Epoch: 0 [{}/10240000 (9%)] Data (t): 0.031 Batch (t): 1.217, {}/s, "
      "105.2/s/gpu LR: 0.000012 Logit Scale: 14.286 Loss: 8.3 (8.4)\n",
      samples, rate);
}

TEST(LogDoubts, ACountedBatchThatContradictsThePrintedRateIsNotTaken) {
  const record::RunData tail = read_named(clip_line(1'014'784, "841.3"), "run.log");
  EXPECT_EQ(tail.setup.global_batch, 1024);
  EXPECT_EQ(tail.steps.samples.at(0), 1024);
  EXPECT_TRUE(tells(tail,
                    "the global batch, 1024, was inferred from the printed rates and Batch (t): the sample counts of "
                    "the lines, all multiples of 1014784, contradict them"));
  const record::RunData told =
      read_named(clip_line(1'014'784, "841.3"), "run.log", {.values = {{"global_batch", "512"}}});
  EXPECT_EQ(told.steps.samples.at(0), 512) << "the user knows best";
  const record::RunData noisy = read_named(
      clip_line(2048, "1100.0") + clip_line(1024 * 101, "600.0") + clip_line(1024 * 201, "841.3"), "run.log");
  EXPECT_EQ(noisy.setup.global_batch, 1024);
  EXPECT_TRUE(tells(noisy, "was inferred from the sample counts")) << "rates of single steps stray, the count stands";
}

TEST(LogDoubts, FewShortTimesAmongLongOnesAreAnotherUnit) {
  const auto text_of = [](int num_short, int num_long) {
    std::string text = "step,step_time,samples\n";
    for (int i = 0; i < num_short + num_long; ++i)
      text += fmt::format("{},{},64\n", i, i < num_short ? 0.50 + 0.001 * i : 503.0 + i % 7);
    return text;
  };
  EXPECT_THROW(read_named(text_of(10, 90), "steps.csv"), DataError);
  EXPECT_THROW(read_named(text_of(1, 99), "steps.csv"), DataError);
  EXPECT_EQ(read_named(text_of(90, 10), "steps.csv").steps.size(), 100u) << "a stall now and then";
}

TEST(LogDoubts, AColumnThatRisesAtEveryRowIsElapsedTime) {
  std::string elapsed = "step,time_s\n", steps = "step,time_s\n";
  for (int i = 0; i < 20; ++i) {
    elapsed += fmt::format("{},{}\n", 10 * i, 5.0 * i);
    steps += fmt::format("{},{}\n", i, i == 7 ? 0.4 : 0.5 + 0.01 * i);
  }
  const record::RunData run = read_named(elapsed, "steps.csv");
  ASSERT_EQ(run.steps.size(), 19u);
  for (const double ms : run.steps.step_ms) EXPECT_NEAR(ms, 500, 1e-9);
  EXPECT_EQ(run.steps.num_steps, std::vector<int32_t>(19, 10));
  EXPECT_TRUE(tells(run, "the column 'time_s' rises at every row, so it is time since the start"));
  const record::RunData again = read_named(elapsed + elapsed, "steps.csv");
  EXPECT_EQ(again.num_attempts, 2);
  EXPECT_EQ(again.steps.step_ms, run.steps.step_ms);
  const record::RunData single = read_named(steps, "steps.csv");
  EXPECT_EQ(single.steps.size(), 20u);
  EXPECT_DOUBLE_EQ(single.steps.step_ms[7], 400);
  EXPECT_FALSE(tells(single, "rises at every row"));
}

Error refusal_of(const std::string& text, const std::string& name) {
  try {
    read_named(text, name);
  } catch (const DataError& error) {
    return error;
  }
  ADD_FAILURE() << name << " was read";
  return DataError("", "");
}

TEST(LogDoubts, ATableThatIsNotRecognisedSaysWhatItLacks) {
  const Error table = refusal_of("step,time,loss\n0,0.512,7\n1,0.513,7\n", "steps.csv");
  EXPECT_NE(table.text().find("its first line is 'step,time,loss'"), std::string::npos) << table.text();
  EXPECT_NE(table.hint().find("step_time_s"), std::string::npos) << table.hint();
  EXPECT_NE(refusal_of("step,time,loss\n0,0.512,7\n", "steps.log").hint().find("--from"), std::string::npos)
      << "by its name it may be anything";
  EXPECT_NE(refusal_of("# nothing\n", "steps.csv").text().find("no line of it is recognised"), std::string::npos);
}

TEST(LogDoubts, CompressedFilesAreNamedWithWhatUnpacksThem) {
  using namespace std::string_literals;
  for (const auto& [bytes, name, program] : {std::tuple{"\x1f\x8b\x08\0\0"s, "out.log.gz", "gunzip "},
                                             {"BZh91AY"s, "out.log.bz2", "bunzip2 "},
                                             {"\xfd"
                                              "7zXZ\0"s,
                                              "out.log.xz", "unxz "},
                                             {"\x28\xb5\x2f\xfd\x04"s, "out.log.zst", "unzstd "},
                                             {"\x1f\x8b\x08\0\0"s, "out.log", "gunzip "}}) {
    const Error refusal = refusal_of(bytes, name);
    EXPECT_NE(refusal.text().find("compressed files are not read"), std::string::npos) << refusal.text();
    EXPECT_NE(refusal.hint().find(program), std::string::npos) << refusal.hint();
  }
  EXPECT_EQ(read_named(clip_line(1024, "841.3"), "out.log.gz").steps.size(), 1u) << "whatever its name says";
}

}  // namespace
}  // namespace lockstep::logs
