#include "predict/document.h"

#include <fmt/format.h>

#include "core/csv_table.h"
#include "predict/page.h"

namespace lockstep::predict {
namespace {

/// Efficiency of measured points against the first calibrated one.
draw::Series measured_series(const std::string& name, const std::vector<CurvePoint>& points, const Measured& base) {
  draw::Series series{.name = name, .mark = draw::Mark::kMarkers};
  for (const CurvePoint& point : points) {
    series.x.push_back(point.size);
    series.y.push_back(100 * base.step_s / base.size.work * point.measured.size.work / point.measured.step_s);
  }
  return series;
}

draw::Section curve_section(const CurvePrediction& prediction, const std::vector<JudgedPoint>& judged) {
  draw::Section section{.id = core::plain_name(prediction.curve.name), .title = prediction.curve.name};
  section.blocks.emplace_back(draw::Paragraph{.text = calibration_text(prediction)});
  section.blocks.emplace_back(efficiency_chart(prediction, judged));
  section.blocks.emplace_back(steps_table(prediction));
  if (draw::Table rates = rates_table(prediction); !rates.columns.empty())
    section.blocks.emplace_back(std::move(rates));
  section.blocks.emplace_back(parts_chart(prediction));
  section.blocks.emplace_back(parts_table(prediction));
  section.blocks.emplace_back(facts_table(prediction));
  if (!prediction.calibration.empty()) section.blocks.emplace_back(learned_table(prediction));
  for (const std::string& note : prediction.curve.notes)
    section.blocks.emplace_back(draw::Paragraph{.text = note, .kind = draw::Paragraph::Kind::kNote});
  return section;
}

std::string json_text(const core::Json& json) { return json.dump(); }
}  // namespace

draw::Chart efficiency_chart(const CurvePrediction& prediction, const std::vector<JudgedPoint>& judged) {
  const std::string& size_name = prediction.curve.size_name;
  draw::Chart chart{.id = "predicted-efficiency-" + prediction.curve.name,
                    .title = "Predicted efficiency: " + prediction.curve.name,
                    .x = {.title = size_name, .scale = draw::Scale::kLog2},
                    .y = {.title = "efficiency (%)", .min = 0}};
  draw::Series wide{.name = "90 % interval", .mark = draw::Mark::kBand},
      narrow{.name = "50 % interval", .mark = draw::Mark::kBand},
      middle{.name = "predicted", .mark = draw::Mark::kLine};
  for (size_t i = 0; i < prediction.targets.size(); ++i) {
    const Interval share = efficiency_of(prediction, i);
    for (draw::Series* series : {&wide, &narrow, &middle}) {
      series->x.push_back(prediction.targets[i].size);
      series->y.push_back(100 * share.p50);
    }
    wide.low.push_back(100 * share.p5), wide.high.push_back(100 * share.p95);
    narrow.low.push_back(100 * share.p25), narrow.high.push_back(100 * share.p75);
  }
  chart.series = {wide, narrow, middle};
  if (!prediction.calibration.empty()) {
    const Measured& base = prediction.calibration.front().measured;
    chart.series.push_back(measured_series("calibration", prediction.calibration, base));
    std::vector<CurvePoint> kept;
    for (const JudgedPoint& point : judged) kept.push_back(point.point);
    if (!kept.empty()) chart.series.push_back(measured_series("measured, kept back", kept, base));
  }
  chart.summary = fmt::format("Efficiency falls to {:.1f} % at {:g} {}.", middle.y.back(), middle.x.back(), size_name);
  chart.caption = "Against the smallest calibrated size, or the first predicted one. Bands hold single measurements.";
  return chart;
}

draw::Chart parts_chart(const CurvePrediction& prediction) {
  draw::Chart chart{.id = "parts_" + prediction.curve.name,
                    .title = "Where the time of a step goes: " + prediction.curve.name,
                    .x = {.title = prediction.curve.size_name},
                    .y = {.title = prediction.curve.has_seconds ? "s" : clock_name(prediction.curve)}};
  chart.summary = "The parts of a predicted step, medians, a bar for each size.";
  chart.caption = parts_doubt(prediction);
  draw::StackedBars bars;
  for (const Target& target : prediction.targets) bars.bars.push_back(fmt::format("{:g}", target.size));
  for (size_t part = 0; part < kNumParts; ++part) {
    std::vector<double> values;
    double sum = 0;
    for (const PredictedStep& step : prediction.forecast.steps)
      values.push_back(step.parts_s[part]), sum += values.back();
    if (sum <= 0) continue;
    bars.parts.emplace_back(part_name(static_cast<Part>(part)));
    bars.values.push_back(std::move(values));
  }
  chart.bars = std::move(bars);
  return chart;
}

draw::Document predictions_document(const std::vector<CurvePrediction>& predictions,
                                    const std::vector<draw::Table>& more) {
  draw::Document document{.title = "Predicted steps", .subtitle = "Intervals hold single measurements."};
  core::Json json = core::Json::array();
  for (const CurvePrediction& prediction : predictions) {
    document.sections.push_back(curve_section(prediction, {}));
    json.push_back(prediction_json(prediction));
  }
  for (const draw::Table& table : more) document.sections.front().blocks.emplace_back(table);
  document.data_json = json_text(json);
  return document;
}

draw::Document validations_document(const std::vector<Validation>& validations) {
  draw::Document document{.title = "Predictions judged", .subtitle = "Rows that were judged did not calibrate."};
  draw::Section scores{.id = "scores", .title = "Scores"};
  scores.blocks.emplace_back(score_table(validations));
  for (const Validation& one : validations) scores.blocks.emplace_back(draw::Paragraph{.text = score_text(one)});
  document.sections.push_back(std::move(scores));
  core::Json json = core::Json::array();
  for (const Validation& one : validations) {
    document.sections.push_back(curve_section(one.prediction, one.judged));
    document.sections.back().blocks.emplace(document.sections.back().blocks.begin() + 2, judged_table(one));
    json.push_back(validation_json(one));
  }
  document.data_json = json_text(json);
  return document;
}

}  // namespace lockstep::predict
