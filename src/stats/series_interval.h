#pragma once
#include <optional>
#include <span>

#include "stats/autocorrelation.h"
#include "stats/series_summary.h"

namespace lockstep::stats {

inline constexpr double kConfidence = 0.95;
/// Fewer values than this give no interval within a run: their autocorrelation cannot be estimated.
inline constexpr size_t kMinIntervalValues = 20;

/// Two-sided 95 % quantile of Student's t law.
double t_factor(double dof);

/// Interval of the median of a stationary, autocorrelated series: quantiles of the values at the levels Phi(-h) and
/// Phi(h), where h is the t quantile times the standard error of the median in normal scores. No distribution is
/// assumed; the dependence is modelled (autocorrelation.h). Nothing below kMinIntervalValues values or four effective
/// ones.
std::optional<Interval> median_interval(std::span<const double> sorted, const Dependence& dependence);
/// Interval of a high quantile (`percent` of 50 and more): the values at the two ranks between which the quantile of
/// as many independent values as `dependence` makes of these lies (binomial law), the tails of that law as wide as
/// Student's t asks for. Nothing where these are too few: the 99 % quantile needs 368 independent values, the 90 %
/// quantile 36, and more the less is known of the dependence.
std::optional<Interval> quantile_interval(std::span<const double> sorted, double percent, const Dependence& dependence);
/// median_interval() in words, for reports; change it with the function.
inline constexpr const char* kMedianIntervalMethod =
    "the range between two ranks around the median, as far from it as Student's t asks for, widened by the "
    "autocorrelation time of an autoregressive model of the steps' normal scores";
/// Interval of the mean with the same dependence.
std::optional<Interval> mean_interval(std::span<const double> values, const Dependence& dependence);

/// How often a value of `a` lies above one of `b`, ties as halves, in O(n log n).
struct RankWins {
  double wins = 0;
  bool has_ties = false;
};
RankWins count_rank_wins(std::span<const double> a, std::span<const double> b);

}  // namespace lockstep::stats
