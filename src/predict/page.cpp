#include "predict/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/csv_table.h"
#include "core/strings.h"
#include "predict/figure.h"
#include "predict/input_rates.h"

namespace lockstep::predict {
namespace {

draw::Cell number_cell(double value, const std::string& text) { return {.text = text, .value = value}; }
draw::Cell text_cell(std::string text) { return {.text = std::move(text)}; }

/// Seconds with four significant digits.
std::string seconds(double value) { return figure(value); }
/// The same of a measured step, without zeros that nobody printed: "2.1".
std::string measured_seconds(double value) { return value < 1e4 ? fmt::format("{:.4g}", value) : figure(value); }

double rate(const CurvePrediction& prediction, const Size& size, double step_s) {
  return prediction.curve.rate_per_device * size.work * size.devices / step_s;
}

/// The same over the interval of a step.
Interval rate_interval(const CurvePrediction& prediction, size_t index) {
  const auto at = [&](double step_s) { return rate(prediction, prediction.targets[index].at, step_s); };
  const Interval& step = prediction.forecast.steps[index].step_s;
  return {at(step.p95), at(step.p75), at(step.p50), at(step.p25), at(step.p5)};
}

/// How fast a curve is, as its table tells it: a rate, or the time of the whole work.
Interval speed_interval(const CurvePrediction& prediction, size_t index) {
  const Interval rates = rate_interval(prediction, index);
  if (prediction.curve.has_growing_work) return prediction.forecast.steps[index].step_s;
  if (prediction.curve.time_name.empty()) return rates;
  return {1 / rates.p95, 1 / rates.p75, 1 / rates.p50, 1 / rates.p25, 1 / rates.p5};
}
std::string speed_name(const MeasuredCurve& curve) {
  return curve.time_name.empty() ? curve.rate_unit : curve.time_name;
}
std::string speed_key(const MeasuredCurve& curve) { return curve.time_name.empty() ? "rate" : "time"; }

core::Json interval_json(const Interval& interval) {
  return {
      {"p5", interval.p5}, {"p25", interval.p25}, {"p50", interval.p50}, {"p75", interval.p75}, {"p95", interval.p95}};
}

std::string table_id(const std::string& what, const CurvePrediction& prediction) {
  return what + "_" + prediction.curve.name;
}
/// "1 node", "8 nodes"
std::string sized(double size, const std::string& name) {
  return fmt::format("{:g} {}", size, size == 1 && core::ends_with(name, "s") ? name.substr(0, name.size() - 1) : name);
}

}  // namespace

std::string clock_name(const MeasuredCurve& curve) {
  if (curve.has_seconds) return "step (s)";
  const bool is_of_one = !curve.has_batches && !curve.is_strong;
  if (is_of_one && curve.rate_unit == "samples/s") return "device seconds per sample";
  if (is_of_one && curve.rate_unit == "tokens/s") return "device seconds per token";
  return "relative time";
}

Interval efficiency_of(const CurvePrediction& prediction, size_t index) {
  const PredictedStep& step = prediction.forecast.steps[index];
  const double work = prediction.targets[index].at.work;
  const auto over = [](double value, const Interval& time) {
    return Interval{value / time.p95, value / time.p75, value / time.p50, value / time.p25, value / time.p5};
  };
  if (prediction.calibration.empty()) return over(work / prediction.targets.front().at.work, step.over_first);
  const Measured& base = prediction.calibration.front().measured;
  return over(base.step_s / base.size.work * work, step.step_s);
}

draw::Table steps_table(const CurvePrediction& prediction) {
  const MeasuredCurve& curve = prediction.curve;
  draw::Table table{.id = table_id("predicted", prediction), .title = "Predicted: " + curve.name};
  table.columns = {{curve.size_name, "size"},
                   {clock_name(prediction.curve), "step_s_p50"},
                   {"50 % interval", "interval50", true},
                   {"90 % interval", "interval90", true}};
  if (!curve.rate_unit.empty()) table.columns.push_back({speed_name(curve), speed_key(curve)});
  table.columns.push_back({"efficiency (%)", "efficiency_pct"});
  table.columns.push_back({"its 90 % interval", "efficiency90", true});
  for (size_t i = 0; i < prediction.targets.size(); ++i) {
    const Interval& step = prediction.forecast.steps[i].step_s;
    const Interval share = efficiency_of(prediction, i);
    std::vector<draw::Cell> row = {
        number_cell(prediction.targets[i].size, fmt::format("{:g}", prediction.targets[i].size)),
        number_cell(step.p50, seconds(step.p50)), text_cell(fmt::format("{}-{}", seconds(step.p25), seconds(step.p75))),
        text_cell(fmt::format("{}-{}", seconds(step.p5), seconds(step.p95)))};
    if (!curve.rate_unit.empty()) {
      const double value = speed_interval(prediction, i).p50;
      row.push_back(number_cell(value, figure(value)));
    }
    row.push_back(number_cell(100 * share.p50, fmt::format("{:.1f}", 100 * share.p50)));
    row.push_back(text_cell(fmt::format("{:.0f}-{:.0f}", 100 * share.p5, 100 * share.p95)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

draw::Table rates_table(const CurvePrediction& prediction) {
  const MeasuredCurve& curve = prediction.curve;
  draw::Table table{.id = table_id("rates", prediction), .title = "Predicted " + speed_key(prediction.curve)};
  if (curve.rate_unit.empty()) return table;
  table.columns = {{curve.size_name, "size"},
                   {speed_name(curve), speed_key(curve) + "_p50"},
                   {"50 % interval", speed_key(curve) + "_interval50", true},
                   {"90 % interval", speed_key(curve) + "_interval90", true}};
  for (size_t i = 0; i < prediction.targets.size(); ++i) {
    const Interval value = speed_interval(prediction, i);
    const auto range = [](double low, double high) { return text_cell(figure(low) + "-" + figure(high)); };
    table.rows.push_back({number_cell(prediction.targets[i].size, fmt::format("{:g}", prediction.targets[i].size)),
                          number_cell(value.p50, figure(value.p50)), range(value.p25, value.p75),
                          range(value.p5, value.p95)});
  }
  return table;
}

std::string parts_doubt(const CurvePrediction& prediction) {
  const MeasuredCurve& curve = prediction.curve;
  if (curve.has_seconds) return "";
  if (curve.has_batches && curve.work.parameters)
    return "Nothing tells the seconds of a step: the parts follow from the parameters of the model and what such "
           "devices usually reach.";
  if (curve.assumed_samples > 0 && curve.clock_s > 0)
    return fmt::format(
        "The parts are those of an assumed batch of {:.3g} samples a device, which nothing tells: a larger one gives "
        "compute a larger share (--samples-per-device N).",
        curve.assumed_samples);
  return "Nothing tells the seconds of a step: the traffic is a guess, a share of it, and so are the parts.";
}

draw::Table parts_table(const CurvePrediction& prediction) {
  const std::string doubt = parts_doubt(prediction);
  draw::Table table{
      .id = table_id("parts", prediction),
      .title = doubt.empty() ? "Where the time of a step goes (%)" : "Where the time of a step is assumed to go (%)"};
  if (!doubt.empty()) table.notes.push_back(doubt);
  table.columns = {{prediction.curve.size_name, "size"}};
  std::array<bool, kNumParts> is_shown{};
  for (const PredictedStep& step : prediction.forecast.steps)
    for (size_t part = 0; part < kNumParts; ++part) is_shown[part] = is_shown[part] || step.parts_s[part] > 0;
  for (size_t part = 0; part < kNumParts; ++part)
    if (is_shown[part])
      table.columns.push_back(
          {std::string(part_name(static_cast<Part>(part))), std::string(part_name(static_cast<Part>(part))) + "_pct"});
  for (size_t i = 0; i < prediction.targets.size(); ++i) {
    const Parts& parts = prediction.forecast.steps[i].parts_s;
    const double total = std::accumulate(parts.begin(), parts.end(), 0.0);
    std::vector<draw::Cell> row = {
        number_cell(prediction.targets[i].size, fmt::format("{:g}", prediction.targets[i].size))};
    for (size_t part = 0; part < kNumParts; ++part)
      if (is_shown[part])
        row.push_back(number_cell(100 * parts[part] / total, fmt::format("{:.1f}", 100 * parts[part] / total)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string limit_text(const CurvePrediction& prediction) {
  constexpr double kLittle = 0.02;
  constexpr std::array<std::string_view, kNumParts> kMeanings{
      "computing itself",
      "stages of the pipeline that wait: more micro-batches or virtual stages shorten it",
      "waiting for the slowest device",
      "messages within layers, of tensor ranks and between stages",
      "gradients: their bytes and the latency of their buckets, as far as backward does not hide them",
      "features of the contrastive loss, gathered from all devices",
      "work that does not shrink with the batch of a device: update and host",
      "samples that the loaders do not deliver in time",
      "what no term of the model computes"};
  const Parts& parts = prediction.forecast.steps.back().parts_s;
  const double total = std::accumulate(parts.begin(), parts.end(), 0.0);
  size_t most = kBubble;
  for (size_t part = kBubble; part < kNumParts; ++part)
    if (parts[part] > parts[most]) most = part;
  const std::string at = sized(prediction.targets.back().size, prediction.curve.size_name);
  if (!(parts[most] > kLittle * total))
    return fmt::format("The limit at {}: computing, no other part takes {:.0f} % of a step.", at, 100 * kLittle);
  return fmt::format("The limit at {}: beside computing '{}' takes most, {:.1f} % of a step ({}).", at,
                     part_name(static_cast<Part>(most)), 100 * parts[most] / total, kMeanings.at(most));
}

draw::Table facts_table(const CurvePrediction& prediction) {
  draw::Table table{.id = table_id("facts", prediction), .title = "Taken as known"};
  table.columns = {{"what", "what", true}, {"value", "value", true}, {"source", "source", true}};
  for (const KnownFact& fact : prediction.facts)
    table.rows.push_back({text_cell(fact.name), text_cell(fact.value), text_cell(fact.source)});
  return table;
}

draw::Table learned_table(const CurvePrediction& prediction) {
  draw::Table table{.id = table_id("learned", prediction),
                    .title = "What calibration said of the rest",
                    .caption =
                        "Shift in standard deviations of the prior; width against it: 1.00 says that nothing was "
                        "learned."};
  table.columns = {{"unknown", "unknown", true}, {"shift", "shift"}, {"width", "width"}};
  for (const Learned& one : prediction.forecast.learned)
    table.rows.push_back({text_cell(std::string(latent_name(one.latent))),
                          number_cell(one.shift, fmt::format("{:+.2f}", one.shift)),
                          number_cell(one.width, fmt::format("{:.2f}", one.width))});
  return table;
}

std::string calibration_text(const CurvePrediction& prediction) {
  const auto& all = prediction.calibration;
  const double base = all.empty() ? prediction.targets.front().size : all.front().size;
  const std::string against =
      fmt::format(" Efficiency is against the step at {}.", sized(base, prediction.curve.size_name));
  if (all.empty()) return "Not calibrated: plan, system and priors alone." + against;
  std::vector<CurvePoint> points;  // those at their input are left out, as a note says
  for (const CurvePoint& point : all)
    if (!point.measured.is_input_bound()) points.push_back(point);
  if (points.empty()) return "Not calibrated: every measured step waits for its input, which bounds it." + against;
  const std::string name = clock_name(prediction.curve);
  const std::string unit = prediction.curve.has_seconds ? " s" : name == "relative time" ? "" : " " + name;
  std::string text = fmt::format("Calibrated on {} {}:", points.size(), points.size() == 1 ? "point" : "points");
  for (size_t i = 0; i < points.size(); ++i)
    text += fmt::format("{} {}{} at {}{}", i == 0 ? "" : ",", measured_seconds(points[i].measured.step_s), unit,
                        sized(points[i].size, prediction.curve.size_name),
                        points[i].line > 0 ? fmt::format(" (line {})", points[i].line) : "");
  return text + "." + against;
}

draw::Table judged_table(const Validation& validation) {
  const CurvePrediction& prediction = validation.prediction;
  draw::Table table{.id = table_id("judged", prediction), .title = "Predicted and measured: " + prediction.curve.name};
  table.columns = {{prediction.curve.size_name, "size"},
                   {clock_name(prediction.curve), "step_s_p50"},
                   {"50 % interval", "interval50", true},
                   {"90 % interval", "interval90", true},
                   {"measured", "measured_s"},
                   {"error (%)", "error_pct"},
                   {"covered", "covered", true}};
  for (const JudgedPoint& point : validation.judged) {
    const Interval& step = point.predicted;
    table.rows.push_back({number_cell(point.point.size, fmt::format("{:g}", point.point.size)),
                          number_cell(step.p50, seconds(step.p50)),
                          text_cell(fmt::format("{}-{}", seconds(step.p25), seconds(step.p75))),
                          text_cell(fmt::format("{}-{}", seconds(step.p5), seconds(step.p95))),
                          number_cell(point.point.measured.step_s, measured_seconds(point.point.measured.step_s)),
                          number_cell(point.error_pct, fmt::format("{:+.2f}", point.error_pct)),
                          text_cell(point.in50   ? "50 %"
                                    : point.in90 ? "90 %"
                                                 : "no")});
  }
  table.notes.emplace_back("Error of throughput: above zero, the prediction was too fast.");
  return table;
}

draw::Table score_table(const std::vector<Validation>& validations) {
  draw::Table table{.id = "scores", .title = "Errors of throughput on the points kept back (%)"};
  table.columns = {{"curve", "curve", true},        {"points", "points"},
                   {"mean", "mean_error_pct"},      {"worst", "worst_error_pct"},
                   {"in 90 %", "coverage90", true}, {"+- (%)", "half_width_pct"}};
  for (const Rival rival : kRivals)
    table.columns.push_back({std::string(rival_short_name(rival)), core::plain_name(rival_name(rival)) + "_pct"});
  table.columns.push_back({"best", "best", true});
  for (const Validation& one : validations) {
    const auto count = static_cast<double>(one.judged.size());
    std::vector<draw::Cell> row = {
        text_cell(one.prediction.curve.name),
        number_cell(count, fmt::format("{}", one.judged.size())),
        number_cell(one.mean_error_pct, fmt::format("{:.2f}", one.mean_error_pct)),
        number_cell(one.worst_error_pct, fmt::format("{:.2f}", one.worst_error_pct)),
        text_cell(fmt::format("{:.0f} of {:.0f}", one.coverage90 * count, count)),
        number_cell(one.median_half_width_pct, fmt::format("{:.1f}", one.median_half_width_pct))};
    const auto& points = one.prediction.calibration;
    const bool has_two = std::any_of(points.begin(), points.end(), [&](const CurvePoint& point) {
      return point.measured.size.nodes != points.front().measured.size.nodes;
    });
    for (const RivalScore& score : one.rivals)
      row.push_back(score.mean_error_pct
                        ? number_cell(*score.mean_error_pct, fmt::format("{:.2f}", *score.mean_error_pct))
                        : draw::Cell{.note = has_two ? "its line gives no time above zero" : "needs two sizes"});
    row.push_back(text_cell(one.beats_rivals() ? "model" : "rival"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string score_text(const Validation& validation) {
  const auto count = static_cast<double>(validation.judged.size());
  return fmt::format(
      "{}: mean error {:.2f} %, worst {:.2f} %; {:.0f} of {:.0f} points in the 90 % interval, {:.0f} in "
      "the 50 % interval; median half width {:.1f} %. {}",
      validation.prediction.curve.name, validation.mean_error_pct, validation.worst_error_pct,
      validation.coverage90 * count, count, validation.coverage50 * count, validation.median_half_width_pct,
      validation.beats_rivals() ? "Better than every rival." : "NOT better than every rival: see the table.");
}

core::Json prediction_json(const CurvePrediction& prediction) {
  const MeasuredCurve& curve = prediction.curve;
  core::Json json = {{"curve", curve.name},
                     {"size_unit", curve.size_name},
                     {"has_seconds", curve.has_seconds},
                     {"scaling", curve.is_strong ? "strong" : "weak"}};
  if (!curve.scaling_source.empty()) json["scaling_source"] = curve.scaling_source;
  for (const CurvePoint& point : prediction.calibration)
    json["calibration"].push_back({{"size", point.size},
                                   {"line", point.line},
                                   {"step_s", point.measured.step_s},
                                   {"work", point.measured.size.work}});
  for (const KnownFact& fact : prediction.facts)
    json["facts"].push_back({{"name", fact.name}, {"value", fact.value}, {"source", fact.source}});
  if (!prediction.calibration.empty())
    for (const Learned& one : prediction.forecast.learned)
      json["learned"].push_back({{"unknown", latent_name(one.latent)}, {"shift", one.shift}, {"width", one.width}});
  for (size_t i = 0; i < prediction.targets.size(); ++i) {
    const PredictedStep& step = prediction.forecast.steps[i];
    const Size& size = prediction.targets[i].at;
    core::Json one = {{"size", prediction.targets[i].size},
                      {"nodes", size.nodes},
                      {"devices", size.devices},
                      {"step_s", interval_json(step.step_s)},
                      {"efficiency", interval_json(efficiency_of(prediction, i))}};
    if (!curve.rate_unit.empty())
      one["rate"] = interval_json(rate_interval(prediction, i)), one["rate"]["unit"] = curve.rate_unit;
    if (!curve.time_name.empty())
      one["time"] = interval_json(speed_interval(prediction, i)), one["time"]["name"] = curve.time_name;
    if (size.input_s > 0) {
      const std::string limit = input_limit(curve, step);
      one["input_s"] = size.input_s;
      one["input_limit"] = limit.empty() ? core::Json(nullptr) : core::Json(limit);
    }
    for (size_t part = 0; part < kNumParts; ++part)
      one["parts_s"][std::string(part_name(static_cast<Part>(part)))] = step.parts_s[part];
    json["predicted"].push_back(std::move(one));
  }
  if (curve.input.is_known()) {
    const auto number = [](const std::optional<double>& value) {
      return value ? core::Json(*value) : core::Json(nullptr);
    };
    json["input"] = {{"node_samples_per_s", number(curve.input.node_samples_per_s)},
                     {"storage_samples_per_s", number(curve.input.storage_samples_per_s)}};
  }
  if (curve.assumed_samples > 0) json["assumed_samples_per_device"] = curve.assumed_samples;
  if (const std::string doubt = parts_doubt(prediction); !doubt.empty()) json["parts_doubt"] = doubt;
  json["notes"] = curve.notes;
  return json;
}

core::Json validation_json(const Validation& validation) {
  core::Json json = prediction_json(validation.prediction);
  for (const JudgedPoint& point : validation.judged)
    json["judged"].push_back({{"size", point.point.size},
                              {"line", point.point.line},
                              {"measured_s", point.point.measured.step_s},
                              {"predicted_s", interval_json(point.predicted)},
                              {"error_pct", point.error_pct},
                              {"in_50", point.in50},
                              {"in_90", point.in90}});
  json["mean_error_pct"] = validation.mean_error_pct;
  json["worst_error_pct"] = validation.worst_error_pct;
  json["coverage_50"] = validation.coverage50;
  json["coverage_90"] = validation.coverage90;
  json["median_half_width_pct"] = validation.median_half_width_pct;
  for (const RivalScore& score : validation.rivals)
    json["rivals"][std::string(rival_name(score.rival))] =
        score.mean_error_pct ? core::Json(*score.mean_error_pct) : core::Json(nullptr);
  json["beats_rivals"] = validation.beats_rivals();
  return json;
}

}  // namespace lockstep::predict
