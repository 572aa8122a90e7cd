// Samples that every size needs to one loss: what a larger batch costs and no throughput shows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/cells.h"
#include "analysis/losses.h"
#include "stats/series_interval.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr double kStartShare = 0.05;  // of the shortest run's samples: the window in which all curves start
constexpr double kTargetShare = 0.1;  // of the common fall that is left at the target
constexpr double kMinFall = 6;        // standard errors
constexpr double kStretches[] = {2, 1.6, 1.35},
                 kMinRight = 1.1;   // of the neighbourhood of a crossing, as factors of its samples
constexpr double kRefused = 1e6;    // a refusal counts as more uncertain than any crossing
constexpr double kMaxSpread = 1.5;  // upper over lower end of an interval that tells something

/// A logarithm with its variance and the degrees of freedom that this is worth.
struct LogMean {
  double centre = 0, variance = 0, dof = 1;
};

Estimate estimate_of(const LogMean& mean) {
  const double half = stats::t_factor(std::max(1.0, mean.dof)) * std::sqrt(mean.variance);
  return {.value = std::exp(mean.centre),
          .low = std::exp(mean.centre - half),
          .high = std::exp(mean.centre + half),
          .has_range = true};
}

LogMean difference(const LogMean& a, const LogMean& b) {
  LogMean result{.centre = a.centre - b.centre, .variance = a.variance + b.variance};
  const double squares = a.variance * a.variance / a.dof + b.variance * b.variance / b.dof;  // Welch and Satterthwaite
  result.dof = squares > 0 ? result.variance * result.variance / squares : std::min(a.dof, b.dof);
  return result;
}

/// One run in the comparison.
struct Candidate {
  size_t point = 0;
  const RunSummary* run = nullptr;
  LossLevels levels{};
  double first_guess = 0;
  LossCrossing crossing{};
};

/// What the runs of one size say together.
struct SizeValues {
  std::vector<double> logs{};  ///< One for each job, or for each run of the only job.
  LogMean mean{};
};

/// Runs whose losses fall; of points without any the reason goes into the point.
std::vector<Candidate> falling_runs(Curve& curve, const std::vector<RunSummary>& runs) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const Point& point : curve.points)
    for (const size_t index : point.runs)
      if (runs[index].losses.size() >= kMinLosses)
        shortest = std::min(shortest, runs[index].losses.back().samples_seen);
  std::vector<Candidate> candidates;
  for (size_t place = 0; place < curve.points.size(); ++place)
    for (const size_t index : curve.points[place].runs) {
      const RunSummary& run = runs[index];
      std::string& refusal = curve.points[place].loss_refusal;
      if (run.losses.size() < kMinLosses) {
        refusal = fmt::format("{} logged {} losses, {} are needed", run.name, run.losses.size(), kMinLosses);
        continue;
      }
      const LossLevels levels = loss_levels(run.losses, kStartShare * shortest);
      if (levels.start - levels.end < kMinFall * levels.error) {
        refusal =
            fmt::format("the loss of {} goes from {} at the start to {} in the last quarter, no fall against its noise",
                        run.name, figure_text(levels.start), figure_text(levels.end));
        continue;
      }
      candidates.push_back({.point = place, .run = &run, .levels = levels});
    }
  return candidates;
}

/// A tenth of the fall that all have in common above where the worst of them ends; NaN where they have none.
double common_target(const std::vector<Candidate>& candidates) {
  double start = std::numeric_limits<double>::infinity(), end = -start, error = 0;
  for (const Candidate& one : candidates) {
    start = std::min(start, one.levels.start);
    end = std::max(end, one.levels.end);
    error = std::max(error, one.levels.error);
  }
  return start - end > kMinFall * error ? end + kTargetShare * (start - end) : kNoValue;
}

/// First guesses, and how far beyond a crossing every run still has losses.
double guess_crossings(std::vector<Candidate>& candidates, double target) {
  double right = std::numeric_limits<double>::infinity();
  for (Candidate& one : candidates) {
    one.first_guess = first_crossing(one.run->losses, target);
    const double room = one.run->losses.back().samples_seen / one.first_guess;
    if (!std::isfinite(one.first_guess))
      one.crossing.refusal = "its loss does not cross the target";
    else if (room < kMinRight)
      one.crossing.refusal = "it reaches the target too near to its end";
    else
      right = std::min(right, room);
  }
  return right;
}

