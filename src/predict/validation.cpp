#include "predict/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/strings.h"
#include "predict/input_rates.h"
#include "predict/layout_doubts.h"
#include "stats/statistics.h"

namespace lockstep::predict {
namespace {

std::vector<CurvePoint> points_up_to(const MeasuredCurve& curve, std::optional<double> largest) {
  std::vector<CurvePoint> points;
  for (const CurvePoint& point : curve.points)
    if (!largest || point.size <= *largest) points.push_back(point);
  if (points.empty())
    throw UsageError(fmt::format("predict: curve '{}' has no point up to {:g} {}; its smallest is {:g}", curve.name,
                                 *largest, curve.size_name, curve.points.front().size),
                     curve.points.size() == 1
                         ? "this curve has one size alone, as rows of different models have: none is left to judge by"
                         : fmt::format("give --calibrate-up-to {:g} or more", curve.points.front().size));
  return points;
}

/// Sizes from which no finite step follows: parts of a device, and more of them than will ever be.
void check_size(const MeasuredCurve& curve, double size, double devices) {
  constexpr double kLeast = 0.99, kMost = 1e9;
  if (devices >= kLeast && devices <= kMost) return;
  throw DataError(
      fmt::format("predict: curve '{}': {:g} {} are {:g} devices", curve.name, size, curve.size_name, devices),
      "give sizes of one device up to a thousand million");
}

std::vector<Measured> measured_of(const std::vector<CurvePoint>& points) {
  std::vector<Measured> measured;
  for (const CurvePoint& point : points) measured.push_back(point.measured);
  return measured;
}

/// Virtual stages that an assumed pipeline must have: the fewest with which no step beyond the first loses less than
/// nothing beside its bubble. 0: more than any pipeline has.
int64_t fewest_virtual_stages(const std::vector<Measured>& measured) {
  constexpr double kNoise = 0.98;
  constexpr int64_t kMost = 16;
  const auto beside_bubble = [](const Measured& one, double share) {
    return one.step_s / (one.size.work * (1 + share * one.size.bubble));
  };
  for (int64_t chunks = 1; chunks <= kMost; chunks *= 2) {
    const double share = 1 / static_cast<double>(chunks), first = beside_bubble(measured.front(), share);
    if (std::all_of(measured.begin(), measured.end(),
                    [&](const Measured& one) { return beside_bubble(one, share) >= kNoise * first; }))
      return chunks;
  }
  return 0;
}

/// A guessed layout gives way to what was measured: its bubble becomes that of so many virtual stages.
void correct_assumed_bubble(CurvePrediction& prediction, std::vector<Measured>& measured) {
  if (!prediction.curve.work.is_layout_assumed) return;
  const int64_t chunks = fewest_virtual_stages(measured);
  if (chunks == 1) return;
  const double share = chunks > 0 ? 1 / static_cast<double>(chunks) : 0;
  for (Measured& one : measured) one.size.bubble *= share;
  for (CurvePoint& point : prediction.calibration) point.measured.size.bubble *= share;
  for (Target& target : prediction.targets) target.at.bubble *= share;
  prediction.curve.work.are_chunks_known = true;
  prediction.facts.push_back({"virtual stages", chunks > 0 ? fmt::format("{}", chunks) : "no bubble",
                              "not known: with fewer the measured steps were too fast"});
}

/// Do two numbers of full nodes calibrate? Else no step tells what a program does not hide of its gradients between
/// nodes.
bool knows_network(const MeasuredCurve& curve, const std::vector<Measured>& measured) {
  double smallest = HUGE_VAL, largest = 0;
  for (const Measured& one : measured) {
    if (one.size.devices < curve.devices_per_node) continue;
    smallest = std::min(smallest, one.size.nodes);
    largest = std::max(largest, one.size.nodes);
  }
  return largest > smallest;
}

/// Seconds of a device at the reference size that calibration points waited for data: as many for each sample.
double waited_s_of(const std::vector<CurvePoint>& points, double reference_work, std::vector<KnownFact>& facts) {
  std::vector<double> waited_s, shares;
  for (const CurvePoint& point : points) {
    if (!point.waited_s) continue;
    waited_s.push_back(*point.waited_s / point.measured.size.work * reference_work);
    shares.push_back(*point.waited_s / point.measured.step_s);
  }
  if (waited_s.empty()) return 0;
  facts.push_back({"waits for data", fmt::format("{:.1f} % of the measured steps", 100 * stats::mean(shares)),
                   "records of the runs; as long for each sample of a device at other sizes"});
  return stats::mean(waited_s);
}

/// The curve's prior in units of its clock, of which a step takes `reference`.
Setting setting_of(const MeasuredCurve& curve, const std::vector<Measured>& measured, double reference,
                   std::vector<KnownFact>& facts) {
  Setting setting = make_setting(curve.work, curve.machine, curve.devices_per_node, reference * curve.clock_s,
                                 curve.has_seconds, facts);
  // Buses, memory, power and the host. Full nodes of published tables lose 2 to 10 % beside one device (quartiles),
  // of which jitter and gradients explain the smaller part.
  constexpr double kContention = 0.02;
  // Of all-reduced gradients. Programs differ most in this: at the first step onto a network of 100 Gbit/s published
  // ones showed from a sixth to all of the nominal time. Median 0.79.
  constexpr double kUnseenHiddenLogit = 1.3, kUnseenHiddenLogitSd = 2.5;
  const bool has_parts_of_a_node = std::any_of(
      measured.begin(), measured.end(), [&](const Measured& one) { return one.size.devices < curve.devices_per_node; });
  if (has_parts_of_a_node) setting.contention = kContention;
  if (curve.work.replica_devices() == 1 && curve.work.sharding == Sharding::kReplicated &&
      !knows_network(curve, measured))
    setting.hidden_logit = kUnseenHiddenLogit, setting.hidden_logit_sd = kUnseenHiddenLogitSd;
  setting.are_virtual_stages_known = curve.work.are_chunks_known || curve.work.pp == 1;
  const double scale = curve.clock_s > 0 ? 1 / curve.clock_s : reference;
  setting.clock_s = 1 / scale;
  for (double* part :
       {&setting.inter_s, &setting.intra_s, &setting.latency_s, &setting.ring_latency_s, &setting.between_rings_s,
        &setting.expert_s, &setting.update_s, &setting.gather_s, &setting.gather_hop_s, &setting.logits_s})
    *part *= scale;
  if (setting.fixed_s) *setting.fixed_s *= scale;
  return setting;
}
}  // namespace

std::vector<std::string> doubts_of(const MeasuredCurve& curve, const std::vector<CurvePoint>& points) {
  constexpr double kMostSpread = 0.1, kMostGain = 1.2;
  std::map<double, std::pair<double, double>> ranges;
  std::vector<std::string> notes;
  const CurvePoint* slowest = nullptr;  // at its work
  const auto step_at_work = [](const CurvePoint& point) { return point.measured.step_s / point.measured.size.work; };
  for (const CurvePoint& point : points) {
    auto [range, is_new] = ranges.try_emplace(point.size, point.measured.step_s, point.measured.step_s);
    range->second.first = std::min(range->second.first, point.measured.step_s);
    range->second.second = std::max(range->second.second, point.measured.step_s);
    if (slowest != nullptr && point.size > slowest->size && notes.empty() &&
        step_at_work(*slowest) > kMostGain * step_at_work(point))
      notes.push_back(fmt::format(
          "A device is {:.3g} times as fast at {:g} {} as at {:g}, which no program scales to: are these totals of all "
          "devices, or is the unit another one?",
          step_at_work(*slowest) / step_at_work(point), point.size, curve.size_name, slowest->size));
    if (slowest == nullptr || step_at_work(point) > step_at_work(*slowest)) slowest = &point;
  }
  for (const auto& [size, range] : ranges)
    if (range.second > range.first * (1 + kMostSpread))
      notes.push_back(fmt::format(
          "Points at {:g} {} contradict each other ({:.4g} to {:.4g} {}): the interval is wider; "
          "look for a difference between the runs.",
          size, curve.size_name, range.first, range.second, curve.has_seconds ? "s" : "device seconds a unit of work"));
  if (std::string text = plateau_text(curve, points); !text.empty()) notes.push_back(std::move(text));
  if (points.size() == 1)
    notes.emplace_back(
        "One calibration point fixes the compute alone: how the step grows is the prior's, nothing was learned of it.");
  return notes;
}

std::vector<std::string> unfit_texts(const MeasuredCurve& curve, const std::vector<CurvePoint>& points,
                                     const Forecast& fitted) {
  std::vector<std::string> texts;
  const char* unit = curve.has_seconds ? " s" : "";
  for (size_t i = 0; i < points.size(); ++i) {
    const Interval& step = fitted.steps.at(i).step_s;
    if (points[i].measured.is_input_bound() || step.covers90(points[i].measured.step_s)) continue;
    texts.push_back(fmt::format(
        "The fit does not follow the point at {:g} {}: {:.4g}{} was measured, {:.4g}{} is fitted ({:.4g} to {:.4g} "
        "with 90 % probability). Measure it again, or look for what is different there.",
        points[i].size, curve.size_name, points[i].measured.step_s, unit, step.p50, unit, step.p5, step.p95));
  }
  return texts;
}

std::string far_sizes_text(const CurvePrediction& prediction) {
  constexpr double kFar = 32;
  const CurvePoint* largest = nullptr;
  for (const CurvePoint& point : prediction.calibration)
    if (largest == nullptr || point.measured.size.devices > largest->measured.size.devices) largest = &point;
  if (largest == nullptr) return "";
  std::vector<std::string> far;
  for (const Target& target : prediction.targets)
    if (target.at.devices > kFar * largest->measured.size.devices) far.push_back(fmt::format("{:g}", target.size));
  if (far.empty()) return "";
  return fmt::format(
      "Far beyond what was measured: {} {} lie beyond {:g} times the largest calibrated size ({:g}). What limits such "
      "sizes need not show in the measured ones: measure a larger one.",
      core::join(far, ", "), prediction.curve.size_name, kFar, largest->size);
}

std::string thin_sizes_text(const CurvePrediction& prediction) {
  constexpr double kWhole = 0.99;
  const MeasuredCurve& curve = prediction.curve;
  if (!curve.work.local_batch || curve.assumed_samples > 0 || curve.work.is_layout_assumed) return "";
  std::vector<std::string> thin;
  for (const Target& target : prediction.targets)
    if (*curve.work.local_batch * target.at.work * curve.work.sample_devices() < kWhole)
      thin.push_back(fmt::format("{:g}", target.size));
  if (thin.empty()) return "";
  const Target& last = prediction.targets.back();
  return fmt::format(
      "The batch is smaller than the machine: at {} {} it has less than one sample for each {} ({:g} for {:g} devices "
      "at {:g} {}). Only a larger batch, or more ranks that share a sample, could use so many.",
      core::join(thin, ", "), curve.size_name, curve.work.sample_devices() > 1 ? "replica of the model" : "device",
      std::round(*curve.work.local_batch * last.at.work * last.at.devices), last.at.devices, last.size,
      curve.size_name);
}

bool Validation::beats_rivals() const {
  return std::all_of(rivals.begin(), rivals.end(), [&](const RivalScore& score) {
    return !score.mean_error_pct || mean_error_pct < *score.mean_error_pct;
  });
}

CurvePrediction predict_curve(const MeasuredCurve& curve, std::optional<double> largest,
                              const std::vector<Target>& targets, const Sampling& sampling) {
  CurvePrediction prediction{.curve = curve, .calibration = points_up_to(curve, largest), .targets = targets};
  for (const CurvePoint& point : prediction.calibration) check_size(curve, point.size, point.measured.size.devices);
  for (const Target& target : targets) check_size(curve, target.size, target.at.devices);
  const std::vector<Measured> all = measured_of(prediction.calibration), free = compute_bound(all);
  std::vector<Measured> measured = free.empty() ? all : free;
  correct_assumed_bubble(prediction, measured);
  // The prior speaks of shares of a step: of the largest measured one, from which it has to reach out.
  const double reference = measured.back().step_s, reference_work = measured.back().size.work;
  const auto take_reference = [&](Size& size) {  // the curve's work is that of its first size, as is the batch it tells
    size.samples = size.work;
    size.work /= reference_work;
  };
  for (Measured& one : measured) take_reference(one.size);
  Setting setting = setting_of(prediction.curve, measured, reference, prediction.facts);
  prediction.facts.push_back(input_fact(curve.input, "what it takes of the measured steps counts as compute"));
  setting.waited_s = waited_s_of(prediction.calibration, reference_work, prediction.facts);
  std::vector<Size> wanted;
  for (const Target& target : prediction.targets) {
    wanted.push_back(target.at);
    take_reference(wanted.back());
  }
  // Steps that all wait for their input bound what computing takes, and say nothing of how it grows.
  const ComputePrior below_input{.median_s = reference / 2, .log_sd = 0.7};
  const std::vector<Draw> draws = free.empty() ? sample_prior_below(setting, reference, below_input, measured, sampling)
                                               : sample_posterior(setting, reference, measured, sampling);
  for (std::string& note : layout_doubts(curve, prediction.calibration))
    prediction.curve.notes.push_back(std::move(note));
  const double calibrated_nodes = measured.back().size.nodes;
  prediction.forecast = forecast(setting, reference, draws, wanted, calibrated_nodes, plateau_of(measured));
  std::vector<Size> known;
  for (const CurvePoint& point : prediction.calibration) {
    known.push_back(point.measured.size);
    take_reference(known.back());
  }
  const Forecast fitted = forecast(setting, reference, draws, known, calibrated_nodes);
  for (std::string& note : doubts_of(curve, prediction.calibration)) prediction.curve.notes.push_back(std::move(note));
  for (std::string& note : unfit_texts(curve, prediction.calibration, fitted))
    prediction.curve.notes.push_back(std::move(note));
  std::vector<double> sizes;
  for (const Target& target : prediction.targets) sizes.push_back(target.size);
  for (std::string text :
       {input_doubt_text(curve, prediction.calibration), input_limit_text(curve, sizes, prediction.forecast.steps),
        far_sizes_text(prediction), thin_sizes_text(prediction)})
    if (!text.empty()) prediction.curve.notes.push_back(std::move(text));
  return prediction;
}

Validation validate_curve(const MeasuredCurve& curve, double largest) {
  std::vector<Target> targets;
  std::vector<CurvePoint> kept;
  for (const CurvePoint& point : curve.points)
    if (point.size > largest) kept.push_back(point), targets.push_back({point.size, point.measured.size});
  if (kept.empty())
    throw UsageError(
        fmt::format("predict: curve '{}' has no point above {:g} {} to judge by", curve.name, largest, curve.size_name),
        "give a smaller --calibrate-up-to");
  // The model sees a curve without the points that it is judged on; of them it gets sizes and batches alone.
  MeasuredCurve known = curve;
  std::erase_if(known.points, [&](const CurvePoint& point) { return point.size > largest; });
  points_up_to(curve, largest);
  Validation validation{.prediction = predict_curve(known, largest, targets)};
  std::vector<double> errors, widths;
  double num50 = 0, num90 = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Interval& step = validation.prediction.forecast.steps[i].step_s;
    const double truth = kept[i].measured.step_s;
    JudgedPoint judged{.point = kept[i],
                       .predicted = step,
                       .error_pct = 100 * (truth / step.p50 - 1),
                       .in50 = step.covers50(truth),
                       .in90 = step.covers90(truth)};
    errors.push_back(std::fabs(judged.error_pct));
    widths.push_back(100 * step.relative_half_width());
    num50 += judged.in50, num90 += judged.in90;
    validation.judged.push_back(judged);
  }
  const auto count = static_cast<double>(kept.size());
  validation.mean_error_pct = stats::mean(errors);
  validation.worst_error_pct = *std::max_element(errors.begin(), errors.end());
  validation.coverage50 = num50 / count, validation.coverage90 = num90 / count;
  validation.median_half_width_pct = stats::median(widths);
  const std::vector<Measured> measured = measured_of(validation.prediction.calibration);
  for (const Rival rival : kRivals) {
    std::vector<double> rival_errors;
    for (const CurvePoint& point : kept)
      if (const auto step = rival_step_s(rival, measured, point.measured.size))
        rival_errors.push_back(std::fabs(100 * (point.measured.step_s / *step - 1)));
    validation.rivals.push_back(
        {rival, rival_errors.size() == kept.size() ? std::optional(stats::mean(rival_errors)) : std::nullopt});
  }
  return validation;
}

}  // namespace lockstep::predict
