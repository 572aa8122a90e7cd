#include "stats/autocorrelation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/error.h"
#include "stats/distributions.h"
#include "stats/statistics.h"

namespace lockstep::stats {
namespace {

constexpr double kMaxPersistence = 0.98;
// Short independent series seem less than independent half of the time; to take all of those as independent would widen
// their intervals too much.
constexpr double kMinTime = 0.75;

/// Grows with the length, so that slow noise under fast noise is seen in long series; an order chosen by AICc missed
/// it, and the intervals of 300 such steps covered 0.89 instead of 0.95.
size_t choose_order(size_t count) {
  return std::min(static_cast<size_t>(std::lround(std::cbrt(static_cast<double>(count)))), count / 10 + 1);
}

/// Coefficients of an autoregressive model by Burg's recursion; of a lower order where that leaves nothing.
std::vector<double> fit_burg(std::span<const double> values, size_t max_order) {
  std::vector<double> forward(values.begin(), values.end()), backward = forward;
  std::vector<double> coefficients;
  for (size_t order = 1; order <= max_order; ++order) {
    double cross = 0, energy = 0;
    for (size_t i = order; i < values.size(); ++i) {
      cross += forward[i] * backward[i - 1];
      energy += forward[i] * forward[i] + backward[i - 1] * backward[i - 1];
    }
    if (energy <= 0) break;
    const double reflection = 2 * cross / energy;
    for (size_t i = values.size() - 1; i >= order; --i) {
      const double ahead = forward[i];
      forward[i] = ahead - reflection * backward[i - 1];
      backward[i] = backward[i - 1] - reflection * ahead;
    }
    std::vector<double> next(order);
    for (size_t j = 0; j + 1 < order; ++j) next[j] = coefficients[j] - reflection * coefficients[order - 2 - j];
    next[order - 1] = reflection;
    coefficients = std::move(next);
  }
  return coefficients;
}

/// Solves a system of linear equations; each row ends with its right side. A singular one gives values that are not
/// finite.
std::vector<double> solve(std::vector<std::vector<double>> rows) {
  const size_t count = rows.size();
  for (size_t column = 0; column < count; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < count; ++row)
      if (std::fabs(rows[row][column]) > std::fabs(rows[pivot][column])) pivot = row;
    std::swap(rows[column], rows[pivot]);
    for (size_t row = 0; row < count; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (size_t i = column; i <= count; ++i) rows[row][i] -= factor * rows[column][i];
    }
  }
  std::vector<double> solution;
  for (size_t row = 0; row < count; ++row) solution.push_back(rows[row][count] / rows[row][row]);
  return solution;
}

/// Autocorrelations 1, rho_1, rho_2, ... of an autoregressive process until they stay below 0.001 (at most `max_lag`).
std::vector<double> model_autocorrelations(std::span<const double> coefficients, size_t max_lag) {
  const size_t order = coefficients.size();
  // Yule-Walker equations for rho_1..rho_p: rho_k - sum_j phi_j rho_|k-j| = 0 with rho_0 = 1.
  std::vector<std::vector<double>> rows(order, std::vector<double>(order + 1, 0));
  for (size_t k = 1; k <= order; ++k) {
    rows[k - 1][k - 1] += 1;
    for (size_t j = 1; j <= order; ++j) {
      const size_t lag = k > j ? k - j : j - k;
      if (lag == 0)
        rows[k - 1][order] += coefficients[j - 1];
      else
        rows[k - 1][lag - 1] -= coefficients[j - 1];
    }
  }
  std::vector<double> rho{1};
  for (const double value : solve(std::move(rows)))
    rho.push_back(std::isfinite(value) ? std::clamp(value, -1.0, 1.0) : 1.0);
  for (size_t num_small = 0; order > 0 && rho.size() <= max_lag && num_small <= order;) {
    double next = 0;
    for (size_t j = 1; j <= order; ++j) next += coefficients[j - 1] * rho[rho.size() - j];
    rho.push_back(std::clamp(next, -1.0, 1.0));
    num_small = std::fabs(next) < 1e-3 ? num_small + 1 : 0;
  }
  return rho;
}

/// Variance of the sum of the estimated coefficients, times the number of values: sigma^2 1' G^-1 1 with the
/// autocorrelation matrix G.
double variance_of_sum(std::span<const double> coefficients, std::span<const double> rho) {
  const size_t order = coefficients.size();
  std::vector<std::vector<double>> rows(order, std::vector<double>(order + 1, 1));
  double innovation = 1;
  for (size_t i = 0; i < order; ++i) {
    for (size_t j = 0; j < order; ++j) rows[i][j] = rho[i > j ? i - j : j - i];
    innovation -= coefficients[i] * rho[i + 1];
  }
  const std::vector<double> solution = solve(std::move(rows));
  const double variance = std::accumulate(solution.begin(), solution.end(), 0.0) * innovation;
  return std::isfinite(variance) ? std::max(0.0, variance) : static_cast<double>(order);
}

}  // namespace

