// CSV files of steps that hold several runs: sizes, repeats, models in columns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "core/strings.h"
#include "logs/logs.h"
#include "support/fuzz.h"

namespace lockstep::logs {
namespace {

std::vector<record::RunData> read_runs(const std::string& text) {
  const core::TempDir folder;
  std::ofstream(folder.path() / "steps.csv", std::ios::binary) << text;
  return read_log(folder.path() / "steps.csv");
}

std::string problems_of(const std::vector<record::RunData>& runs) {
  std::vector<std::string> all;
  for (const record::RunData& run : runs) all.insert(all.end(), run.problems.begin(), run.problems.end());
  return core::join(all, " | ");
}

std::vector<std::string> parts_of(const std::vector<record::RunData>& runs) {
  std::vector<std::string> parts;
  for (const record::RunData& run : runs) parts.push_back(run.part);
  return parts;
}

/// 100 rows for each of 1, 2 and 4 nodes; a step of n nodes takes 100 + n ms, the k-th k / 1000 more.
std::vector<std::string> rows_of_sizes() {
  std::vector<std::string> rows;
  for (const int nodes : {1, 2, 4})
    for (int step = 0; step < 100; ++step)
      rows.push_back(fmt::format("{},{:.3f},{},{}", step, 100 + nodes + step / 1000.0, 256 * nodes, nodes));
  return rows;
}

TEST(CsvRuns, ABatchOfAPassIsTakenTimesTheAccumulation) {
  const auto read = [](const std::string& column) {
    std::string text = "step,step_time_s," + column + ",gradient_accumulation_steps,devices\n";
    for (int step = 0; step < 40; ++step) text += fmt::format("{},2.0,4,8,8\n", step);
    return read_runs(text);
  };
  for (const char* name : {"micro_batch_size", "per_device_train_batch_size"}) {
    const auto runs = read(name);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].setup.samples_per_device, 32) << name;
    EXPECT_EQ(runs[0].setup.global_batch, 256) << name;
    EXPECT_EQ(problems_of(runs), "");
  }
  const auto doubtful = read("batch_size_per_gpu");  // may be either
  EXPECT_EQ(doubtful.at(0).setup.global_batch, 32);
  EXPECT_NE(problems_of(doubtful).find("if it is that of one of 8 passes, call the column micro_batch"),
            std::string::npos)
      << problems_of(doubtful);
}

TEST(CsvRuns, CountsOfSamplesSinceTheStartTellTheBatch) {
  const auto batch_of = [](int odd_row) {
    std::string text = "step,step_time_s,consumed_samples,nodes\n";
    for (int nodes : {1, 2})
      for (int step = 0; step < 40; ++step)
        text += fmt::format("{},0.5,{},{}\n", step, 512 * nodes * (step + 1) + (step == odd_row ? 1 : 0), nodes);
    const auto runs = read_runs(text);
    EXPECT_EQ(runs.size(), 2u);
    return std::pair(runs.at(0).setup.global_batch, runs.at(1).steps.samples.at(0));
  };
  EXPECT_EQ(batch_of(-1).first, 512);
  EXPECT_EQ(batch_of(-1).second, 1024);
  EXPECT_FALSE(batch_of(20).first);  // no single batch
  EXPECT_TRUE(std::isnan(batch_of(20).second));
}

TEST(CsvRuns, EachSizeIsARunOfItsOwnWhateverTheOrderOfTheRows) {
  std::vector<std::string> rows = rows_of_sizes();
  for (const bool is_shuffled : {false, true}) {
    if (is_shuffled) std::shuffle(rows.begin(), rows.end(), std::mt19937(7));
    const std::vector<record::RunData> runs =
        read_runs("step,step_time_ms,global_batch,nodes\n" + core::join(rows, "\n") + "\n");
    ASSERT_EQ(runs.size(), 3u) << is_shuffled;
    EXPECT_EQ(problems_of(runs), "");
    for (const record::RunData& run : runs) {
      ASSERT_TRUE(run.setup.nodes);
      const auto nodes = *run.setup.nodes;
      EXPECT_EQ(run.part, fmt::format("nodes={}", nodes));
      EXPECT_EQ(run.setup.global_batch, 256 * nodes);
      EXPECT_EQ(run.num_attempts, 1);
      ASSERT_EQ(run.steps.size(), 100u);
      for (size_t step = 0; step < 100; ++step) {
        EXPECT_EQ(run.steps.step[step], static_cast<int64_t>(step));
        EXPECT_NEAR(run.steps.step_ms[step], 100.0 + static_cast<double>(nodes) + static_cast<double>(step) / 1000,
                    1e-9);
        EXPECT_EQ(run.steps.num_steps[step], 1);
        EXPECT_EQ(run.steps.samples[step], static_cast<double>(256 * nodes));
      }
      EXPECT_FALSE(run.is_unit_guessed);
    }
  }
}

