// The report's sentences. They are built from the analysis only: no number stands in a format string.
#include "analysis/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/cells.h"
#include "analysis/curve_names.h"
#include "analysis/work_time_text.h"
#include "core/counted.h"
#include "core/strings.h"
#include "stats/series_interval.h"
#include "stats/series_warmup.h"

namespace lockstep::analysis {
namespace {
constexpr double kMaxMeanGap = 0.1;  // of the median, above which means and medians tell different things

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string share_text(const Estimate& share) {
  return share.has_range ? fmt::format("{} (95 % interval {:.1f} to {:.1f} %)", percent(share.value), 100 * share.low,
                                       100 * share.high)
                         : percent(share.value);
}

/// The largest part of the time lost against the base, by phase.
std::string main_loss(const Curve& curve, const Point& point) {
  const auto ideal = ideal_step(curve, point);
  if (!ideal) return "";
  const Point& base = curve.points[*curve.base];
  const double ideal_ms = ideal->share * base.estimate.mean_ms, lost = point.estimate.mean_ms - ideal_ms;
  if (lost < 0.01 * ideal_ms || !point.has_step_time) return "";
  const std::string beginning = fmt::format(" A step takes {} ms {};", figure_text(lost, 3), ideal->comparison);
  if (point.phases_ms.empty() || base.phases_ms.empty()) return beginning + " no phases were recorded to say why.";
  std::string cause;
  double most = 0;
  for (const auto& [phase, ms] : point.phases_ms) {
    if (!base.phases_ms.contains(phase)) continue;
    const double more = ms - ideal->share * base.phases_ms.at(phase);
    if (more > most) {
      most = more;
      cause = phase;
    }
  }
  if (cause.empty()) return beginning + " none of the recorded phases explains it.";
  return beginning + fmt::format(" the largest part of it, {} ms, is {}.", figure_text(most, 3), cause);
}

std::string size_list(const Curve& curve) {
  std::vector<std::string> sizes;
  for (const Point& point : curve.points) sizes.push_back(std::to_string(point.size));
  return core::join(sizes, ", ");
}

/// "300 steps", or what a log of means over intervals holds instead.
std::string measured_text(const Point& point) {
  if (point.steps_per_row <= 1) return core::counted(static_cast<size_t>(point.num_steps), "step");
  return fmt::format("{} log intervals of about {:.0f} steps each", point.estimate.num_steps, point.steps_per_row);
}

std::string single_text(const Curve& curve) {
  const Point& point = curve.points.front();
  std::string text = fmt::format("{}: {}", curve.name, size_text(curve, point.size));
  if (point.is_of_table)
    text += fmt::format(" ({})", core::counted(point.runs.size(), "row"));
  else
    text += fmt::format(", a step takes {} ms ({} of {} in {})", figure_text(point.estimate.median_ms),
                        point.runs.size() > 1 ? "geometric mean of the medians" : "median", measured_text(point),
                        core::counted(point.runs.size(), "run"));
  if (point.work_time)
    text += ", " + work_time_text(point);
  else if (std::isfinite(point.samples_per_s.value))
    text += fmt::format(", {} {}", figure_text(point.samples_per_s.value), rate_unit(point));
  if (std::isfinite(point.mfu)) text += fmt::format(", MFU {}", percent(point.mfu));
  return text + ".";
}

std::string scaling_text(const Curve& curve) {
  if (is_of_times(curve)) return work_time_sentence(curve);
  const Point& last = curve.points.back();
  std::string text = fmt::format("{} was measured at {} {} ({}: {}).", curve.name, size_list(curve),
                                 unit_name(curve) + "s", scaling_name(curve.kind), curve.kind_reason);
  if (!curve.base || !std::isfinite(last.efficiency.value)) return text;
  const Point& base = curve.points[*curve.base];
  if (base.size == last.size)
    return text + fmt::format(
                      " The base is the largest size, {} with {} {}: what smaller sizes reach is set against "
                      "it.",
                      size_text(curve, base.size), figure_text(base.samples_per_s.value), rate_unit(base));
  text += fmt::format(" From {} with {} {} it reaches {} {} at {}: {:.2f} times as much, an efficiency of {}{}.",
                      size_text(curve, base.size), figure_text(base.samples_per_s.value), rate_unit(base),
                      figure_text(last.samples_per_s.value), rate_unit(last), size_text(curve, last.size), last.speedup,
                      share_text(last.efficiency), curve.shares_cores ? " of shared cores" : "");
  for (const Point* point : {&base, &last})
    if (!point->no_interval.empty())
      text += fmt::format(" At {}: {}.", size_text(curve, point->size), point->no_interval);
  if (std::isfinite(last.mfu)) text += fmt::format(" MFU goes from {} to {}.", percent(base.mfu), percent(last.mfu));
  return text + main_loss(curve, last);
}

std::string recommendation_text(const Curve& curve, const AnalysisOptions& options) {
  const std::string target = fmt::format("{:.0f} %", 100 * options.efficiency_target);
  if (const Point* doubted = superlinear_point(curve))
    return fmt::format(
        "No size is recommended: an efficiency of {} at {} is more than there can be, so the base is too slow or the "
        "work differs; repeat the base.",
        share_text(doubted->efficiency), size_text(curve, doubted->size));
  const Point* best = recommended_point(curve, options.efficiency_target);
  if (best == nullptr) return fmt::format("No measured size keeps the target of {}.", target);
  const std::string where = curve.shares_cores ? " That holds for ranks on the cores of this one machine only." : "";
  const Point& base = curve.points[*curve.base];
  if (best->size <= base.size && best != &curve.points.back()) {
    for (const Point& point : curve.points) {
      const Estimate& efficiency = point.efficiency;
      const bool differ = !efficiency.has_range && !(point.no_interval.empty() && base.no_interval.empty());
      if (point.size <= base.size ||
          (!differ && (efficiency.has_range ? efficiency.high : efficiency.value) < options.efficiency_target))
        continue;
      return fmt::format(
          "Whether a larger size keeps {} cannot be decided from these runs: at {} it is {}. The base is {}.{}", target,
          size_text(curve, point.size),
          efficiency.has_range ? share_text(efficiency) : percent(efficiency.value) + " without a usable interval",
          size_text(curve, base.size), where);
    }
    return fmt::format("No larger size keeps {}; the base is {}.{}", target, size_text(curve, base.size), where);
  }
  std::string text = fmt::format("The largest measured size that keeps {} is {}", target, size_text(curve, best->size));
  text += best->efficiency.has_range ? ", at the lower end of its interval."
                                     : "; it was judged by the value alone, since its interval is unknown.";
  text += where;
  if (best == &curve.points.back())
    text += " Larger sizes were not measured: anything said about them is a prediction.";
  return text;
}

std::vector<std::string> formats_of(const Analysis& analysis) {
  std::set<std::string> formats;
  for (const RunSummary& run : analysis.runs) formats.insert(run.format.empty() ? "unknown" : run.format);
  return {formats.begin(), formats.end()};
}
}  // namespace

const Point* superlinear_point(const Curve& curve) {
  if (!curve.base || (curve.kind != ScalingKind::kWeak && curve.kind != ScalingKind::kStrong)) return nullptr;
  for (const Point& point : curve.points)
    if (point.size > curve.points[*curve.base].size &&
        (point.efficiency.has_range ? point.efficiency.low : point.efficiency.value) > kMaxEfficiency)
      return &point;
  return nullptr;
}

const Point* recommended_point(const Curve& curve, double target) {
  const Point* best = nullptr;
  if (!curve.base || superlinear_point(curve) != nullptr) return best;
  const Point& base = curve.points[*curve.base];
  for (const Point& point : curve.points) {
    // Intervals that give no range, and repeats that differ too much for one, are unbounded: the value alone proves
    // nothing then, unlike where there is no interval at all.
    const auto has_repeats = [](const Point& one) { return one.estimate.median_interval || !one.no_interval.empty(); };
    const bool is_unbounded = &point != &base && !point.efficiency.has_range && has_repeats(point) && has_repeats(base);
    const double bound = point.efficiency.has_range ? point.efficiency.low : point.efficiency.value;
    if (!is_unbounded && bound >= target) best = &point;
  }
  return best;
}

std::vector<std::string> conclusions_of(const Curve& curve, const AnalysisOptions& options) {
  if (curve.points.size() < 2) return {single_text(curve)};
  std::vector<std::string> texts = {scaling_text(curve)};
  if (curve.base && (curve.kind == ScalingKind::kWeak || curve.kind == ScalingKind::kStrong))
    texts.push_back(recommendation_text(curve, options));
  if (curve.kind == ScalingKind::kWeak && !is_of_times(curve))
    texts.push_back(
        "Weak scaling says how fast samples pass, not how many of them a larger global batch needs for the same "
        "result.");
  return texts;
}

std::vector<std::string> scaling_limits(const Curve& curve) {
  std::vector<std::string> limits = curve.remarks;
  if (curve.kind == ScalingKind::kMixed)
    limits.push_back(
        fmt::format("This is neither weak nor strong scaling: {}. Time per sample may be compared; efficiency mixes "
                    "the change of size with the change of work.",
                    curve.kind_reason));
  if (curve.kind == ScalingKind::kUnknown)
    limits.push_back(
        fmt::format("Whether this is weak or strong scaling is not known: {}. Efficiency may mix the change of size "
                    "with a change of work.",
                    curve.kind_reason));
  if (!curve.base && curve.points.size() > 1) limits.push_back(curve.base_reason + ".");
  return limits;
}

std::vector<std::string> limits_of(const Curve& curve) {
  std::vector<std::string> limits = scaling_limits(curve);
  const bool has_rows = is_of_table(curve);
  limits.insert(limits.end(), curve.stopped.begin(), curve.stopped.end());
  if (curve.points.size() < 2)
    limits.push_back("With one size nothing can be said about scaling; times and rates at this size can be used.");
  std::vector<std::string> single, single_rows, unnamed, differing, no_interval, failed, failures;
  for (const Point& point : curve.points) {
    const std::string size = size_text(curve, point.size);
    if (!point.num_allocations)
      unnamed.push_back(size);
    else if (*point.num_allocations < 2)
      (point.is_of_table ? single_rows : single).push_back(size);
    if (!point.no_interval.empty())
      differing.push_back(
          fmt::format("at {}{}{}", size, point.runs.size() > 1 ? " there are " : " ", point.no_interval));
    else if (!point.estimate.median_interval && !point.is_of_table)
      no_interval.push_back(size);
    for (const Flag& flag : point.flags)
      if (flag.name == "failed-run") {
        if (failed.empty() || failed.back() != size) failed.push_back(size);
        failures.push_back(flag.sentence);
      }
  }
  if (!single.empty())
    limits.push_back(
        fmt::format("One job only at {}: its numbers and intervals hold for that allocation and hour; another job may "
                    "differ by more than the interval, so differences of a few percent between sizes prove nothing.",
                    core::join(single, ", ")));
  if (!single_rows.empty())
    limits.push_back(fmt::format(
        "One value only at {}: how much a repeat would differ is unknown, and differences of a few percent between "
        "sizes prove nothing.",
        single_rows.size() == curve.points.size() && single_rows.size() > 1 ? "each size"
                                                                            : core::join(single_rows, ", ")));
  if (!unnamed.empty())
    limits.push_back(fmt::format(
        "The {} at {} do not all name their job: if they shared one, the interval holds for that allocation only.",
        has_rows ? "rows" : "runs", core::join(unnamed, ", ")));
  if (!differing.empty())
    limits.push_back(capitalised(core::join(differing, "; ")) + ". Take their values as examples, and repeat.");
  if (!no_interval.empty())
    limits.push_back(fmt::format("Too few steps for an interval at {}: take the values as examples.",
                                 core::join(no_interval, ", ")));
  for (const Point& point : curve.points) {
    if (point.is_of_table || !(std::abs(point.estimate.mean_ms / point.estimate.median_ms - 1) > kMaxMeanGap)) continue;
    limits.push_back(fmt::format(
        "At {} the mean step, {} ms, is far from the median one, {} ms: single steps were slow. Rates and efficiency "
        "are of medians, phases and billed rates of means; they do not agree here, and the runs are better repeated.",
        size_text(curve, point.size), figure_text(point.estimate.mean_ms, 3),
        figure_text(point.estimate.median_ms, 3)));
  }
  if (!failed.empty())
    limits.push_back(
        fmt::format("At {} every run failed: the steps before the failure were measured, whether the size can be used "
                    "is open ({}).",
                    core::join(failed, ", "), core::join(failures, "; ")));
  return limits;
}

std::vector<std::string> source_problems(const std::vector<RunSummary>& runs, size_t max_lines) {
  std::vector<std::pair<std::string, std::set<std::string>>> sources_of;  // in the order of the runs
  for (const RunSummary& run : runs)
    for (const std::string& problem : run.problems) {
      auto found =
          std::find_if(sources_of.begin(), sources_of.end(), [&](const auto& one) { return one.first == problem; });
      if (found == sources_of.end()) found = sources_of.insert(found, {problem, {}});
      found->second.insert(run.source.string());
    }
  std::vector<std::string> lines;
  for (const auto& [problem, sources] : sources_of) {
    if (lines.size() == max_lines) {
      lines.push_back(fmt::format("{} more kinds of problems; the page lists them all", sources_of.size() - max_lines));
      break;
    }
    const std::string others = sources.size() > 1 ? fmt::format(" and {} more", sources.size() - 1) : "";
    lines.push_back(fmt::format("{}{}: {}", *sources.begin(), others, problem));
  }
  return lines;
}

std::vector<std::string> check_lines(const Analysis& analysis) {
  std::map<std::string, std::vector<const Flag*>> kinds;
  for (const Flag& flag : analysis.flags) kinds[flag.code + " " + flag.name].push_back(&flag);
  const bool is_only = analysis.curves.size() == 1;  // whose name need not stand in every line
  std::vector<std::string> lines;
  for (const auto& [kind, flags] : kinds) {
    const std::string& whole = flags.front()->subject;
    const std::string subject = is_only ? without_name(whole, analysis.curves.front().name) : whole,
                      place = is_only && whole == analysis.curves.front().name ? "" : subject + ": ";
    lines.push_back(fmt::format("{}{}: {}{}", kind, flags.size() > 1 ? fmt::format(" ({} times)", flags.size()) : "",
                                place, flags.front()->sentence));
  }
  return lines;
}

std::vector<std::string> left_out_lines(const Analysis& analysis, bool has_conclusions) {
  std::vector<std::pair<std::string, std::vector<size_t>>> runs_of;  // in the order they were left out
  for (const LeftOut& left : analysis.left_out) {
    const std::string why = has_conclusions ? fmt::format("{}; {}", left.reason, left.conclusion) : left.reason;
    auto found = std::find_if(runs_of.begin(), runs_of.end(), [&](const auto& one) { return one.first == why; });
    if (found == runs_of.end()) found = runs_of.insert(found, {why, {}});
    found->second.push_back(left.run);
  }
  std::vector<std::string> lines;
  for (const auto& [why, members] : runs_of)
    lines.push_back(fmt::format("{}{}: {}", analysis.runs[members.front()].name,
                                members.size() > 1 ? fmt::format(" and {} more", members.size() - 1) : "", why));
  return lines;
}

namespace {
/// How runs were measured and combined.
std::vector<std::string> method_of_runs(const Analysis& analysis) {
  std::vector<std::string> texts;
  texts.push_back(
      fmt::format("{} (formats: {}); in no point, for the reasons listed: {}. Times are those of the optimiser step, "
                  "the largest over the ranks where ranks were asked, on the clock of the program that ran; logs that "
                  "give only means over an interval are used as such.",
                  analysis.runs.size() == 1 ? "1 run was read" : fmt::format("{} runs were read", analysis.runs.size()),
                  core::join(formats_of(analysis), ", "), analysis.left_out.size()));
  texts.push_back(analysis.options.warmup_steps
                      ? fmt::format("The first {} rows of each run were left out as warm-up, as asked for.",
                                    *analysis.options.warmup_steps)
                      : fmt::format("Warm-up was detected: {}. It lasts at least ten steps and 30 s, in runs below "
                                    "five minutes a tenth of the run, and at most half of it.",
                                    stats::kWarmupMethod));
  texts.push_back(fmt::format(
      "The value of a run is the median of its remaining steps, with a 95 % interval: {}. The value of a job is the "
      "geometric mean of its runs', that of a size the geometric mean of its jobs'; with two jobs or more its interval "
      "is Student's t on the logarithms of the same values, never narrower than the printed digit or the noise inside "
      "the runs. A run that does not name its job counts as one. Rates are samples per step over that time: seconds "
      "are aggregated first, rates are never averaged. Outliers are marked and counted, never removed.",
      stats::kMedianIntervalMethod));
  return texts;
}

std::vector<std::string> method_of_rows(const Analysis& analysis) {
  return {fmt::format("{} of tables {} read; each is one value, as printed. How it was measured, over how many steps "
                      "and after what warm-up, the tables do not tell.",
                      core::counted(analysis.runs.size(), "row"), analysis.runs.size() == 1 ? "was" : "were"),
          "Rows of one configuration and size are repeats: their geometric mean is the value of the size, with a 95 % "
          "interval by Student's t on their logarithms, never narrower than the printed digit. Rows of one job (a "
          "column job) count once."};
}
}  // namespace

std::vector<std::string> method_of(const Analysis& analysis) {
  const bool is_of_tables =
      !analysis.runs.empty() && std::all_of(analysis.runs.begin(), analysis.runs.end(),
                                            [](const RunSummary& run) { return run.format == kTableRow; });
  std::vector<std::string> texts = is_of_tables ? method_of_rows(analysis) : method_of_runs(analysis);
  texts.push_back(
      "Efficiency is the rate per node (per device where the sizes are devices) over that of the base; its interval "
      "adds the relative uncertainties of both sizes in quadrature. It compares sizes of one machine only: a faster "
      "device lowers it without being worse, so absolute rates stand beside it.");
  texts.push_back(
      "MFU counts three forward passes of model FLOPs per sample (a multiply-add is two), recomputation not counted, "
      "over the dense peak named in the table; sparsity peaks are not used.");
  return texts;
}

}  // namespace lockstep::analysis
