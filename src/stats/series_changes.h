#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::stats {

/// Changes of level inside a series without warm-up. Each test is made on normal scores, with the long-run variance of
/// what is left when the change has been removed, so that a series without any change is reported with one in at most 4
/// % of cases (series_test.cpp measures it).
struct SeriesChanges {
  std::vector<size_t> shifts{};            ///< First step of each new level, ascending.
  std::optional<double> drift_per_1000{};  ///< Per 1,000 values: Theil-Sen slope over the median, where it differs from
                                           ///< 0 and explains more than shifts do.
};

/// Below 40 values nothing is looked for.
SeriesChanges find_changes(std::span<const double> values);

}  // namespace lockstep::stats
