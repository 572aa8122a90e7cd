// Losses on the log lines of `train clip`: the one of the step, and in brackets a mean.
#include "tasks/contrastive/engine/contrastive_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/error_text.h"

namespace lockstep::tasks {
namespace {

/// Three steps of 100 samples with losses 8, 2 and 5, two of them an epoch; the line and scalars of the last.
struct LastStep {
  std::string line;
  train::Metrics scalars;
};
LastStep last_of_three(int64_t horizon_samples, double second_loss = 2) {
  const auto format = make_contrastive_log_format(horizon_samples);
  const train::TrainLogConfig config{.steps_per_epoch = 2, .samples_per_step = 100, .total_steps = 4};
  LastStep last;
  record::AverageMeter loss, unused;
  for (int64_t step = 0; step < 3; ++step) {
    train::StepValues values;
    values.step = step;
    const double value = step == 0 ? 8 : step == 1 ? second_loss : 5;
    values.scalars = {{"loss", value}, {"contrastive_loss", value / 2}};
    record::StepRecord recorded;
    recorded.loss = value;
    recorded.samples = config.samples_per_step;
    format->add_to_record(values, recorded);
    if (step == 2) loss.reset();  // a new epoch
    loss.update(value, 100);
    std::map<std::string, record::AverageMeter> parts;
    parts["contrastive_loss"].update(value / 2, 100);
    const train::LogWindow window{
        .config = config, .values = values, .loss = loss, .batch_s = unused, .data_s = unused, .loss_parts = parts};
    last = {format->step_line(window), format->scalars(window)};
  }
  return last;
}

TEST(ContrastiveLog, MeansAreOfTheEpochByDefault) {
  EXPECT_TRUE(tests::holds(last_of_three(0).line, "Contrastive_loss: 2.5000 (2.5000) Loss: 5.0000 (5.0000)"))
      << last_of_three(0).line;
}

TEST(ContrastiveLog, ExponentialMeansGoOnFromEpochToEpoch) {
  const double kept = std::exp(-100.0 / 400);
  const double mean = kept * (kept * 8 + (1 - kept) * 2) + (1 - kept) * 5;
  const LastStep last = last_of_three(400);
  EXPECT_TRUE(
      tests::holds(last.line, fmt::format("Contrastive_loss: 2.5000 ({:.4f}) Loss: 5.0000 ({:.4f})", mean / 2, mean)))
      << last.line;
  EXPECT_EQ(last.scalars.back(), (std::pair<std::string, double>{"train/loss", 5})) << "as it is";
}

TEST(ContrastiveLog, ALossThatIsNoNumberDoesNotSpoilTheMean) {
  const double kept = std::exp(-100.0 / 400);
  EXPECT_TRUE(
      tests::holds(last_of_three(400, NAN).line, fmt::format("Loss: 5.0000 ({:.4f})", kept * 8 + (1 - kept) * 5)))
      << last_of_three(400, NAN).line;
}

}  // namespace
}  // namespace lockstep::tasks
