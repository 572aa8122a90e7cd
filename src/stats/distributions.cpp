#include "stats/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"

namespace lockstep::stats {
namespace {

/// Continued fraction of the incomplete beta function (DLMF 8.17.22), evaluated from the front with Lentz's method.
/// Converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::fabs(value) < kTiny ? kTiny : value; };
  double numerator = 1, denominator = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = denominator;
  for (int m = 1; m <= 500; ++m) {
    const auto advance = [&](double term) {
      denominator = 1 / away_from_zero(1 + term * denominator);
      numerator = away_from_zero(1 + term / numerator);
      value *= numerator * denominator;
      return numerator * denominator;
    };
    advance(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    const double factor = advance(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::fabs(factor - 1) < 1e-15) break;
  }
  return value;
}

/// Of x > 0. std::lgamma writes the sign of the gamma function into a variable that all threads share.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

/// Regularised incomplete beta function; `rest` = 1 - x, given apart because it may be tiny.
double incomplete_beta(double a, double b, double x, double rest) {
  if (x <= 0) return 0;
  if (rest <= 0) return 1;
  const double scale = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log(rest));
  return x < (a + 1) / (a + b + 2) ? scale * beta_fraction(a, b, x) / a : 1 - scale * beta_fraction(b, a, rest) / b;
}

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

}  // namespace

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double normal_quantile(double p) {
  LOCKSTEP_CHECK(p > 0 && p < 1, "p={}", p);
  if (p > 0.5) return -normal_quantile(1 - p);
  if (p == 0.5) return 0;
  // Abramowitz and Stegun 26.2.23 is within 5e-4; each of Halley's steps triples the correct digits.
  const double t = std::sqrt(-2 * std::log(p));
  double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int i = 0; i < 2; ++i) {
    const double step = (normal_cdf(x) - p) / normal_density(x);
    x -= step / (1 + x * step / 2);
  }
  return x;
}

double student_t_cdf(double t, double dof) {
  LOCKSTEP_CHECK(dof > 0, "dof={}", dof);
  const double x = dof / (dof + t * t);
  const double tail = 0.5 * incomplete_beta(dof / 2, 0.5, x, t * t / (dof + t * t));
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double dof) {
  LOCKSTEP_CHECK(p > 0 && p < 1 && dof >= 1, "p={} dof={}", p, dof);
  if (p > 0.5) return -student_t_quantile(1 - p, dof);
  if (p == 0.5) return 0;
  double high = normal_quantile(p), low = 2 * high;  // Student's tails are the heavier ones
  while (student_t_cdf(low, dof) > p) low *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * -low; ++i) {
    const double middle = (low + high) / 2;
    (student_t_cdf(middle, dof) > p ? high : low) = middle;
  }
  return (low + high) / 2;
}

}  // namespace lockstep::stats