std::vector<double> normal_scores(std::span<const double> values) {
  const size_t count = values.size();
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> scores(count);
  for (size_t begin = 0; begin < count;) {
    size_t end = begin + 1;
    while (end < count && values[order[end]] == values[order[begin]]) ++end;
    const double score = normal_quantile(static_cast<double>(begin + end) / 2 / static_cast<double>(count));
    for (size_t i = begin; i < end; ++i) scores[order[i]] = score;
    begin = end;
  }
  return scores;
}

double autocorrelation(std::span<const double> values, size_t lag) {
  if (values.size() <= lag) return 0;
  const double centre = mean(values);
  double product = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    square += (values[i] - centre) * (values[i] - centre);
    if (i >= lag) product += (values[i] - centre) * (values[i - lag] - centre);
  }
  return square > 0 ? product / square : 0;
}

Dependence estimate_dependence(std::span<const double> scores, size_t num_fitted) {
  LOCKSTEP_CHECK(scores.size() >= 8, "count={}", scores.size());
  const double n = static_cast<double>(scores.size());
  const double centre = mean(scores);
  std::vector<double> centred;
  centred.reserve(scores.size());
  for (const double score : scores) centred.push_back(score - centre);
  Dependence result{.num_values = scores.size()};
  std::vector<double> phi = fit_burg(centred, choose_order(scores.size()));
  const double raw = std::accumulate(phi.begin(), phi.end(), 0.0);
  const double extra = static_cast<double>(num_fitted);
  // Removing the mean biases the estimated persistence of an AR(1) by -(1 + 3 phi) / n (Kendall), each further fitted
  // level or slope by about
  // -(1 + phi) / n; models of higher order can bend after what was fitted, in proportion to their coefficients.
  const double bending = static_cast<double>(phi.size() + 1) / 2;
  const double bias = phi.empty() ? 0 : (1 + 3 * raw + extra * bending * (1 + raw)) / n;
  result.persistence = std::min(kMaxPersistence, raw + bias);
  for (double& value : phi) value += (result.persistence - raw) / static_cast<double>(phi.size());
  const std::vector<double> rho = model_autocorrelations(phi, scores.size() - 1);
  double sum_mean = 0, sum_median = 0;
  for (size_t lag = 1; lag < rho.size(); ++lag) {
    sum_mean += rho[lag];
    sum_median += 2 / std::numbers::pi * std::asin(rho[lag]);  // correlation of the signs of two jointly normal values
  }
  result.time_mean = std::max(kMinTime, 1 + 2 * sum_mean);
  result.time_median = std::max(kMinTime, 1 + 2 * sum_median);
  // log of the long-run variance = log of the residual variance - 2 log(1 - persistence): its variance gives the
  // degrees of freedom. Where the least time is taken instead, only the residual variance is uncertain.
  const double gap = 1 - result.persistence;
  const double of_sum = 1 + 2 * sum_mean > kMinTime ? variance_of_sum(phi, rho) : 0;
  result.dof = std::max(1.0, 2 / (2 / (n - 1 - extra) + 4 * of_sum / n / (gap * gap)));
  return result;
}

}  // namespace lockstep::stats
