#include "predict/report_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "predict/document.h"
#include "predict/page.h"
#include "predict/run_curves.h"
#include "predict/table_curves.h"
#include "stats/statistics.h"

namespace lockstep::predict {
namespace {

constexpr size_t kLeastSizes = 4;

/// The part that grew most between two predicted steps.
std::string grown_part(const CurvePrediction& prediction, size_t index) {
  const Parts& first = prediction.forecast.steps.front().parts_s;
  const Parts& last = prediction.forecast.steps[index].parts_s;
  size_t most = 0;
  for (size_t part = 1; part < kNumParts; ++part)
    if (last[part] - first[part] > last[most] - first[most]) most = part;
  return std::string(part_name(static_cast<Part>(most)));
}

/// Where the prediction was off most, and what it had expected to grow there.
std::string worst_text(const Validation& validation) {
  const auto worst = std::max_element(
      validation.judged.begin(), validation.judged.end(),
      [](const JudgedPoint& a, const JudgedPoint& b) { return std::fabs(a.error_pct) < std::fabs(b.error_pct); });
  const auto index = static_cast<size_t>(worst - validation.judged.begin());
  const bool was_slower = worst->error_pct > 0;
  std::string text = fmt::format(
      "Farthest off at {:g} {}: measured {:.4g} s, predicted {:.4g} s; the runs were {:.1f} % {} than the median and "
      "{} "
      "the 90 % interval.",
      worst->point.size, validation.prediction.curve.size_name, worst->point.measured.step_s, worst->predicted.p50,
      std::fabs(worst->error_pct), was_slower ? "slower" : "faster", worst->in90 ? "inside" : "outside");
  if (index > 0)
    text += fmt::format(" The part that was to grow most is '{}'.", grown_part(validation.prediction, index));
  if (!worst->in90)
    text += was_slower ? " Look for what the small sizes do not show: another part of the network, slow nodes, input."
                       : " The small runs were slow, or did other work.";
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

void add_curve(const MeasuredCurve& curve, draw::Section& section) {
  const Validation validation = validate_curve(curve, curve.points[(curve.points.size() - 1) / 2].size);
  section.blocks.emplace_back(draw::Paragraph{.text = calibration_text(validation.prediction)});
  section.blocks.emplace_back(efficiency_chart(validation.prediction, validation.judged));
  section.blocks.emplace_back(judged_table(validation));
  section.blocks.emplace_back(draw::Paragraph{.text = score_text(validation)});
  section.blocks.emplace_back(draw::Paragraph{.text = worst_text(validation)});
  section.blocks.emplace_back(continued(curve));
}
}  // namespace

std::optional<draw::Section> prediction_section(const analysis::Analysis& runs) {
  draw::Section section{.id = "prediction", .title = "Predicted and measured"};
  for (const MeasuredCurve& curve : curves_of(runs)) {
    if (curve.points.size() < kLeastSizes) continue;
    try {
      add_curve(curve, section);
    } catch (const DataError& error) {
      section.blocks.emplace_back(draw::Paragraph{.text = error.what(), .kind = draw::Paragraph::Kind::kWarning});
    }
  }
  if (section.blocks.empty()) return std::nullopt;
  return section;
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
      TableRequest request;
      if (!rows.options.scaling.empty()) request.is_strong = rows.options.scaling == "strong";
      const std::vector<MeasuredCurve> read = curves_of_table({.table = table.printed, .given = table.given}, request);
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
    const analysis::KeptRate rate{.low = kept(step_s.p95), .median = kept(step_s.p50), .high = kept(step_s.p5)};
    return analysis::KeptRate{
        rate.low, rate.median, rate.high,
        fmt::format(
            "predicted, not measured: of the rate per node at {:g} {} it keeps {:.1f} % (90 % interval {:.1f} to "
            "{:.1f} %) by the model of `lockstep predict`, calibrated on {}",
            last.size, curve.size_name, 100 * rate.median, 100 * rate.low, 100 * rate.high, calibrated_on)};
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
