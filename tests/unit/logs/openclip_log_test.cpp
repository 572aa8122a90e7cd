#include "record/openclip_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/files.h"
#include "core/json.h"
#include "logs/logs.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

using core::Json;

const Json& golden() {
  static const Json json = core::read_json_file(LOCKSTEP_GOLDEN_DIR "/record/openclip_log.json");
  return json;
}

double number(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  return value == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
}

TEST(OpenClipLog, TrainLinesAreTheProgramsOwn) {
  int compared = 0;
  for (const Json& test : golden().at("train")) {
    record::OpenClipTrainLine line{.epoch = test["epoch"],
                                   .samples_in_epoch = test["samples_in_epoch"],
                                   .samples_per_epoch = test["samples_per_epoch"]};
    line.percent_of_epoch = number(test["percent_of_epoch"]);
    line.data_s = number(test["data_s"]);
    line.batch_s = number(test["batch_s"]);
    line.samples_per_s = number(test["samples_per_s"]);
    line.samples_per_s_per_rank = number(test["samples_per_s_per_rank"]);
    line.lr = number(test["lr"]);
    line.logit_scale = number(test["logit_scale"]);
    for (const Json& loss : test["losses"]) line.losses.push_back({loss[0], number(loss[1]), number(loss[2])});
    EXPECT_EQ(record::format_train_line(line), test["line"].get<std::string>());
    ++compared;
  }
  EXPECT_GE(compared, 50);
}

TEST(OpenClipLog, EvaluationLinesAreTheProgramsOwn) {
  int compared = 0;
  for (const Json& test : golden().at("summary")) {
    record::NamedNumbers metrics;
    for (const Json& metric : test["metrics"]) metrics.emplace_back(metric[0], number(metric[1]));
    EXPECT_EQ(record::format_eval_summary(test["epoch"], metrics), test["line"].get<std::string>());
    ++compared;
  }
  EXPECT_GE(compared, 50);
}

TEST(OpenClipLog, ProgressOfAnEvaluationIsNoResult) {
  std::string text = "2026-01-31,12:00:00 | INFO | " + golden().at("train").at(0).at("line").get<std::string>() + "\n";
  for (const Json& test : golden().at("progress"))
    text += "2026-01-31,12:00:01 | INFO | " + test["line"].get<std::string>() + "\n";
  const core::TempDir folder;
  const auto path = folder.path() / "run.log";
  core::write_file_atomic(path, text);
  EXPECT_TRUE(read_one(path, LogFormat::kOpenClip).results.empty());
  core::write_file_atomic(
      path, text + "2026-01-31,12:00:02 | INFO | " + golden().at("summary").at(0).at("line").get<std::string>() + "\n");
  EXPECT_EQ(read_one(path, LogFormat::kOpenClip).results.size(), 1u);
}

TEST(OpenClipLog, MeterIsAWeightedMean) {
  record::AverageMeter meter;
  meter.update(2, 1);
  meter.update(5, 3);
  EXPECT_EQ(meter.last(), 5);
  EXPECT_EQ(meter.average(), (2 + 15) / 4.0);
  meter.reset();
  meter.update(7);
  EXPECT_EQ(meter.average(), 7);
}

TEST(OpenClipLog, ScalarNames) {
  record::OpenClipTrainLine line{.samples_per_s = 100, .samples_per_s_per_rank = 50, .lr = 0.1, .logit_scale = 14};
  line.losses = {{"contrastive_loss", 3, 4}, {"loss", 5, 6}};
  EXPECT_EQ(record::openclip_train_scalars(line, 0.5, 0.25),
            (record::NamedNumbers{{"train/data_time", 0.5},
                                  {"train/batch_time", 0.25},
                                  {"train/samples_per_second", 100},
                                  {"train/samples_per_second_per_gpu", 50},
                                  {"train/scale", 14},
                                  {"train/lr", 0.1},
                                  {"train/contrastive_loss", 3},
                                  {"train/loss", 5}}));
}

}  // namespace
}  // namespace lockstep::logs