TEST(CsvRuns, NodesAndDevicesAreTwoFactsAndRepeatsAreParted) {
  std::string text = "nodes,gpus,run,model,precision,local_batch,job_id,step_time_s\n";
  for (int step = 0; step < 3; ++step)
    for (const char* run : {"2,8,a,ViT-B-32,bf16,64,11", "2,8,b,ViT-B-32,bf16,64,12", "4,16,a,ViT-B-32,bf16,64,13"})
      text += fmt::format("{},0.{}\n", run, 5 + step);
  EXPECT_THROW(read_runs(text), DataError) << "without a column of steps it is a table of points";
  text = core::replace_all(text, "step_time_s", "step_time_s,step");
  text = core::replace_all(core::replace_all(core::replace_all(text, "0.5\n", "0.5,0\n"), "0.6\n", "0.6,1\n"), "0.7\n",
                           "0.7,2\n");
  const std::vector<record::RunData> runs = read_runs(text);
  EXPECT_EQ(problems_of(runs), "");
  EXPECT_EQ(parts_of(runs),
            (std::vector<std::string>{"nodes=2, gpus=8, run=a, job_id=11", "nodes=2, gpus=8, run=b, job_id=12",
                                      "nodes=4, gpus=16, run=a, job_id=13"}));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[1].allocation, "slurm 12");
  EXPECT_EQ(runs[2].setup.devices, 16);
  EXPECT_EQ(runs[2].setup.samples_per_device, 64);
  EXPECT_EQ(runs[2].setup.global_batch, 1024) << "follows from the local batch and the devices";
  EXPECT_EQ(runs[2].setup.model, "ViT-B-32");
  EXPECT_EQ(runs[2].setup.precision, "bf16");
  EXPECT_EQ(runs[2].steps.step_ms, (std::vector<double>{500, 600, 700}));
  const std::vector<record::RunData> per_node =
      read_runs("step,step_time_ms,nodes,gpus_per_node\n0,10,1,4\n0,11,2,4\n");
  ASSERT_EQ(per_node.size(), 2u);
  EXPECT_EQ(per_node[1].setup.devices, 8);
  const std::vector<record::RunData> large = read_runs("step,step_time_ms,nodes\n0,10,\"1,024\"\n0,11,1024\n");
  ASSERT_EQ(large.size(), 1u) << "one number of nodes, written in two ways";
  EXPECT_EQ(large[0].setup.nodes, 1024);
}

TEST(CsvRuns, ABatchPartsRunsOnlyWhereStepsComeAgain) {
  const std::vector<record::RunData> two =
      read_runs("step,step_time_ms,global_batch\n0,10,64\n1,10,64\n0,19,128\n1,20,128\n");
  EXPECT_EQ(parts_of(two), (std::vector<std::string>{"global_batch=64", "global_batch=128"}));
  EXPECT_EQ(two[1].steps.step_ms, (std::vector<double>{19, 20}));
  EXPECT_EQ(two[1].setup.global_batch, 128);
  const std::vector<record::RunData> one =
      read_runs("step,step_time_ms,global_batch\n0,10,64\n1,10,64\n2,10,64\n3,4,16\n");  // the end of an epoch
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].steps.samples, (std::vector<double>{64, 64, 64, 16}));
  EXPECT_FALSE(one[0].setup.global_batch);
}

TEST(CsvRuns, RestartsAndRanksAreToldApartWithinEachRun) {
  const std::string header = "step,rank,step_time_ms,nodes\n";
  const std::string text =
      header + "0,0,10,1\n0,1,12,1\n1,0,11,1\n1,1,10,1\n0,0,20,2\n0,1,21,2\n" + header + "1,0,30,1\n1,1,31,1\n";
  const std::vector<record::RunData> runs = read_runs(text);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].steps.step_ms, (std::vector<double>{12, 31}));
  EXPECT_EQ(runs[0].num_attempts, 2);
  EXPECT_EQ(runs[1].steps.step_ms, (std::vector<double>{21}));
  EXPECT_EQ(runs[1].num_attempts, 1) << "only the other run started again";
}

