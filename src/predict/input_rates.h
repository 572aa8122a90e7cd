#pragma once
#include <span>
#include <string>
#include <vector>

#include "predict/forecast.h"
#include "predict/table_curves.h"

namespace lockstep::predict {

/// What is known of the input, as a fact: its rates, else that it is not known. `unknown` says what that means.
KnownFact input_fact(const InputRates& rates, const std::string& unknown);

/// What limits a predicted step of the curve: "loader" of a node, "storage"; "" where it is not the input.
std::string input_limit(const MeasuredCurve& curve, const PredictedStep& step);

/// The sizes, as the curve counts them, at which the input limits the steps; "" where there are none.
std::string input_limit_text(const MeasuredCurve& curve, std::span<const double> sizes,
                             std::span<const PredictedStep> steps);

/// Names calibration points that were as long as their input takes, which tell no more than an upper bound of compute,
/// and those that were shorter; "" where there are none.
std::string input_doubt_text(const MeasuredCurve& curve, const std::vector<CurvePoint>& points);

}  // namespace lockstep::predict
