#include "predict/report_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/counted.h"
#include "core/error.h"
#include "core/strings.h"
#include "predict/document.h"
#include "predict/page.h"
#include "predict/run_curves.h"
#include "predict/table_curves.h"
#include "stats/statistics.h"

namespace lockstep::predict {
namespace {

constexpr size_t kLeastSizes = 4;
constexpr size_t kMostCurves = 16;  // of a report; each takes some predictions
constexpr size_t kMostPoints = 64;  // of a curve; so many repeats tell no more

std::vector<double> sizes_of(const std::vector<CurvePoint>& points) {
  std::vector<double> sizes;
  for (const CurvePoint& point : points)
    if (sizes.empty() || sizes.back() != point.size) sizes.push_back(point.size);
  return sizes;
}

/// The part that grew most between two predicted steps.
std::string_view grown_part(const CurvePrediction& prediction, size_t index) {
  const Parts& first = prediction.forecast.steps.front().parts_s;
  const Parts& last = prediction.forecast.steps[index].parts_s;
  size_t most = 0;
  for (size_t part = 1; part < kNumParts; ++part)
    if (last[part] - first[part] > last[most] - first[most]) most = part;
  return part_name(static_cast<Part>(most));
}

/// The part of the step at one judged size to which the same model gives the difference once it has seen all sizes.
std::string assigned_text(const Validation& validation, const MeasuredCurve& curve, size_t index) {
  constexpr double kScatter = 1;        // percent; steps differ by as much
  constexpr double kLeastShare = 0.25;  // of the difference, to be named
  const JudgedPoint& judged = validation.judged[index];
  if (std::fabs(judged.error_pct) < kScatter) return " Repeated steps differ by as much.";
  const CurvePrediction& before = validation.prediction;
  const CurvePrediction after = predict_curve(curve, {}, before.targets);
  const double missed_s = judged.point.measured.step_s - judged.predicted.p50;
  size_t most = 0;
  std::array<double, kNumParts> shares{};
  for (size_t part = 0; part < kNumParts; ++part) {
    shares[part] = (after.forecast.steps[index].parts_s[part] - before.forecast.steps[index].parts_s[part]) / missed_s;
    if (shares[part] > shares[most]) most = part;
  }
  if (shares[most] < kLeastShare)
    return " Calibrated on all sizes, the model does not follow this point either: no part of it explains the "
           "difference.";
  return fmt::format(" Calibrated on all sizes, the model gives {} of the difference to '{}'{}.",
                     shares[most] >= 1 ? "all" : fmt::format("{:.0f} %", 100 * shares[most]),
                     part_name(static_cast<Part>(most)), most == kUnexplained ? ", which no term of it computes" : "");
}

/// A measured and a predicted value of the same point: steps, or efficiencies where nothing tells seconds.
std::string compared_text(const Validation& validation, size_t index) {
  const CurvePrediction& prediction = validation.prediction;
  const JudgedPoint& judged = validation.judged[index];
  if (prediction.curve.has_seconds)
    return fmt::format("measured {:.4g} s a step, predicted {:.4g} s", judged.point.measured.step_s,
                       judged.predicted.p50);
  const Measured &base = prediction.calibration.front().measured, &measured = judged.point.measured;
  const double efficiency = base.step_s / base.size.work * measured.size.work / measured.step_s;
  return fmt::format("measured efficiency {:.1f} %, predicted {:.1f} %", 100 * efficiency,
                     100 * efficiency_of(prediction, index).p50);
}

/// Where the prediction was off most, what it had expected to grow there, and what it makes of it now.
std::string worst_text(const Validation& validation, const MeasuredCurve& curve) {
  const auto worst = std::max_element(
      validation.judged.begin(), validation.judged.end(),
      [](const JudgedPoint& a, const JudgedPoint& b) { return std::fabs(a.error_pct) < std::fabs(b.error_pct); });
  const auto index = static_cast<size_t>(worst - validation.judged.begin());
  const bool was_slower = worst->error_pct > 0;
  std::string text = fmt::format(
      "Farthest off at {:g} {}: {}; the measured step is {:.1f} % {} than the median and {} the 90 % interval.",
      worst->point.size, curve.size_name, compared_text(validation, index), std::fabs(worst->error_pct),
      was_slower ? "longer" : "shorter", worst->in90 ? "inside" : "outside");
  if (index > 0) text += fmt::format(" '{}' was to grow most.", grown_part(validation.prediction, index));
  text += assigned_text(validation, curve, index);
  if (!worst->in90)
    text += was_slower ? " Look for what the small sizes do not show: another part of the network, slow nodes, input."
                       : " The small sizes were slow, or did other work.";
  return text;
}

/// Two doublings beyond what was measured, from all of it.
draw::Table continued(const MeasuredCurve& curve) {
  std::vector<Target> targets;
  for (const double factor : {2.0, 4.0}) {
    const double size = factor * curve.points.back().size;
    targets.push_back({size, size_of(curve, size)});
  }
  draw::Table table = steps_table(predict_curve(curve, {}, targets));
  table.title = "Not measured, predicted from all sizes: " + curve.name;
  return table;
}

void add_curve(const MeasuredCurve& curve, ReportedPredictions& reported) {
  const std::vector<double> sizes = sizes_of(curve.points);
  const double largest = sizes[(sizes.size() - 1) / 2];
  const Validation validation = validate_curve(curve, largest);
  const std::string worst = worst_text(validation, curve);
  if (!reported.section) reported.section = draw::Section{.id = "prediction", .title = "Predicted and measured"};
  std::vector<draw::Block>& blocks = reported.section->blocks;
  blocks.emplace_back(draw::Paragraph{.text = calibration_text(validation.prediction)});
  blocks.emplace_back(efficiency_chart(validation.prediction, validation.judged));
  blocks.emplace_back(judged_table(validation));
  blocks.emplace_back(draw::Paragraph{.text = score_text(validation)});
  blocks.emplace_back(draw::Paragraph{.text = worst});
  blocks.emplace_back(continued(curve));
  reported.texts.push_back(
      fmt::format("{}: predicted from {:g} {} and fewer, the larger sizes are missed by {:.1f} % on "
                  "average. {}",
                  curve.name, largest, curve.size_name, validation.mean_error_pct, worst));
}

/// Joins the curves that are long enough. Of shorter ones, from `least_told` sizes on, one sentence says why they are
/// not.
void add_curves(const std::vector<MeasuredCurve>& curves, size_t least_told, ReportedPredictions& reported) {
  size_t num_joined = 0, num_left = 0;
  std::vector<std::string> few;
  for (const MeasuredCurve& curve : curves) {
    const size_t num_sizes = sizes_of(curve.points).size();
    if (num_sizes < kLeastSizes) {
      if (num_sizes >= least_told) few.push_back(fmt::format("'{}' ({})", curve.name, num_sizes));
      continue;
    }
    if (num_joined == kMostCurves || curve.points.size() > kMostPoints) {
      ++num_left;
      continue;
    }
    try {
      add_curve(curve, reported);
      ++num_joined;
    } catch (const Error& error) {
      reported.why_not.push_back(fmt::format("No prediction of '{}': {}.", curve.name, error.what()));
    }
  }
  if (!few.empty()) {
    constexpr size_t kMostNamed = 1;
    const size_t num_few = few.size();
    few.resize(std::min(num_few, kMostNamed));
    reported.why_not.push_back(fmt::format(
        "No prediction of curves with fewer than {} sizes, half of them to judge by: {}{}.", kLeastSizes,
        core::join(few, ", "), num_few > kMostNamed ? fmt::format(" and {} more", num_few - kMostNamed) : ""));
  }
  if (num_left > 0)
    reported.why_not.push_back(
        fmt::format("{} beyond {} curves or {} rows a curve are not predicted here; `lockstep predict` takes each.",
                    core::counted(num_left, "curve"), kMostCurves, kMostPoints));
}

TableRequest request_of(const analysis::AnalysisOptions& options) {
  TableRequest request;
  if (!options.scaling.empty()) request.is_strong = options.scaling == "strong";
  return request;
}

/// Of several tables each curve is named with its file; no two have one name, since their plots are files.
void name_with_table(const published::PublishedTable& table, std::set<std::string>& names,
                     std::vector<MeasuredCurve>& curves) {
  const std::string stem = table.source.stem().string();
  for (MeasuredCurve& curve : curves) {
    if (curve.name != stem) curve.name = stem + ": " + curve.name;
    const std::string name = curve.name;
    for (size_t number = 2; !names.insert(curve.name).second; ++number)
      curve.name = fmt::format("{} ({})", name, number);
  }
}
}  // namespace

ReportedPredictions join_predictions(const analysis::Analysis& runs) {
  constexpr size_t kCurve = 2;  // one size is none
  ReportedPredictions reported;
  add_curves(curves_of(runs), kCurve, reported);
  return reported;
}

ReportedPredictions join_predictions(const std::vector<published::PublishedTable>& tables,
                                     const analysis::AnalysisOptions& options) {
  ReportedPredictions reported;
  std::vector<MeasuredCurve> all;
  std::set<std::string> names;
  for (const published::PublishedTable& table : tables) {
    try {
      std::vector<MeasuredCurve> curves =
          curves_of_table({.table = table.printed, .given = table.given}, request_of(options));
      if (tables.size() > 1) name_with_table(table, names, curves);
      std::move(curves.begin(), curves.end(), std::back_inserter(all));
    } catch (const Error& error) {
      const std::string why = error.what();
      reported.why_not.push_back("No prediction: " + (core::starts_with(why, "predict: ") ? why.substr(9) : why) + ".");
    }
  }
  add_curves(all, 1, reported);
  return reported;
}

namespace {
/// Mean rate at each size, up to a factor that all sizes share.
std::map<double, double> rates_by_size(const MeasuredCurve& curve) {
  std::map<double, std::vector<double>> all;
  for (const CurvePoint& point : curve.points)
    all[point.size].push_back(point.measured.size.work * point.measured.size.devices / point.measured.step_s);
  std::map<double, double> rates;
  for (const auto& [size, values] : all) rates[size] = stats::mean(values);
  return rates;
}

/// Are these the same sizes with the same rates? The names of curves are made of other words in reports.
bool is_same_curve(const analysis::Curve& rows, const MeasuredCurve& curve) {
  constexpr double kRounding = 0.01;
  const std::map<double, double> rates = rates_by_size(curve);
  if (rows.points.size() != rates.size()) return false;
  double first_ratio = 0;
  for (const analysis::Point& point : rows.points) {
    const auto rate = rates.find(static_cast<double>(point.size));
    if (rate == rates.end()) return false;
    const double ratio = (is_token_task(point) ? point.tokens_per_s : point.samples_per_s.value) / rate->second;
    if (first_ratio == 0) first_ratio = ratio;
    if (!(std::fabs(ratio / first_ratio - 1) < kRounding)) return false;
  }
  return true;
}

/// Curves of the tables of results that rows are from, by the names of those in the report.
std::map<std::string, MeasuredCurve> curves_of_tables(const analysis::Analysis& rows,
                                                      const std::vector<published::PublishedTable>& tables) {
  std::map<std::string, MeasuredCurve> curves;
  for (const published::PublishedTable& table : tables) {
    try {
      const std::vector<MeasuredCurve> read =
          curves_of_table({.table = table.printed, .given = table.given}, request_of(rows.options));
      const bool has_one = read.size() == 1 && rows.curves.size() == 1;  // a single size looks like any other
      for (const MeasuredCurve& curve : read)
        for (const analysis::Curve& shown : rows.curves)
          if (is_same_curve(shown, curve) && (has_one || shown.points.size() > 1)) curves.emplace(shown.name, curve);
    } catch (const Error&) {  // what the report reads, predict may find too little in
    }
  }
  return curves;
}

std::optional<analysis::KeptRate> kept_rate(const MeasuredCurve& curve, int64_t size) {
  const CurvePoint& last = curve.points.back();
  const auto target = static_cast<double>(size);
  const Size at = size_of(curve, target);
  try {
    const CurvePrediction prediction = predict_curve(curve, {}, {{target, at}});
    const Interval& step_s = prediction.forecast.steps.front().step_s;
    const Size& from = last.measured.size;
    const double work_per_node = at.work * at.devices / target / (from.work * from.devices / last.size);
    const auto kept = [&](double seconds) { return work_per_node * last.measured.step_s / seconds; };
    const size_t num_sizes = rates_by_size(curve).size();
    const std::string calibrated_on = num_sizes > 1 ? fmt::format("the {} measured sizes", num_sizes)
                                                    : "the one measured size: how the rate falls is the prior's";
    analysis::KeptRate rate{.low = kept(step_s.p95), .median = kept(step_s.p50), .high = kept(step_s.p5)};
    rate.source = fmt::format(
        "predicted, not measured: of the rate per node at {:g} {} it keeps {:.1f} % (90 % interval {:.1f} to {:.1f} %) "
        "by the model of `lockstep predict`, calibrated on {}",
        last.size, curve.size_name, 100 * rate.median, 100 * rate.low, 100 * rate.high, calibrated_on);
    if (curve.has_seconds) rate.step_s = analysis::PredictedNumber{step_s.p5, step_s.p50, step_s.p95};
    return rate;
  } catch (const DataError&) {
    return std::nullopt;
  }
}
}  // namespace

analysis::PredictKeptRate kept_rate_predictor(const analysis::Analysis& runs,
                                              const std::vector<published::PublishedTable>& tables) {
  std::map<std::string, MeasuredCurve> curves = curves_of_tables(runs, tables);
  for (MeasuredCurve& curve : curves_of(runs)) curves.try_emplace(curve.name, std::move(curve));
  auto known = std::make_shared<std::map<std::pair<std::string, int64_t>, std::optional<analysis::KeptRate>>>();
  return [curves = std::move(curves), known](const analysis::Curve& curve,
                                             int64_t size) -> std::optional<analysis::KeptRate> {
    const auto found = curves.find(curve.name);
    if (found == curves.end()) return std::nullopt;
    const auto [entry, is_new] = known->try_emplace({curve.name, size});
    if (is_new) entry->second = kept_rate(found->second, size);
    return entry->second;
  };
}

}  // namespace lockstep::predict