TEST(CsvRuns, StepsThatBeginAgainWithEachEpochAreNumberedThrough) {
  std::string text = "epoch,step,step_time_ms,nodes\n";
  for (const int nodes : {1, 2})
    for (int epoch = 1; epoch <= 3; ++epoch)
      for (int step = 0; step < 4; ++step)
        text += fmt::format("{},{},{},{}\n", epoch, step, 100 * nodes + 10 * epoch + step, nodes);
  const std::vector<record::RunData> runs = read_runs(text);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].num_attempts, 1);
  EXPECT_EQ(runs[1].steps.step, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(runs[1].steps.step_ms, (std::vector<double>{210, 211, 212, 213, 220, 221, 222, 223, 230, 231, 232, 233}));
  EXPECT_EQ(problems_of(runs), "the steps begin again with each epoch: they were numbered through");
  const std::vector<record::RunData> again =
      read_runs("epoch,step,step_time_ms\n0,0,10\n0,1,10\n1,2,10\n1,2,30\n1,3,30\n");
  EXPECT_EQ(again.at(0).steps.step, (std::vector<int64_t>{0, 1, 2, 3})) << "a step that comes twice in one epoch";
}

TEST(CsvRuns, TimesSinceTheStartAreThoseOfEachRun) {
  std::string text = "step,time_s,nodes\n";
  for (int step = 0; step < 10; ++step)
    text += fmt::format("{},{},1\n{},{},2\n", step, 0.5 * step + 1, step, 0.7 * step + 1);
  const std::vector<record::RunData> runs = read_runs(text);
  ASSERT_EQ(runs.size(), 2u);
  ASSERT_EQ(runs[1].steps.size(), 9u);
  for (const double ms : runs[0].steps.step_ms) EXPECT_NEAR(ms, 500, 1e-6);
  for (const double ms : runs[1].steps.step_ms) EXPECT_NEAR(ms, 700, 1e-6);
}

