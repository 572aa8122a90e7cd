#pragma once
#include <span>
#include <string>
#include <vector>

#include "record/run_data.h"

namespace lockstep::analysis {

/// Mean loss of some successive rows of a run.
struct LossPoint {
  double samples_seen = 0;  ///< Mean over the rows.
  double loss = 0;
  double num_rows = 1;
};

/// Losses of all rows that have one, of all attempts, ascending in samples seen. A block holds a hundredth of the rows
/// before it, at least one: 400 points for 2,000 rows, 1,100 for two million, and near any number of samples as many
/// points as in a curve stretched to more of them.
std::vector<LossPoint> loss_points(const record::RunData& run);
/// The same over at most `count` equal windows of samples, for drawing.
std::vector<LossPoint> window_means(std::span<const LossPoint> points, size_t count);

/// How far a curve falls.
struct LossLevels {
  double start = 0;  ///< Mean up to `start_samples`, of three rows at least.
  double end = 0;    ///< Mean of the last quarter of its samples.
  /// Standard error of the difference, by the differences of neighbouring points; slow noise is not in it.
  double error = 0;
};
/// At least two points.
LossLevels loss_levels(std::span<const LossPoint> points, double start_samples);

/// Samples at which the non-increasing curve of least squares falls to `target`, between its points on a straight line
/// over ln(samples): a first guess that bends to noise. NaN: it begins below, or never gets there.
double first_crossing(std::span<const LossPoint> points, double target);

/// So many losses are needed, and as many around a crossing: fewer do not tell a parabola, its noise and how that
/// depends on itself.
inline constexpr size_t kMinLosses = 12;

/// Samples that a run needs to a loss, on natural logarithms.
struct LossCrossing {
  double log_samples = 0, variance = 0, dof = 1;
  std::string refusal{};  ///< Not empty: why it is unknown; the numbers mean nothing then.
};
/// Crossing of a parabola in ln(samples), fitted to the points from crossing / left to crossing x right. The variance
/// is that of the fit over its squared slope, widened by the autocorrelation time of the residuals. Curves that differ
/// by a factor of samples only cross that factor apart: what the parabola misses is in both.
LossCrossing loss_crossing(std::span<const LossPoint> points, double target, double first_guess, double left,
                           double right);

}  // namespace lockstep::analysis
