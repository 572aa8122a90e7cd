#include "record/autocorrelation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/error.h"
#include "record/distributions.h"
#include "record/statistics.h"

namespace lockstep::record {
namespace {

constexpr size_t kMaxOrder = 5;
constexpr double kMaxPersistence = 0.98;

/// Burg's recursion: coefficients of every order up to `max_order`, and the residual variance of each.
struct BurgFit {
  std::vector<std::vector<double>> coefficients{};  ///< [order]
  std::vector<double> variance{};
};

BurgFit fit_burg(std::span<const double> values, size_t max_order) {
  std::vector<double> forward(values.begin(), values.end()), backward = forward;
  double power = 0;
  for (const double value : values) power += value * value;
  BurgFit fit{.coefficients = {{}}, .variance = {power / static_cast<double>(values.size())}};
  for (size_t order = 1; order <= max_order && fit.variance.back() > 0; ++order) {
    double cross = 0, energy = 0;
    for (size_t i = order; i < values.size(); ++i) {
      cross += forward[i] * backward[i - 1];
      energy += forward[i] * forward[i] + backward[i - 1] * backward[i - 1];
    }
    const double reflection = energy > 0 ? 2 * cross / energy : 0;
    for (size_t i = values.size() - 1; i >= order; --i) {
      const double ahead = forward[i];
      forward[i] = ahead - reflection * backward[i - 1];
      backward[i] = backward[i - 1] - reflection * ahead;
    }
    const std::vector<double>& previous = fit.coefficients.back();
    std::vector<double> next(order);
    for (size_t j = 0; j + 1 < order; ++j) next[j] = previous[j] - reflection * previous[order - 2 - j];
    next[order - 1] = reflection;
    fit.coefficients.push_back(std::move(next));
    fit.variance.push_back(fit.variance.back() * (1 - reflection * reflection));
  }
  return fit;
}

size_t choose_order(const BurgFit& fit, size_t count, size_t num_fitted) {
  if (fit.variance[0] <= 0) return 0;
  size_t best = 1;  // never 0: a criterion misses the weak dependence of short series, which still widens their intervals
  double best_score = std::numeric_limits<double>::infinity();
  for (size_t order = 1; order < fit.variance.size(); ++order) {
    if (fit.variance[order] <= 0) return order;
    const double n = static_cast<double>(count), k = static_cast<double>(order + 2 + num_fitted);
    const double score = n * std::log(fit.variance[order]) + 2 * k * n / std::max(1.0, n - k - 1);
    if (score < best_score) best_score = score, best = order;
  }
  return best;
}

/// Autocorrelations 1, rho_1, rho_2, ... of an autoregressive process until they stay below 0.001 (at most `max_lag`).
std::vector<double> model_autocorrelations(std::span<const double> coefficients, size_t max_lag) {
  const size_t order = coefficients.size();
  // Yule-Walker equations for rho_1..rho_p: rho_k - sum_j phi_j rho_|k-j| = 0 with rho_0 = 1.
  std::vector<std::vector<double>> matrix(order, std::vector<double>(order + 1, 0));
  for (size_t k = 1; k <= order; ++k) {
    matrix[k - 1][k - 1] += 1;
    for (size_t j = 1; j <= order; ++j) {
      const size_t lag = k > j ? k - j : j - k;
      if (lag == 0) matrix[k - 1][order] += coefficients[j - 1];
      else matrix[k - 1][lag - 1] -= coefficients[j - 1];
    }
  }
  for (size_t column = 0; column < order; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < order; ++row)
      if (std::fabs(matrix[row][column]) > std::fabs(matrix[pivot][column])) pivot = row;
    std::swap(matrix[column], matrix[pivot]);
    for (size_t row = 0; row < order; ++row) {
      if (row == column || matrix[column][column] == 0) continue;
      const double factor = matrix[row][column] / matrix[column][column];
      for (size_t i = column; i <= order; ++i) matrix[row][i] -= factor * matrix[column][i];
    }
  }
  std::vector<double> rho{1};
  for (size_t k = 0; k < order; ++k) rho.push_back(std::clamp(matrix[k][order] / matrix[k][k], -1.0, 1.0));
  for (size_t num_small = 0; order > 0 && rho.size() <= max_lag && num_small <= order;) {
    double next = 0;
    for (size_t j = 1; j <= order; ++j) next += coefficients[j - 1] * rho[rho.size() - j];
    rho.push_back(std::clamp(next, -1.0, 1.0));
    num_small = std::fabs(next) < 1e-3 ? num_small + 1 : 0;
  }
  return rho;
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
  Dependence result{.num_values = scores.size(), .lag1 = autocorrelation(scores, 1)};
  const BurgFit fit = fit_burg(centred, std::min(kMaxOrder, scores.size() / 10 + 1));
  const size_t order = choose_order(fit, scores.size(), num_fitted);
  std::vector<double> phi = fit.coefficients[order];
  const double raw = std::accumulate(phi.begin(), phi.end(), 0.0);
  const double extra = static_cast<double>(num_fitted);
  // Removing the mean biases the estimated persistence of an AR(1) by -(1 + 3 phi) / n (Kendall), each further fitted level or slope by about
  // -(1 + phi) / n.
  const double bias = order == 0 ? 0 : (1 + 3 * raw + extra * (1 + raw)) / n;
  result.persistence = std::min(kMaxPersistence, raw + bias);
  for (double& value : phi) value += (result.persistence - raw) / static_cast<double>(std::max<size_t>(1, order));
  const std::vector<double> rho = model_autocorrelations(phi, scores.size() - 1);
  double sum_mean = 0, sum_median = 0;
  for (size_t lag = 1; lag < rho.size(); ++lag) {
    sum_mean += rho[lag];
    sum_median += 2 / std::numbers::pi * std::asin(rho[lag]);  // correlation of the signs of two jointly normal values
  }
  result.time_mean = std::max(1.0, 1 + 2 * sum_mean);
  result.time_median = std::max(1.0, 1 + 2 * sum_median);
  // log of the long-run variance = log of the residual variance - 2 log(1 - persistence): its variance gives the degrees of freedom.
  const double gap = 1 - result.persistence;
  const double log_variance = 2 / (n - 1 - extra) + (order == 0 ? 0 : 4 * (1 - std::min(0.999, result.persistence * result.persistence)) / n / (gap * gap));
  result.dof = std::max(1.0, 2 / log_variance);
  return result;
}

}  // namespace lockstep::record
