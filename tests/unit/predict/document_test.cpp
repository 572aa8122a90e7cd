// The page of predictions: what stands on it, and that all of it can be written.
#include "predict/document.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "draw/render.h"
#include "predict/budget.h"
#include "predict/figure.h"
#include "predict/machine_file.h"
#include "predict/page.h"
#include "predict/plan_step.h"

namespace lockstep::predict {
namespace {

TEST(PredictPage, ShowsScoresCurvesAndBothKindsOfPoints) {
  std::vector<Validation> validations;
  for (const MeasuredCurve& curve :
       read_table_curves(std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "published" / "nemotron4_340b_h100.csv"))
    validations.push_back(validate_curve(curve, 256));
  const draw::Document document = validations_document(validations);
  ASSERT_EQ(document.sections.size(), 3u);
  const draw::Chart chart = efficiency_chart(validations[0].prediction, validations[0].judged);
  ASSERT_EQ(chart.series.size(), 5u);
  EXPECT_EQ(chart.series[3].x, (std::vector<double>{128, 256}));
  EXPECT_EQ(chart.series[4].x, (std::vector<double>{512, 1024, 2048}));
  EXPECT_NEAR(chart.series[4].y[2], 100 * 4.61 / 4.84, 1e-9);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(chart.series[0].low[i], chart.series[1].low[i]);
    EXPECT_GT(chart.series[0].high[i], chart.series[1].high[i]);
  }
  core::TempDir folder;
  const auto files = draw::write_document(document, folder.path(), {"html", "csv", "svg"});
  EXPECT_NE(core::read_file(files.front()).find("kept back"), std::string::npos);
}

CurvePrediction of_recipe(const std::vector<int64_t>& nodes, const std::vector<MeasuredStep>& measured) {
  const Machine machine = find_machine("dgx-h100");
  const auto recipe = std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/clip_vitg14_dgx.toml";
  std::vector<std::string> refused;
  const auto steps = plan_steps({.words = {"train", "clip", "--config", recipe}}, machine, nodes, refused);
  return predict_steps(model_of(steps, machine), steps, measured);
}

TEST(PredictPage, RatesHaveTheIntervalsOfTheirSteps) {
  const CurvePrediction prediction = of_recipe({1, 2}, {{1, 0.41}});
  const core::Json json = prediction_json(prediction).at("predicted").at(1);
  const double pairs = 80 * 16;
  EXPECT_EQ(json.at("rate").at("unit"), "samples/s");
  for (const auto& [rate, step] : {std::pair{"p5", "p95"}, {"p25", "p75"}, {"p50", "p50"}, {"p75", "p25"}})
    EXPECT_NEAR(json.at("rate").at(rate).get<double>() * json.at("step_s").at(step).get<double>(), pairs, 1e-6);
  const draw::Table table = rates_table(prediction);
  ASSERT_EQ(table.columns.size(), 4u);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1][1].value, json.at("rate").at("p50").get<double>());
  CurvePrediction without = prediction;
  without.curve.rate_unit.clear();
  EXPECT_TRUE(rates_table(without).columns.empty());
}

/// Rates of the whole work are one over its time.
TEST(PredictPage, TimesOfTheWholeWorkAreToldAsTimes) {
  const core::TempDir folder;
  const auto predicted = [&](const std::string& table) {
    core::write_file_atomic(folder.path() / "t.csv", table);
    return validate_curve(read_table_curves(folder.path() / "t.csv").front(), 2).prediction;  // of 4 and 8 nodes
  };
  const CurvePrediction clock = predicted("nodes,walltime\n1,1:00:00\n2,0:31:00\n4,0:16:40\n8,0:09:30\n");
  const draw::Table times = rates_table(clock), steps = steps_table(clock);
  EXPECT_EQ(times.title, "Predicted time");
  EXPECT_EQ(times.columns[1].title, "walltime (s)");
  EXPECT_NEAR(*times.rows[0][1].value, 3600 / 4.0, 100);
  EXPECT_EQ(times.rows[0][1].value, steps.rows[0][4].value);
  const core::Json json = prediction_json(clock).at("predicted").at(0);
  EXPECT_NEAR(*times.rows[0][1].value * json.at("rate").at("p50").get<double>(), 1, 1e-9);
  const CurvePrediction minutes = predicted("nodes,time per epoch (min)\n1,60\n2,31\n4,16.7\n8,9.5\n");
  EXPECT_EQ(rates_table(minutes).columns[1].title, "time per epoch (min)");
  EXPECT_NEAR(*rates_table(minutes).rows[0][1].value, *times.rows[0][1].value / 60, 1);
}

TEST(PredictPage, NothingIsLearnedWithoutCalibration) {
  const auto shows = [](const CurvePrediction& prediction) {
    const draw::Document document = predictions_document({prediction}, {});
    return std::pair(draw::to_markdown(document).find("What calibration said") != std::string::npos,
                     prediction_json(prediction).contains("learned"));
  };
  EXPECT_EQ(shows(of_recipe({1, 2}, {})), std::pair(false, false));
  EXPECT_EQ(shows(of_recipe({1, 2}, {{1, 0.41}})), std::pair(true, true));
}

TEST(PredictPage, SizesFarBeyondTheMeasuredOnesAreNamed) {
  const std::string far = far_sizes_text(of_recipe({1, 2, 32, 64, 128}, {{1, 0.41}}));
  EXPECT_NE(far.find("64, 128 nodes lie beyond 32 times the largest calibrated size (1)"), std::string::npos) << far;
  EXPECT_EQ(far_sizes_text(of_recipe({1, 2, 32, 64}, {{1, 0.41}, {2, 0.42}})), "");
  EXPECT_EQ(far_sizes_text(of_recipe({1, 64}, {})), "") << "nothing was measured";
}

TEST(PredictPage, BatchesSmallerThanTheMachineAreNamed) {
  CurvePrediction strong{.curve = {.size_name = "nodes"}};
  strong.curve.work.local_batch = 64;
  for (const double nodes : {64.0, 256.0, 512.0})
    strong.targets.push_back({nodes, {.nodes = nodes, .devices = 4 * nodes, .work = 4 / nodes}});
  const std::string thin = thin_sizes_text(strong);
  EXPECT_NE(thin.find("at 512 nodes it has less than one sample for each device (1024 for 2048 devices at 512 nodes)"),
            std::string::npos)
      << thin;
  strong.curve.work.tp = 2;
  EXPECT_EQ(thin_sizes_text(strong), "") << "two ranks share a sample";
  strong.curve.work.tp = 1, strong.curve.work.local_batch.reset();
  EXPECT_EQ(thin_sizes_text(strong), "") << "the batch is not known";
}

TEST(PredictPage, LargeNumbersHaveNoExponents) {
  EXPECT_EQ(figure(148512), "148,500");
  EXPECT_EQ(figure(192083.2, 5), "192,080");
  EXPECT_EQ(figure(0.98761), "0.9876");
  const Budget budget{.units = 1e12, .unit = "tokens", .price_per_node_hour = 30};
  const std::vector<GoalCost> costs = {
      {.size = 16, .hours = 12005, .hours95 = 17240, .node_hours = 192083.2, .price = 5762496.0}};
  const draw::Table table = goal_table(costs, budget);
  std::vector<std::string> texts;
  for (const draw::Cell& cell : table.rows.at(0)) texts.push_back(cell.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"16", "12,010", "17,240", "192,080", "5,762,500"}));
  EXPECT_EQ(table.rows[0][3].value, 192083.2) << "files have every digit";
}

}  // namespace
}  // namespace lockstep::predict
