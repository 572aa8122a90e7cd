#include "analysis/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::analysis {
namespace {

void add_step(record::StepColumns& steps, double step_ms, int32_t epoch = -1, double samples = 512) {
  steps.step.push_back(static_cast<int64_t>(steps.step.size()));
  steps.num_steps.push_back(1);
  steps.epoch.push_back(epoch);
  steps.attempt.push_back(1);
  steps.step_ms.push_back(step_ms);
  steps.samples.push_back(samples);
  for (auto* column : {&steps.data_wait_ms, &steps.tokens, &steps.loss, &steps.samples_seen, &steps.time_s,
                       &steps.logged_samples_per_s, &steps.logged_tflops_per_device})
    column->push_back(std::nan(""));
}

constexpr Protocol kAll[] = {Protocol::kLockstep, Protocol::kClap, Protocol::kNemotron, Protocol::kEpicureVision,
                             Protocol::kEpicureLanguage};

TEST(Protocol, NamesAreReadAndPrinted) {
  for (const Protocol protocol : kAll) EXPECT_EQ(parse_protocol(protocol_name(protocol)), protocol);
  try {
    parse_protocol("epicure");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(error.text().find("'epicure'"), std::string::npos);
    EXPECT_NE(error.text().find("epicure-vision or epicure-language"), std::string::npos);
  }
}

TEST(Protocol, LockstepTakesTheMedianAndTheRecipeTheLastStep) {
  record::StepColumns steps;
  core::CounterRng random(4);
  for (int i = 0; i < 50; ++i) add_step(steps, i < 5 ? 20000 : 3600 + random.uniform(-10, 10), 0, 256);
  steps.step_ms.back() = 3590;  // the recipe's own example: 4096 x 256 / 3.59 = 292082 tokens/s
  for (double& tokens : steps.tokens) tokens = 4096 * 256;
  const ProtocolResult ours = apply_protocol(Protocol::kLockstep, steps);
  EXPECT_NEAR(*ours.step_ms, 3600, 5);
  EXPECT_EQ(ours.num_rows, 40u);
  const ProtocolResult last = apply_protocol(Protocol::kNemotron, steps);
  EXPECT_EQ(*last.step_ms, 3590);
  EXPECT_EQ(std::llround(*last.tokens_per_s), 292082);
  EXPECT_EQ(last.num_rows, 1u);
  EXPECT_NE(last.sentence.find("last logged step (49)"), std::string::npos) << last.sentence;
}

TEST(Protocol, ClapAveragesPrintedRatesWithoutTheFirstLine) {
  record::StepColumns steps;
  for (int i = 0; i < 4; ++i) add_step(steps, 1000, 0, 2464);
  steps.logged_samples_per_s = {100, 2400, 2500, 2600};
  const ProtocolResult printed = apply_protocol(Protocol::kClap, steps);
  EXPECT_DOUBLE_EQ(*printed.samples_per_s, 2500);
  EXPECT_NE(printed.sentence.find("printed rates of 3 log lines"), std::string::npos) << printed.sentence;
  steps.step_ms = {9000, 1000, 2000, 1000};
  steps.logged_samples_per_s.assign(4, std::nan(""));
  const ProtocolResult computed = apply_protocol(Protocol::kClap, steps);
  EXPECT_DOUBLE_EQ(*computed.samples_per_s, (2464 + 1232 + 2464) / 3.0)
      << "a mean of rates, above total samples over total time";
  EXPECT_GT(*computed.samples_per_s, 3 * 2464 / 4.0);
}

TEST(Protocol, EpicureVisionTakesTheFourthEpochWithoutItsEnds) {
  record::StepColumns steps;
  for (int32_t epoch = 0; epoch < 5; ++epoch)
    for (int i = 0; i < 22; ++i) {
      const double plain = epoch == 3 ? 100 + 0.01 * i : 170;
      add_step(steps, i == 0 ? 900 : i == 21 ? 40 : i == 10 ? 300 : plain, epoch, i == 21 ? 64 : 512);
    }
  const ProtocolResult result = apply_protocol(Protocol::kEpicureVision, steps);
  EXPECT_EQ(result.num_rows, 20u);
  EXPECT_NEAR(*result.step_ms, 100.11, 0.02);
  EXPECT_NEAR(*result.samples_per_s, 512 / 0.10011, 1.5);
  EXPECT_NEAR(*result.elbow, 0.95, 1e-9) << "one disturbed batch of twenty";
  double sum = 0;
  for (size_t row = 66; row < 88; ++row) sum += steps.step_ms[row];
  EXPECT_NEAR(*result.epoch_train_s, sum / 1000, 1e-9);
  for (int32_t& epoch : steps.epoch) epoch = std::min(epoch, 2);
  const ProtocolResult three = apply_protocol(Protocol::kEpicureVision, steps);
  EXPECT_FALSE(three.is_given());
  EXPECT_NE(three.sentence.find("the run has 3"), std::string::npos);
}

TEST(Protocol, EpicureLanguageReportsWhatWasLogged) {
  record::StepColumns steps;
  for (int i = 0; i < 40; ++i) add_step(steps, i < 8 ? 9000 : 8500 + i % 3, 0, 192);
  EXPECT_FALSE(apply_protocol(Protocol::kEpicureLanguage, steps).is_given());
  for (int i = 0; i < 40; ++i) steps.logged_tflops_per_device[static_cast<size_t>(i)] = i < 8 ? 300 : 384;
  const ProtocolResult result = apply_protocol(Protocol::kEpicureLanguage, steps);
  EXPECT_EQ(*result.tflops_per_device, 384);
  EXPECT_NEAR(*result.samples_per_s, 192 / 8.501, 0.01);
}

TEST(Protocol, LogLinesThatAreMeansOverSeveralStepsAreNotCalledSteps) {
  record::StepColumns vision;  // as OpenCLIP logs: the first line of an epoch is of one step, the others of ten
  for (int32_t epoch = 0; epoch < 5; ++epoch)
    for (int i = 0; i < 21; ++i) {
      add_step(vision, 100 + 0.01 * i, epoch);
      vision.num_steps.back() = i == 0 ? 1 : 10;
    }
  const ProtocolResult fourth = apply_protocol(Protocol::kEpicureVision, vision);
  EXPECT_EQ(fourth.num_rows, 19u);
  EXPECT_TRUE(fourth.is_of_means);
  EXPECT_FALSE(fourth.elbow) << "95 % of means are not 95 % of steps";
  EXPECT_NE(
      fourth.sentence.find(
          "19 log lines (means over 10 batches each, 190 in all) of the fourth epoch, its first and last line dropped"),
      std::string::npos)
      << fourth.sentence;
  EXPECT_NE(fourth.sentence.find("means over several batches have no elbow"), std::string::npos) << fourth.sentence;

  record::StepColumns language;  // as Megatron logs with --log-interval 10
  for (int i = 0; i < 200; ++i) {
    add_step(language, i < 4 ? 9000 : 8500 + i % 3, 0, 192);
    language.num_steps.back() = 10;
    language.logged_tflops_per_device.back() = 384;
  }
  const stats::SeriesOptions four{.warmup_steps = 4};
  const ProtocolResult logged = apply_protocol(Protocol::kEpicureLanguage, language, four);
  EXPECT_NE(logged.sentence.find("in 196 log lines (means over 10 steps each, 1960 in all), once the throughput had "
                                 "become stable (4 lines, 40 steps left out)"),
            std::string::npos)
      << logged.sentence;
  const ProtocolResult ours = apply_protocol(Protocol::kLockstep, language, four);
  EXPECT_FALSE(ours.elbow);
  EXPECT_EQ(ours.sentence,
            "median of 196 log lines (means over 10 steps each, 1960 in all) after a warm-up of 4 lines, 40 steps");
  EXPECT_NE(apply_protocol(Protocol::kNemotron, language)
                .sentence.find("mean time of the 10 steps of the last log line (up to step 199)"),
            std::string::npos);
  std::fill(language.num_steps.begin(), language.num_steps.end(), 1);
  const ProtocolResult single = apply_protocol(Protocol::kLockstep, language, four);
  EXPECT_EQ(single.sentence, "median of 196 steps after a warm-up of 4");
  EXPECT_FALSE(single.is_of_means);
  EXPECT_TRUE(single.elbow);
}

TEST(Protocol, EmptyRecordsAreExplained) {
  for (const Protocol protocol : kAll) {
    const ProtocolResult result = apply_protocol(protocol, {});
    EXPECT_FALSE(result.is_given());
    EXPECT_NE(result.sentence.find("needs"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::analysis
