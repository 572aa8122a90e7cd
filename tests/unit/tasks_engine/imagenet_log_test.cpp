// Lines of `train imagenet`, written and read back by the reader of the example's logs.
#include "tasks/imagenet/engine/imagenet_log.h"

#include <gtest/gtest.h>

#include <map>

#include "core/files.h"
#include "logs/logs.h"

namespace lockstep::tasks {
namespace {

TEST(ImagenetLog, ItsLinesAreReadAsThoseOfTheExample) {
  const auto format = make_imagenet_log_format();
  const train::TrainLogConfig config{.steps_per_epoch = 5, .total_steps = 10, .log_every_n_steps = 2};
  const std::map<std::string, record::AverageMeter> no_parts;
  std::string text;
  for (int64_t step = 0; step < config.total_steps; ++step) {
    train::StepValues values;
    values.step = step, values.step_ms = 100.0 + static_cast<double>(step), values.data_wait_ms = 7;
    values.scalars = {{"top1_pct", 12.5}, {"top5_pct", 50}};
    record::StepRecord recorded;
    recorded.epoch = step / config.steps_per_epoch;
    format->add_to_record(values, recorded);
    record::AverageMeter loss, unused;
    loss.update(2.5 + static_cast<double>(step));
    if (format->is_due(config, step))
      text += format->step_line({.config = config,
                                 .values = values,
                                 .loss = loss,
                                 .batch_s = unused,
                                 .data_s = unused,
                                 .loss_parts = no_parts}) +
              "\n";
    if (step % config.steps_per_epoch == 4)
      text += format->result_line(step / 5, step + 1, {{"top1_pct", 71.123}, {"top5_pct", 90.456}}) + "\n";
  }
  EXPECT_NE(
      text.find("Epoch: [1][3/5]\tTime  0.107 ( 0.106)\tData  0.007 ( 0.007)\tLoss 9.5000e+00 (9.5000e+00)\tAcc@1"),
      std::string::npos)
      << text;
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "run.log", text);
  const auto runs = logs::read_log(folder.path() / "run.log");
  ASSERT_EQ(runs.size(), 1u);
  const record::RunData& run = runs.front();
  EXPECT_EQ(run.num_rejected_lines, 0);
  EXPECT_EQ(run.steps.step, (std::vector<int64_t>{0, 2, 4, 5, 7, 9}));
  EXPECT_EQ(run.steps.step_ms[4], 107);
  EXPECT_EQ(run.steps.loss[4], 9.5);
  EXPECT_EQ(run.steps.data_wait_ms[4], 7);
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results[1].metrics[0], (std::pair<std::string, double>{"top1_pct", 71.123}));
}

TEST(ImagenetLog, AnEvaluationAloneIsATable) {
  const train::Metrics metrics{
      {"top1_pct", 71.1234}, {"top5_pct", 90.5}, {"loss", 1.25}, {"num_samples", 49998}, {"num_failed", 2}};
  EXPECT_EQ(evaluation_table(metrics),
            "pictures          49998\n"
            "failed                2\n"
            "top-1 (%)        71.123\n"
            "top-5 (%)        90.500\n"
            "loss            1.25000\n");
  train::Metrics with_average = metrics;
  with_average.insert(with_average.end(), {{"ema_top1_pct", 72}, {"ema_top5_pct", 91}, {"ema_loss", 1.125}});
  const std::string table = evaluation_table(with_average);
  EXPECT_NE(table.find("                weights      average\n"), std::string::npos) << table;
  EXPECT_NE(table.find("top-1 (%)        71.123       72.000\n"), std::string::npos) << table;
  EXPECT_NE(table.find("loss            1.25000      1.12500\n"), std::string::npos) << table;
}

}  // namespace
}  // namespace lockstep::tasks