/// Finds all crossings with the one neighbourhood that leaves the least uncertainty: a wide one averages more noise, a
/// narrow one misses less of the curve's shape. Drops the runs that refuse.
void cross(std::vector<Candidate>& candidates, Curve& curve) {
  LossComparison& comparison = *curve.losses;
  const double room = guess_crossings(candidates, comparison.target);
  std::vector<LossCrossing> best;
  double best_uncertainty = std::numeric_limits<double>::infinity();
  for (const double stretch : kStretches) {
    std::vector<LossCrossing> crossings;
    double uncertainty = 0;
    for (const Candidate& one : candidates) {
      crossings.push_back(
          one.crossing.refusal.empty()
              ? loss_crossing(one.run->losses, comparison.target, one.first_guess, stretch, std::min(stretch, room))
              : one.crossing);
      const double half = stats::t_factor(std::max(1.0, crossings.back().dof)) * std::sqrt(crossings.back().variance);
      uncertainty += crossings.back().refusal.empty() ? half * half : kRefused;
    }
    if (uncertainty >= best_uncertainty) continue;
    best_uncertainty = uncertainty;
    best = std::move(crossings);
    comparison.left = stretch;
    comparison.right = std::min(stretch, room);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].crossing = best[i];
    if (!best[i].refusal.empty())
      curve.points[candidates[i].point].loss_refusal = fmt::format("{}: {}", candidates[i].run->name, best[i].refusal);
  }
  std::erase_if(candidates, [](const Candidate& one) { return !one.crossing.refusal.empty(); });
}

/// Jobs of each size: their geometric mean, with the spread between them where there are several; else within the run,
/// but not below the spread that other sizes show.
std::vector<SizeValues> combine(const std::vector<Candidate>& candidates, size_t num_points) {
  std::vector<SizeValues> sizes(num_points);
  double squares = 0, dof = 0;
  for (size_t place = 0; place < num_points; ++place) {
    SizeValues& size = sizes[place];
    std::vector<double> samples;
    std::vector<std::string> jobs;
    for (const Candidate& one : candidates) {
      if (one.point != place) continue;
      samples.push_back(std::exp(one.crossing.log_samples));
      jobs.push_back(one.run->allocation);
      size.mean = {.centre = one.crossing.log_samples, .variance = one.crossing.variance, .dof = one.crossing.dof};
    }
    std::vector<double> values = stats::values_by_allocation(samples, jobs);
    if (values.size() == 1) values = samples;
    for (const double value : values) size.logs.push_back(std::log(value));
    const double count = static_cast<double>(values.size());
    if (values.size() < 2) continue;
    const double stddev = stats::sample_stddev(size.logs);
    size.mean = {.centre = stats::mean(size.logs), .variance = stddev * stddev / count, .dof = count - 1};
    squares += (count - 1) * stddev * stddev;
    dof += count - 1;
  }
  for (SizeValues& size : sizes)
    if (size.logs.size() == 1 && dof > 0 && squares / dof > size.mean.variance)
      size.mean.variance = squares / dof, size.mean.dof = dof;
  return sizes;
}

std::string loss_verdict_of(const Estimate& ratio) {
  if (ratio.low > 1) return "needs more samples than the base";
  if (ratio.high < 1) return "needs fewer samples than the base";
  return "no difference from the base shown";
}

void fill_ratio(Point& point, const SizeValues& size, const SizeValues& base) {
  const Estimate ratio = estimate_of(difference(size.mean, base.mean));
  if (ratio.high > kMaxSpread * ratio.low) {
    point.loss_refusal = fmt::format("the interval would reach from {} to {} times the base's samples",
                                     figure_text(ratio.low, 2), figure_text(ratio.high, 2));
    return;
  }
  point.samples_to_loss_ratio = ratio;
  point.loss_verdict = loss_verdict_of(ratio);
}
}  // namespace

