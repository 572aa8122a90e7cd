#pragma once
#include <optional>
#include <string>
#include <vector>

#include "predict/forecast.h"
#include "predict/rivals.h"
#include "predict/table_curves.h"

namespace lockstep::predict {

/// A size to predict: as the curve counts, and what the model knows of it.
struct Target {
  double size = 0;
  Size at{};
};

/// A curve after calibration, with the sizes asked for.
struct CurvePrediction {
  MeasuredCurve curve{};
  std::vector<CurvePoint> calibration{};  ///< What was used; nothing else of the curve was.
  std::vector<KnownFact> facts{};
  std::vector<Target> targets{};  ///< One for each step of the forecast.
  Forecast forecast{};
};

/// What speaks against measured points, sorted by size: some that contradict each other at one size, devices that get
/// faster as they get more, one point alone.
std::vector<std::string> doubts_of(const MeasuredCurve& curve, const std::vector<CurvePoint>& points);

/// Names the calibration points outside the 90 % interval of their own fit: `fitted` are their predicted steps.
std::vector<std::string> unfit_texts(const MeasuredCurve& curve, const std::vector<CurvePoint>& points,
                                     const Forecast& fitted);

/// Names the targets beyond 32 times the largest calibrated size, which no measurement bounds; "" where there are none,
/// or where nothing calibrated.
std::string far_sizes_text(const CurvePrediction& prediction);

/// Names the targets whose batch has less than one sample for the devices that share one; "" where there are none, or
/// where the batch is not known.
std::string thin_sizes_text(const CurvePrediction& prediction);

/// Calibrates on the points up to `largest` (all of them without) and predicts `targets`. UsageError where no point
/// is that small.
CurvePrediction predict_curve(const MeasuredCurve& curve, std::optional<double> largest,
                              const std::vector<Target>& targets, const Sampling& sampling = {});

/// One point that was kept back.
struct JudgedPoint {
  CurvePoint point{};
  Interval predicted{};
  double error_pct = 0;  ///< Of throughput, predicted over measured - 1.
  bool in50 = false, in90 = false;
};

/// Mean absolute error of a rival on the same split, in percent; nothing where it could not be fitted.
struct RivalScore {
  Rival rival{};
  std::optional<double> mean_error_pct{};
};

/// How a curve's larger sizes were met by a prediction from its smaller ones.
struct Validation {
  CurvePrediction prediction{};
  std::vector<JudgedPoint> judged{};
  double mean_error_pct = 0, worst_error_pct = 0;  ///< Absolute.
  double coverage50 = 0, coverage90 = 0;           ///< Shares.
  double median_half_width_pct = 0;                ///< Of the 90 % intervals.
  std::vector<RivalScore> rivals{};
  bool beats_rivals() const;
};

/// Splits at `largest` and judges. Only the points up to it reach the model: a test holds that. UsageError where one
/// side of the split is empty.
Validation validate_curve(const MeasuredCurve& curve, double largest);

}  // namespace lockstep::predict