TEST(CsvRuns, WhatCannotBeToldApartIsExplainedByItsColumn) {
  const std::vector<record::RunData> unnamed =
      read_runs("step,step_time_ms,nodes\n0,10,1\n0,20,2\n1,20,\n1,10,x\n1,11,0\n");
  ASSERT_EQ(unnamed.size(), 2u);
  EXPECT_EQ(unnamed[0].num_rejected_lines, 3);
  const std::string words = problems_of(unnamed);
  EXPECT_NE(words.find("one row is without a value in the column 'nodes'"), std::string::npos) << words;
  EXPECT_NE(words.find("the column 'nodes' holds something else than a whole number above 0; 2 such lines were left "
                       "out (the first is line 5)"),
            std::string::npos)
      << words;

  const std::vector<record::RunData> unknown =
      read_runs("step,step_time_ms,algo\n0,10,ring\n1,10,ring\n0,19,tree\n1,20,tree\n");
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_NE(problems_of(unknown).find("the column 'algo', of several values, is not read: where the values tell runs "
                                      "apart, name that column 'run'"),
            std::string::npos)
      << problems_of(unknown);
  const std::vector<record::RunData> batch = read_runs("step,step_time_ms,batch_size\n0,10,32\n0,19,64\n");
  EXPECT_NE(
      problems_of(batch).find(
          "the column 'batch_size' may be of a device or of all and was not read: name it local_batch or global_batch"),
      std::string::npos)
      << problems_of(batch);
  EXPECT_EQ(problems_of(batch).find("name that column 'run'"), std::string::npos) << problems_of(batch);

  const std::vector<record::RunData> per_node = read_runs("step,step_time_ms,nodes,gpus\n0,10,1,4\n0,11,2,4\n");
  EXPECT_NE(problems_of(per_node).find("the column 'gpus' is the same at every number of nodes"), std::string::npos)
      << problems_of(per_node);

  std::string many = "step,step_time_ms,run\n";
  for (int run = 0; run <= 10'000; ++run) many += fmt::format("0,10,r{}\n", run);
  EXPECT_THROW(read_runs(many), DataError);
}

TEST(CsvRuns, RunsSideBySideInAnExportOfWandbAreReadEach) {
  const std::vector<record::RunData> runs = read_runs(
      "\"Step\",\"bold-sun-1 - perf/step_time_ms\",\"bold-sun-1 - perf/step_time_ms__MIN\",\"bold-sun-1 - "
      "perf/step_time_ms__MAX\",\"wild - moon-2 - perf/step_time_ms\",\"wild - moon-2 - "
      "perf/step_time_ms__MIN\",\"bold-sun-1 - train/loss\",\"wild - moon-2 - train/loss\",\"wild - moon-2 - "
      "val/loss\",\"late - train/loss\"\n"
      "0,500,500,500,700,700,7.1,7.2,9,8\n"
      "1,,,,710,710,,6.9,,\n"
      "2,520,520,520,,,6.5,6.6,,\n"
      "3,521,521,521,721,721,6.4,,,7\n");
  EXPECT_EQ(parts_of(runs), (std::vector<std::string>{"run=bold-sun-1", "run=wild - moon-2"}));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].steps.step, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(runs[0].steps.step_ms, (std::vector<double>{500, 520, 521}));
  EXPECT_EQ(runs[0].steps.loss, (std::vector<double>{7.1, 6.5, 6.4}));
  EXPECT_EQ(runs[1].steps.step, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(runs[1].steps.step_ms, (std::vector<double>{700, 710, 721}));
  EXPECT_EQ(runs[1].steps.loss.at(1), 6.9);
  EXPECT_EQ(problems_of(runs), "'late' without a column of step times: left out");

  const std::vector<record::RunData> facts = read_runs(
      "step,nodes,a - step_time_ms,b - step_time_ms,a - gpus,b - gpus,run\n0,2,10,20,8,16,x\n1,2,11,21,8,16,x\n");
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(parts_of(facts), (std::vector<std::string>{"devices=8, run=a", "devices=16, run=b"}));
  EXPECT_EQ(facts[1].setup.nodes, 2);
  EXPECT_EQ(facts[1].setup.devices, 16);
  EXPECT_EQ(facts[1].steps.step_ms, (std::vector<double>{20, 21}));
  EXPECT_NE(problems_of(facts).find("the column 'run' is not read"), std::string::npos) << problems_of(facts);

  const std::vector<record::RunData> one = read_runs("Step,a - step_time_ms,a - loss\n0,10,7\n1,11,6\n");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(parts_of(one), std::vector<std::string>{""});
  EXPECT_EQ(one[0].steps.loss, (std::vector<double>{7, 6}));
}

TEST(CsvRuns, UnitsAreOfTheFileWhereTheWorkIsTheSame) {
  const auto text_of = [](const char* column, const char* a, const char* b) {
    std::string text = fmt::format("step,step_time,{}\n", column);
    for (int step = 0; step < 20; ++step) text += fmt::format("{0},0.5{0:02},{1}\n{0},5{0:02},{2}\n", step, a, b);
    return text;
  };
  EXPECT_THROW(read_runs(text_of("nodes", "1", "2")), DataError) << "seconds at one size, milliseconds at the other";
  const std::vector<record::RunData> models = read_runs(text_of("model", "small", "large"));
  ASSERT_EQ(models.size(), 2u) << "two models may be a thousandfold apart";
  EXPECT_TRUE(models[0].is_unit_guessed);
}

TEST(CsvRunsFuzz, DamagedFilesAreReadOrRefusedAndNeverYieldImpossibleTimes) {
  std::string good = "step,step_time_ms,global_batch,nodes,run,rank,time\n";
  for (int step = 0; step < 6; ++step)
    for (const char* run : {"256,1,a,0", "256,1,a,1", "512,2,a,0", "512,2,b,0"})
      good += fmt::format("{},{},{},{}\n", step, 100 + step, run, step);
  const uint64_t rounds = tests::fuzz_rounds(300);
  uint64_t num_read = 0, num_of_several = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    core::CounterRng rng(seed);
    const std::string damaged = tests::damage(good, rng);
    try {
      const std::vector<record::RunData> runs = read_runs(damaged);
      ASSERT_FALSE(runs.empty());
      for (const record::RunData& run : runs)
        for (size_t row = 0; row < run.steps.size(); ++row) {
          ASSERT_TRUE(std::isfinite(run.steps.step_ms[row]) && run.steps.step_ms[row] > 0) << "seed " << seed;
          ASSERT_GE(run.steps.num_steps[row], 1) << "seed " << seed;
        }
      ++num_read;
      num_of_several += runs.size() > 1 ? 1 : 0;
    } catch (const DataError&) {
    }
  }
  EXPECT_GT(num_of_several, rounds / 4);
  EXPECT_GT(rounds, num_read) << "some files were beyond reading";
}

}  // namespace
}  // namespace lockstep::logs