void fill_losses(Curve& curve, const std::vector<RunSummary>& runs) {
  const bool has_losses = std::any_of(curve.points.begin(), curve.points.end(), [&](const Point& point) {
    return std::any_of(point.runs.begin(), point.runs.end(), [&](size_t index) { return !runs[index].losses.empty(); });
  });
  if (!curve.base || curve.points.size() < 2 || !has_losses) return;
  LossComparison& comparison = curve.losses.emplace();
  std::vector<Candidate> candidates = falling_runs(curve, runs);
  comparison.target = candidates.empty() ? kNoValue : common_target(candidates);
  if (std::isfinite(comparison.target))
    cross(candidates, curve);
  else
    candidates.clear();
  const std::vector<SizeValues> sizes = combine(candidates, curve.points.size());
  const SizeValues& base = sizes[*curve.base];
  for (size_t place = 0; place < curve.points.size(); ++place) {
    Point& point = curve.points[place];
    point.num_loss_values = sizes[place].logs.size();
    if (point.num_loss_values > 0) {
      point.samples_to_loss = estimate_of(sizes[place].mean);
      if (place == *curve.base)
        point.samples_to_loss_ratio = {.value = 1}, point.loss_verdict = "base";
      else if (base.logs.empty())
        point.loss_refusal = "the base has no such number";
      else
        fill_ratio(point, sizes[place], base);
    } else if (point.loss_refusal.empty()) {
      point.loss_refusal = "the losses of the sizes have no range in common in which all of them fall";
    }
    if (point.loss_verdict.empty()) point.loss_verdict = "cannot be told: " + point.loss_refusal;
  }
}

draw::Table loss_table(const Curve& curve) {
  draw::Table table{.id = "samples-to-loss-" + curve.id,
                    .title = "Training efficiency, samples to the same loss: " + curve.name};
  if (!curve.losses) return table;
  const LossComparison& comparison = *curve.losses;
  table.caption =
      "Samples until the training loss falls to the target, over those of the base, with a 95 % interval: above 1, "
      "scaling out costs samples that no throughput shows. ";
  if (std::isfinite(comparison.target))
    table.caption += fmt::format(
        "Target {}: a tenth of the fall that all runs have in common above the highest of their ends (means over the "
        "first {:.0f} % of the shortest run's samples and over the last quarter of each). The crossing is that of a "
        "parabola in ln(samples) fitted to the losses from {:.2f} to {:.2f} times its samples, the same window for "
        "every run. ",
        figure_text(comparison.target), 100 * kStartShare, 1 / comparison.left, comparison.right);
  table.caption += fmt::format(
      "Its error is that of the fit over its slope, widened by the autocorrelation of the residuals; several jobs of a "
      "size: geometric mean and Student's t of their logarithms. An interval whose ends lie more than {:.1f}-fold "
      "apart tells nothing.",
      kMaxSpread);
  table.columns = {curve.is_by_devices ? column("devices", "devices") : column("nodes", "nodes"),
                   column("global batch", "global_batch"),
                   column("jobs", "jobs"),
                   column("target loss", "target_loss"),
                   column("samples to it", "samples_to_loss"),
                   column("ratio to base", "samples_to_loss_ratio"),
                   column("from", "ratio_low"),
                   column("to", "ratio_high"),
                   text_column("what it says", "verdict")};
  bool has_single = false;
  for (const Point& point : curve.points) {
    const auto& ratio = point.samples_to_loss_ratio;
    has_single |= point.num_loss_values == 1;
    const auto end_cell = [&](double end) { return ratio && ratio->has_range ? fixed_cell(end, 3) : draw::Cell{}; };
    table.rows.push_back({count_cell(point.size),
                          point.setup.global_batch ? count_cell(*point.setup.global_batch) : draw::Cell{},
                          count_cell(static_cast<int64_t>(point.num_loss_values)), figure_cell(comparison.target),
                          point.samples_to_loss ? figure_cell(*point.samples_to_loss) : draw::Cell{},
                          ratio ? fixed_cell(ratio->value, 3) : draw::Cell{}, end_cell(ratio ? ratio->low : kNoValue),
                          end_cell(ratio ? ratio->high : kNoValue), text_cell(point.loss_verdict)});
  }
  if (has_single)
    table.notes.push_back(
        "sizes with one job: what differs between jobs, as initial weights and the order of the data, is in the "
        "interval only as far as sizes with several jobs show it");
  return table;
}

}  // namespace lockstep::analysis
