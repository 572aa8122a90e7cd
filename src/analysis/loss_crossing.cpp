#include "analysis/loss_crossing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "record/measured_steps.h"
#include "stats/autocorrelation.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kRowsPerBlockRow = 100;  // a block is so much shorter than what lies before it
constexpr double kMinStartRows = 3, kEndShare = 0.25;
constexpr int kMaxRounds = 8;
constexpr double kSettled = 1e-3;

std::vector<LossPoint> finite_losses(const record::RunData& run) {
  std::vector<LossPoint> rows;
  double seen = 0, per_step = run.setup.global_batch ? static_cast<double>(*run.setup.global_batch) : NAN;
  for (size_t row = 0; row < run.steps.size(); ++row) {
    if (const double samples = record::value_or_nan(run.steps.samples, row); std::isfinite(samples)) per_step = samples;
    seen += per_step * record::steps_since_row_before(run.steps, row);
    const double recorded = record::value_or_nan(run.steps.samples_seen, row),
                 loss = record::value_or_nan(run.steps.loss, row);
    const double at = std::isfinite(recorded) ? recorded : seen;
    if (std::isfinite(loss) && std::isfinite(at) && at > 0) rows.push_back({.samples_seen = at, .loss = loss});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const LossPoint& a, const LossPoint& b) { return a.samples_seen < b.samples_seen; });
  return rows;
}

LossPoint mean_point(std::span<const LossPoint> points) {
  LossPoint sum{.num_rows = 0};
  for (const LossPoint& point : points) {
    sum.samples_seen += point.samples_seen * point.num_rows;
    sum.loss += point.loss * point.num_rows;
    sum.num_rows += point.num_rows;
  }
  return {.samples_seen = sum.samples_seen / sum.num_rows, .loss = sum.loss / sum.num_rows, .num_rows = sum.num_rows};
}

/// A parabola in u, fitted with weights.
struct Parabola {
  std::array<double, 3> coefficients{};
  std::array<std::array<double, 3>, 3>
      inverse{};  ///< Of the normal equations: the coefficients' covariance over the variance of a row.

  double at(double u) const { return coefficients[0] + u * (coefficients[1] + u * coefficients[2]); }
  double slope(double u) const { return coefficients[1] + 2 * u * coefficients[2]; }
  double relative_variance(double u) const {
    const std::array<double, 3> powers{1, u, u * u};
    double sum = 0;
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 3; ++j) sum += powers[i] * powers[j] * inverse[i][j];
    return sum;
  }
  /// Where it is `target`, the place next to 0; nothing where it never is.
  std::optional<double> next_to_zero(double target) const {
    const double c = coefficients[0] - target, b = coefficients[1], a = coefficients[2];
    const double under_root = b * b - 4 * a * c;
    if (under_root < 0 || b == 0) return std::nullopt;
    return -2 * c / (b + std::copysign(std::sqrt(under_root), b));
  }
};

/// Nothing where the points do not tell three coefficients.
std::optional<Parabola> fit_parabola(std::span<const LossPoint> points, double centre) {
  std::array<double, 5> moments{};
  std::array<double, 3> right{};
  for (const LossPoint& point : points) {
    const double u = std::log(point.samples_seen) - centre;
    double power = point.num_rows;
    for (size_t i = 0; i < 5; ++i, power *= u) {
      moments[i] += power;
      if (i < 3) right[i] += power * point.loss;
    }
  }
  const auto m = [&](size_t i, size_t j) { return moments[i % 3 + j % 3]; };
  Parabola parabola;
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j)
      parabola.inverse[i][j] =
          m(i + 1, j + 1) * m(i + 2, j + 2) - m(i + 1, j + 2) * m(i + 2, j + 1);  // cofactors of a symmetric matrix
  double determinant = 0;
  for (size_t j = 0; j < 3; ++j) determinant += m(0, j) * parabola.inverse[0][j];
  if (!(determinant > 1e-12 * moments[0] * moments[2] * moments[4])) return std::nullopt;
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) {
      parabola.inverse[i][j] /= determinant;
      parabola.coefficients[i] += parabola.inverse[i][j] * right[j];
    }
  return parabola;
}

std::span<const LossPoint> points_between(std::span<const LossPoint> points, double low, double high) {
  const auto before = [](const LossPoint& point, double samples) { return point.samples_seen < samples; };
  const auto begin = std::lower_bound(points.begin(), points.end(), low, before),
             end = std::lower_bound(begin, points.end(), high, before);
  return points.subspan(static_cast<size_t>(begin - points.begin()), static_cast<size_t>(end - begin));
}

