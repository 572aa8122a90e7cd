#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "stats/series_summary.h"

namespace lockstep::stats {

/// Values further than 5 robust standard deviations from the median, in order. Runs of five and more are a regime;
/// three and more at equal distances that fill most places of their grid are periodic (checkpoint, evaluation, garbage
/// collection, log flush).
std::vector<Outlier> find_outliers(std::span<const double> values);

/// Share of values in the undisturbed core: those below the shortest 30 %'s centre + 5 deviations, taken from the
/// values below it and from its width. Unlike a rule around the median this also holds where most steps are disturbed.
double find_elbow(std::span<const double> sorted);

/// Number of steps over which single values must be averaged because they show launch pacing and not execution; 1:
/// none. Found where the lag-1 autocorrelation is below -0.3, or where most steps are far shorter than their mean and
/// the spread of block means falls nearly like 1 / k instead of 1 / sqrt(k). A slow step now and then is none, nor is
/// one in every third or later step beside steps that take their time.
size_t find_pacing_block(std::span<const double> values);

/// Means of successive blocks; what is left at the end is dropped.
std::vector<double> block_means(std::span<const double> values, size_t block);

}  // namespace lockstep::stats