/// Variance of the parabola's crossing at `u`, from what its points are off it.
void fill_variance(std::span<const LossPoint> points, const Parabola& parabola, double centre, double u,
                   LossCrossing& crossing) {
  std::vector<double> residuals;
  double squares = 0;
  for (const LossPoint& point : points) {
    const double off = point.loss - parabola.at(std::log(point.samples_seen) - centre);
    residuals.push_back(off * std::sqrt(point.num_rows));
    squares += residuals.back() * residuals.back();
  }
  const stats::Dependence dependence = stats::estimate_dependence(stats::normal_scores(residuals), 2);
  const double time = std::max(1.0, dependence.time_mean), count = static_cast<double>(points.size()),
               slope = parabola.slope(u);
  const double of_row =
      squares / std::max(1.0, count - 3 * time);  // each coefficient takes as many values with it as are worth one
  crossing.variance = of_row * parabola.relative_variance(u) * time / (slope * slope);
  crossing.dof = dependence.dof;
}
}  // namespace

std::vector<LossPoint> loss_points(const record::RunData& run) {
  const std::vector<LossPoint> rows = finite_losses(run);
  std::vector<LossPoint> points;
  for (size_t begin = 0; begin < rows.size();) {
    const size_t count = std::min(std::max<size_t>(1, begin / kRowsPerBlockRow), rows.size() - begin);
    points.push_back(mean_point(std::span(rows).subspan(begin, count)));
    begin += count;
  }
  return points;
}

std::vector<LossPoint> window_means(std::span<const LossPoint> points, size_t count) {
  std::vector<LossPoint> means;
  const double width = points.empty() ? 0 : points.back().samples_seen / static_cast<double>(count);
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    const double window = std::ceil(points[begin].samples_seen / width);
    while (end < points.size() && std::ceil(points[end].samples_seen / width) == window) ++end;
    means.push_back(mean_point(points.subspan(begin, end - begin)));
  }
  return means;
}

LossLevels loss_levels(std::span<const LossPoint> points, double start_samples) {
  size_t num_start = 0, first_end = points.size() - 1;
  for (double rows = 0;
       num_start < points.size() && (points[num_start].samples_seen <= start_samples || rows < kMinStartRows);
       ++num_start)
    rows += points[num_start].num_rows;
  while (first_end > 0 && points[first_end - 1].samples_seen > (1 - kEndShare) * points.back().samples_seen)
    --first_end;
  const LossPoint start = mean_point(points.first(num_start)), end = mean_point(points.subspan(first_end));
  double squares = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const double gap = points[i].loss - points[i - 1].loss;
    squares += gap * gap / (1 / points[i].num_rows + 1 / points[i - 1].num_rows);
  }
  const double of_row = squares / static_cast<double>(points.size() - 1);
  return {.start = start.loss, .end = end.loss, .error = std::sqrt(of_row * (1 / start.num_rows + 1 / end.num_rows))};
}

double first_crossing(std::span<const LossPoint> points, double target) {
  std::vector<LossPoint> pools;  // pool adjacent violators: whatever rises is one level with what lies before it
  for (const LossPoint& point : points) {
    LossPoint pool = point;
    while (!pools.empty() && pools.back().loss <= pool.loss) {
      const std::array<LossPoint, 2> both{pools.back(), pool};
      pool = mean_point(both);
      pools.pop_back();
    }
    pools.push_back(pool);
  }
  const auto below =
      std::find_if(pools.begin(), pools.end(), [&](const LossPoint& pool) { return pool.loss <= target; });
  if (below == pools.begin() || below == pools.end()) return NAN;
  const LossPoint& above = *std::prev(below);
  const double share = (above.loss - target) / (above.loss - below->loss);
  return std::exp(std::lerp(std::log(above.samples_seen), std::log(below->samples_seen), share));
}

LossCrossing loss_crossing(std::span<const LossPoint> points, double target, double first_guess, double left,
                           double right) {
  LossCrossing crossing{.log_samples = std::log(first_guess)};
  for (int round = 0; round < kMaxRounds; ++round) {
    const double centre = crossing.log_samples;
    const auto near = points_between(points, std::exp(centre) / left, std::exp(centre) * right);
    if (near.size() < kMinLosses) {
      crossing.refusal =
          fmt::format("only {} losses were logged around the target, {} are needed", near.size(), kMinLosses);
      return crossing;
    }
    const auto parabola = fit_parabola(near, centre);
    const auto u = parabola ? parabola->next_to_zero(target) : std::nullopt;
    if (!u || !(parabola->slope(*u) < 0) || *u < -std::log(left) || *u > std::log(right)) {
      crossing.refusal = "around the target its loss does not fall by more than its noise";
      return crossing;
    }
    crossing.log_samples = centre + *u;
    if (std::fabs(*u) > kSettled && round + 1 < kMaxRounds) continue;
    fill_variance(near, *parabola, centre, *u, crossing);
    break;
  }
  return crossing;
}

}  // namespace lockstep::analysis
